// SPDX-License-Identifier: 0BSD
// The device side of USB (RP2040 datasheet, 4.1; RP2350's controller is the same) with one
// function, a serial port (CDC ACM: CDC 1.2, PSTN 1.2). Endpoint 0 is for control, 1 for notices
// that never come, 2 for the bytes. The interrupt serves the host while an inference runs. A packet
// waits in the controller's memory until it is read, and the host waits meanwhile.
#include "sh_usb.h"

#include <stdbool.h>
#include <stddef.h>

#include "sh_board.h"
#include "sh_reg.h"
#include "sh_rp2.h"
#include "sh_rp2_core.h"
#include "sh_usb_descriptors.h"

#define DPRAM 0x50100000u
#define IN_CONTROL(endpoint) (DPRAM + 8u * (endpoint)) // of endpoints 1 to 15
#define OUT_CONTROL(endpoint) (IN_CONTROL(endpoint) + 4u)
#define IN_BUFFER(endpoint) (DPRAM + 0x80u + 8u * (endpoint))
#define OUT_BUFFER(endpoint) (IN_BUFFER(endpoint) + 4u)
#define CONTROL_ENABLE ((1u << 31) | (1u << 29)) // and a status bit for each packet
#define CONTROL_BULK (2u << 26)
#define CONTROL_INTERRUPT (3u << 26)
#define BUFFER_FULL (1u << 15)
#define BUFFER_DATA1 (1u << 13)
#define BUFFER_STALL (1u << 11)
#define BUFFER_AVAILABLE                                                                           \
    (1u << 10) // the controller's; it clears the bit when the packet is through
#define BUFFER_LENGTH 0x3FFu

#define CONTROL_DATA 0x100u // where the packets are, from the beginning of the memory
#define NOTICE_DATA 0x180u
#define IN_DATA 0x1C0u
#define OUT_DATA 0x200u

#define USB 0x50110000u
#define USB_ADDRESS (USB + 0x00u)
#define USB_MAIN_CTRL (USB + 0x40u)
#define USB_SIE_CTRL (USB + 0x4Cu)
#define USB_SIE_STATUS (USB + 0x50u)
#define USB_BUFF_STATUS (USB + 0x58u)
#define USB_STALL_ARM (USB + 0x68u)
#define USB_MUXING (USB + 0x74u)
#define USB_PWR (USB + 0x78u)
#define USB_INTE (USB + 0x90u)
#define MAIN_ENABLE 1u
#define SIE_CTRL_PULL_UP (1u << 16)
#define SIE_CTRL_STATUS_OF_0 (1u << 29)
#define SIE_STATUS_SETUP (1u << 17)
#define SIE_STATUS_RESET (1u << 19)
#define MUXING_TO_PHY ((1u << 0) | (1u << 3))
#define PWR_VBUS ((1u << 2) | (1u << 3)) // as if detected: no pin is spent on it
#define INTE_WANTED ((1u << 4) | (1u << 12) | (1u << 16))
#define OF_IN(endpoint) (1u << (2u * (endpoint)))
#define OF_OUT(endpoint) (2u << (2u * (endpoint)))

#define PACKET SH_USB_PACKET
#define MOST 63u // bytes of a packet to the host, for which a full one would mean that more follows
#define TRIES 250000u // for a byte to the host, of 79 clocks each

#define SERIAL SH_USB_SERIAL

static const uint8_t zeros[2];

static uint8_t line_coding[7] = {SH_USB_LOW_HIGH(0xC200), 1, 0, 0, 0, 8}; // 115200 8N1: no matter

// What endpoint 0 does.
static struct {
    const uint8_t *data; // still to be sent
    uint32_t left;
    uint32_t data1;    // of the next packet to the host
    bool answers;      // the transfer has data to the host, and ends with an empty packet from it
    bool takes_coding; // it has data from the host
    uint32_t address;  // ours after the transfer
    uint8_t value;     // of a short answer
} control;

// The serial port.
static struct {
    bool configured;
    bool heard;       // the host has sent a byte since it opened the port
    uint32_t to_host; // BUFFER_DATA1 or 0, of the next packet
    uint32_t from_host;
    uint32_t received; // bytes of the packet that is being read
    uint32_t taken;    // of these
    uint32_t count;    // bytes that wait in `out`
    uint8_t out[MOST];
} serial;

static volatile uint8_t *packet(uint32_t offset)
{
    return (volatile uint8_t *)(uintptr_t)(DPRAM + offset);
}

// The controller sees the bit AVAILABLE last: at least one of its clocks after the others
// (4.1.2.5.1).
static void hand_over(uintptr_t buffer, uint32_t value)
{
    SH_REG(buffer) = value;
    for (volatile uint32_t clocks = 0; clocks < 4; clocks++) {
    }
    SH_REG(buffer) = value | BUFFER_AVAILABLE;
}

