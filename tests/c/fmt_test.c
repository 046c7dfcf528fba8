// Prints each float whose bits stand on stdin, in hexadecimal, by sh_print_float: a line each.
#include <stdio.h>

#include "fmt.h"
#include "sh_board.h"

void sh_board_putc(uint8_t byte)
{
    (void)putchar(byte);
}

int main(void)
{
    union {
        uint32_t bits;
        float real;
    } view;
    while (scanf("%x", &view.bits) == 1) {
        sh_print_float(view.real);
        sh_print("\n");
    }
    return 0;
}
