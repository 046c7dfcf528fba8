// A firmware that tests what start-up promises, then obeys one-letter commands.
#include "board_config.h"
#include "hello.h"
#include "sh_board.h"

#define NEAR 0x4000u // ticks

static int32_t in_data = 0x12345678; // start-up copies it
static int32_t in_bss[3];            // start-up clears it
static volatile float three = 3.0f;
static volatile uint8_t bytes[8] = {0, 0x11, 0x22, 0x33, 0x44, 0x55, 0, 0};

static void print(const char *text)
{
    while (*text != '\0') {
        sh_board_putc((uint8_t)*text++);
    }
}

static void print_number(const char *name, uint64_t value)
{
    char digits[24];
    int32_t at = (int32_t)sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + (int32_t)(value % 10u));
        value /= 10u;
    } while (value != 0);
    print(name);
    print("=");
    print(&digits[at]);
    print("\r\n");
}

// As the compiler spells it for this core: one load where the core takes it.
static uint32_t unaligned(const volatile uint8_t *from)
{
    struct __attribute__((packed)) any {
        uint32_t value;
    };
    return ((const volatile struct any *)from)->value;
}

// Never goes back, whatever the counter underneath does. It has 24 bits: only near its wraps is
// every step looked at.
static uint64_t steps_back(uint64_t until)
{
    uint64_t backwards = 0;
    uint64_t last = sh_board_ticks();
    while (last < until) {
        uint64_t now = sh_board_ticks();
        backwards += now < last;
        last = now;
        if (((now + NEAR) & 0xFFFFFFu) > 2 * NEAR) {
            hello_spin(500);
        }
    }
    return backwards;
}

static uint32_t dive(uint32_t depth)
{
    volatile uint8_t frame[256];
    frame[depth & 255u] = (uint8_t)depth;
    return depth == UINT32_MAX ? 0 : dive(depth + 1) + frame[(depth + 1) & 255u];
}

static void report(void)
{
    uint32_t size;
    const uint8_t *stack = sh_board_stack(&size);
    print_number("data", (uint64_t)(in_data == 0x12345678));
    print_number("bss", (uint64_t)(in_bss[0] == 0 && in_bss[1] == 0 && in_bss[2] == 0));
    print_number("float", (uint64_t)(int64_t)(three * 2.5f * 2.0f));
    print_number("unaligned", unaligned(bytes + 1));
    print_number("stack", size);
    print_number("painted",
                 stack[0] == SH_BOARD_STACK_PAINT && stack[size / 2] == SH_BOARD_STACK_PAINT);
    print_number("control", hello_control());
    print("m-ready\r\n");
}

// c: count instructions, m: watch the clock, f: fault, o: overflow the stack, r: report; else echo.
static void obey(int32_t command)
{
    uint64_t start = sh_board_ticks();
    switch (command) {
    case 'c':
        hello_spin(20000000); // 40,000,000 instructions
        print_number("ticks", sh_board_ticks() - start);
        break;
    case 'm':
        print_number("backwards", steps_back(start + SH_BOARD_TICK_HZ / 2));
        break;
    case 'f':
        hello_fault();
        break;
    case 'o':
        print_number("dived", dive(0));
        break;
    case 'r':
        report();
        break;
    default:
        sh_board_putc((uint8_t)command);
    }
}

int main(void)
{
    sh_board_init();
    report();
    for (;;) {
        int32_t byte = sh_board_getc();
        if (byte >= 0) {
            obey(byte);
        }
    }
}