// The next packet of an answer; an empty one where nothing is left.
static void control_send(void)
{
    uint32_t count = control.left < PACKET ? control.left : PACKET;
    for (uint32_t i = 0; i < count; i++) {
        packet(CONTROL_DATA)[i] = control.data[i];
    }
    control.data += count;
    control.left -= count;
    hand_over(IN_BUFFER(0), BUFFER_FULL | control.data1 | count);
    control.data1 ^= BUFFER_DATA1;
}

static void answer(const uint8_t *data, uint32_t count, uint32_t most)
{
    control.data = data;
    control.left = count < most ? count : most;
    control.answers = true;
    control_send();
}

static void acknowledge(void)
{
    control.left = 0;
    control_send();
}

static void stall(void)
{
    SH_REG(USB_STALL_ARM) = 3;
    SH_REG(IN_BUFFER(0)) = BUFFER_STALL;
    SH_REG(OUT_BUFFER(0)) = BUFFER_STALL;
}

static void listen(void)
{
    serial.received = 0;
    serial.taken = 0;
    hand_over(OUT_BUFFER(SERIAL), serial.from_host | PACKET);
}

static void forget(void)
{
    serial.heard = false;
    serial.count = 0;
}

static void configure(bool on)
{
    forget();
    serial.configured = on;
    serial.to_host = 0;
    serial.from_host = 0;
    SH_REG(IN_BUFFER(SERIAL)) = 0;
    SH_REG(OUT_BUFFER(SERIAL)) = 0;
    SH_REG(IN_CONTROL(1)) = on ? CONTROL_ENABLE | CONTROL_INTERRUPT | NOTICE_DATA : 0;
    SH_REG(IN_CONTROL(SERIAL)) = on ? CONTROL_ENABLE | CONTROL_BULK | IN_DATA : 0;
    SH_REG(OUT_CONTROL(SERIAL)) = on ? CONTROL_ENABLE | CONTROL_BULK | OUT_DATA : 0;
    if (on) {
        listen();
    }
}

static void describe(uint32_t which, uint32_t most)
{
    switch (which) {
    case 0x0100:
        answer(device, sizeof device, most);
        break;
    case 0x0200:
        answer(configuration, sizeof configuration, most);
        break;
    case 0x0300:
        answer(languages, sizeof languages, most);
        break;
    case 0x0301:
        answer(vendor, sizeof vendor, most);
        break;
    case 0x0302:
        answer(product, sizeof product, most);
        break;
    default:
        stall();
        break;
    }
}

// A halted endpoint begins anew with DATA0; none of ours halts by itself.
static void begin_anew(uint32_t endpoint)
{
    if (endpoint == (SERIAL | 0x80u)) {
        serial.to_host = 0;
    } else if (endpoint == SERIAL && serial.received == serial.taken) {
        serial.from_host = 0;
        listen();
    }
}

// The request of a host: its type and number (USB 2.0, table 9-4; PSTN 1.2, table 13).
static void request(void)
{
    uint32_t low = SH_REG(DPRAM), high = SH_REG(DPRAM + 4u);
    uint32_t value = low >> 16, length = high >> 16;
    control.data1 = BUFFER_DATA1;
    control.left = 0;
    control.answers = false;
    control.takes_coding = false;
    control.address = 0;
    switch (low & 0xFFFFu) {
    case 0x0080: // GET_STATUS of the device, an interface, an endpoint
    case 0x0081:
    case 0x0082:
        answer(zeros, 2, length);
        break;
    case 0x0102: // CLEAR_FEATURE of an endpoint
        begin_anew(high & 0xFFu);
        acknowledge();
        break;
    case 0x0500: // SET_ADDRESS
        control.address = value & 0x7Fu;
        acknowledge();
        break;
    case 0x0680:
        describe(value, length);
        break;
    case 0x0880: // GET_CONFIGURATION
        control.value = serial.configured ? 1 : 0;
        answer(&control.value, 1, length);
        break;
    case 0x0900: // SET_CONFIGURATION
        configure(value != 0);
        acknowledge();
        break;
    case 0x0A81:
        answer(zeros, 1, length);
        break;   // GET_INTERFACE
    case 0x0B01: // SET_INTERFACE
    case 0x2321:
        acknowledge();
        break;   // SEND_BREAK
    case 0x2021: // SET_LINE_CODING
        control.takes_coding = true;
        hand_over(OUT_BUFFER(0), BUFFER_DATA1 | PACKET);
        break;
    case 0x21A1:
        answer(line_coding, sizeof line_coding, length);
        break;   // GET_LINE_CODING
    case 0x2221: // SET_CONTROL_LINE_STATE
        if ((value & 1u) == 0) {
            forget(); // the host has closed the port
        }
        acknowledge();
        break;
    default:
        stall();
        break;
    }
}

