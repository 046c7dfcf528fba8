// SPDX-License-Identifier: 0BSD
#include "fmt.h"

#include "sh_board.h"

// FLT_MAX in thousandths has 42 decimal digits.
#define DIGITS 42

// A decimal number, lowest digit first.
typedef struct {
    uint8_t digit[DIGITS];
    int32_t count;
} decimal;

// 2 * number + bit.
static void append_bit(decimal *number, bool bit)
{
    uint8_t carry = bit;
    for (int32_t i = 0; i < number->count; i++) {
        uint8_t sum = (uint8_t)(2u * number->digit[i] + carry);
        carry = sum > 9u;
        number->digit[i] = (uint8_t)(carry ? sum - 10u : sum);
    }
    if (carry) {
        number->digit[number->count++] = 1;
    }
}

// Bit by bit: 64-bit division would be 1.4 KB of the compiler's library on most cores.
static decimal to_decimal(uint64_t value)
{
    decimal number = {.count = 1};
    for (int32_t i = 0; i < 64; i++, value <<= 1) {
        append_bit(&number, value >> 63 != 0);
    }
    return number;
}

// mantissa * 2^exponent, rounded to an integer, ties to even. mantissa < 2^34.
static decimal scaled(uint64_t mantissa, int32_t exponent)
{
    if (exponent < -40) { // under half of one
        return to_decimal(0);
    }
    if (exponent < 0) {
        uint64_t whole = mantissa >> -exponent;
        uint64_t rest = mantissa - (whole << -exponent);
        uint64_t half = UINT64_C(1) << (-exponent - 1);
        bool up = rest > half || (rest == half && (whole & 1u) != 0);
        return to_decimal(whole + up);
    }
    decimal number = to_decimal(mantissa);
    for (int32_t i = 0; i < exponent; i++) {
        append_bit(&number, false);
    }
    return number;
}

void sh_print(const char *text)
{
    while (*text != '\0') {
        sh_board_putc((uint8_t)*text++);
    }
}

void sh_print_number(int64_t value)
{
    uint64_t size = (uint64_t)value;
    if (value < 0) {
        sh_board_putc('-');
        size = 0u - size;
    }
    decimal number = to_decimal(size);
    while (number.count > 0) {
        sh_board_putc((uint8_t)('0' + number.digit[--number.count]));
    }
}

void sh_print_with(const char *before, int64_t number, const char *after)
{
    sh_print(before);
    sh_print_number(number);
    sh_print(after);
}

void sh_print_hex(uint8_t byte)
{
    static const char digits[] = "0123456789abcdef";
    sh_board_putc((uint8_t)digits[byte >> 4]);
    sh_board_putc((uint8_t)digits[byte & 15u]);
}

void sh_print_float(float value)
{
    union {
        float real;
        uint32_t bits;
    } view = {.real = value};
    int32_t exponent = (int32_t)(view.bits >> 23 & 0xffu);
    uint32_t fraction = view.bits & 0x7fffffu;
    if (view.bits >> 31 != 0) {
        sh_board_putc('-');
    }
    if (exponent == 0xff) {
        sh_print(fraction == 0 ? "inf" : "nan");
        return;
    }
    if (exponent == 0) { // zero or subnormal
        exponent = 1;
    } else {
        fraction |= 0x800000u;
    }
    decimal number = scaled(UINT64_C(1000) * fraction, exponent - 150);
    while (number.count < 4) {
        number.digit[number.count++] = 0;
    }
    while (number.count > 0) {
        sh_board_putc((uint8_t)('0' + number.digit[--number.count]));
        if (number.count == 3) {
            sh_board_putc('.');
        }
    }
}

bool sh_same(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

int32_t sh_to_number(const char *text)
{
    bool negative = *text == '-';
    text += negative || *text == '+';
    int32_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        int32_t digit = *text - '0';
        value = value > (INT32_MAX - digit) / 10 ? INT32_MAX : value * 10 + digit;
    }
    return negative ? -value : value;
}
