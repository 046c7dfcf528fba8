// SPDX-License-Identifier: 0BSD
// The ports of STM32F4, L4 and H7 (MODER, PUPDR and AFR at the same offsets).
#include "sh_reg.h"
#include "sh_stm32.h"

#define GPIO_MODER(port) ((port) + 0x00u)
#define GPIO_PUPDR(port) ((port) + 0x0Cu)
#define GPIO_AFR(port, pin) ((port) + 0x20u + (pin) / 8u * 4u)

// Sets the two bits of a pin in a register of sixteen fields.
static void field2(uint32_t address, uint32_t pin, uint32_t value)
{
    SH_REG(address) = (SH_REG(address) & ~(3u << (2 * pin))) | (value << (2 * pin));
}

void sh_pin_start(uint32_t port, uint32_t pin, uint32_t function)
{
    uint32_t at = 4u * (pin % 8u);
    uint32_t afr = GPIO_AFR(port, pin);
    SH_REG(afr) = (SH_REG(afr) & ~(15u << at)) | (function << at);
    field2(GPIO_PUPDR(port), pin, 1);
    field2(GPIO_MODER(port), pin, 2);
}