static void control_sent(void)
{
    if (control.address != 0) {
        SH_REG(USB_ADDRESS) = control.address;
        control.address = 0;
    }
    if (control.left > 0) {
        control_send();
    } else if (control.answers) {
        control.answers = false;
        hand_over(OUT_BUFFER(0), BUFFER_DATA1); // the host's empty packet
    }
}

static void control_received(void)
{
    if (control.takes_coding) {
        control.takes_coding = false;
        for (uint32_t i = 0; i < sizeof line_coding; i++) {
            line_coding[i] = packet(CONTROL_DATA)[i];
        }
        acknowledge();
    }
}

static bool is_sending(void)
{
    return (SH_REG(IN_BUFFER(SERIAL)) & BUFFER_AVAILABLE) != 0;
}

// Hands what waits over to the controller, if that is through with the packet before.
static void flush(void)
{
    if (!serial.configured || serial.count == 0 || is_sending()) {
        return;
    }
    for (uint32_t i = 0; i < serial.count; i++) {
        packet(IN_DATA)[i] = serial.out[i];
    }
    hand_over(IN_BUFFER(SERIAL), BUFFER_FULL | serial.to_host | serial.count);
    serial.to_host ^= BUFFER_DATA1;
    serial.count = 0;
}

// All that has happened on the bus. Interrupts are held, or this is one.
static void serve(void)
{
    uint32_t status = SH_REG(USB_SIE_STATUS), done = SH_REG(USB_BUFF_STATUS);
    if ((status & SIE_STATUS_RESET) != 0) {
        SH_REG(USB_SIE_STATUS) = SIE_STATUS_RESET;
        SH_REG(USB_BUFF_STATUS) = done;
        SH_REG(USB_ADDRESS) = 0;
        configure(false);
        return;
    }
    if (done != 0) {
        SH_REG(USB_BUFF_STATUS) = done;
    }
    if ((done & OF_IN(0)) != 0) {
        control_sent();
    }
    if ((done & OF_OUT(0)) != 0) {
        control_received();
    }
    if ((done & OF_OUT(SERIAL)) != 0) {
        serial.from_host ^= BUFFER_DATA1;
        serial.received = SH_REG(OUT_BUFFER(SERIAL)) & BUFFER_LENGTH;
        if (serial.received == 0) {
            listen();
        } else {
            serial.heard = true;
        }
    }
    if ((status & SIE_STATUS_SETUP) != 0) {
        SH_REG(USB_SIE_STATUS) = SIE_STATUS_SETUP;
        request();
    }
}

void sh_isr_external(void)
{
    serve();
}

void sh_usb_start(void)
{
    for (uint32_t at = 0; at < 0x100u; at += 4u) {
        SH_REG(DPRAM + at) = 0;
    }
    SH_REG(USB_MUXING) = MUXING_TO_PHY;
    SH_REG(USB_PWR) = PWR_VBUS;
    SH_REG(USB_MAIN_CTRL) = MAIN_ENABLE; // on an RP2350 this also connects the PHY
    SH_REG(USB_SIE_CTRL) = SIE_CTRL_STATUS_OF_0;
    SH_REG(USB_INTE) = INTE_WANTED;
    sh_rp2_core_listen(SH_RP2_USB_IRQ);
    SH_REG(USB_SIE_CTRL) = SIE_CTRL_STATUS_OF_0 | SIE_CTRL_PULL_UP;
}

int32_t sh_usb_getc(void)
{
    uint32_t mask = sh_rp2_core_mask();
    int32_t byte = -1;
    serve(); // a fault's report has no interrupts
    flush();
    if (serial.taken < serial.received) {
        byte = packet(OUT_DATA)[serial.taken++];
        if (serial.taken == serial.received) {
            listen();
        }
    }
    sh_rp2_core_restore(mask);
    return byte;
}

void sh_usb_putc(uint8_t byte)
{
    for (uint32_t tries = TRIES; tries > 0; tries--) {
        uint32_t mask = sh_rp2_core_mask();
        serve();
        if (serial.count == MOST) {
            flush();
        }
        bool placed = serial.heard && serial.count < MOST;
        if (placed) {
            serial.out[serial.count++] = byte;
        }
        bool goes_on = serial.heard && !placed;
        if (goes_on && tries == 1) {
            forget(); // until it sends again
        }
        sh_rp2_core_restore(mask);
        if (!goes_on) {
            return;
        }
    }
}
