// A kernel is called with copies of its rows in an area where all else is poison.
#ifndef POISON_H
#define POISON_H

#include <stdbool.h>
#include <stdint.h>

#define POISONS 4 // 0x00, 0x7f, 0x80, other bytes everywhere

typedef struct {
    int32_t x_count;        // pointers in x
    const int32_t *x_bytes; // size of the row of each
    int32_t y_bytes;        // from where the kernel writes to the end of the row
    int32_t is_part;        // 1: other ops write some of these bytes, which are there before
    int32_t scratch_bytes;
} poison_op;

extern const poison_op poison_ops[]; // by number of the op; tests/poisoned.py writes it
extern const uint8_t
    poison_numbers[];      // a byte per op; the plugin learns the op from the address of this read
extern int32_t poison_now; // number of the op that calls

// What the kernel gets instead of its own arguments.
extern const int8_t *poison_x[];
extern int8_t *poison_y;
extern void *poison_scratch;

// Before and after one of POISONS calls of the kernel; x and y are its own arguments.
void poison_before(const int8_t *const x[], const int8_t *y, int32_t turn);
void poison_after(int8_t *y, int32_t turn);

// What the plugin in watch.c waits for.
void poison_gets_rows(void);
void poison_kernel_runs(void);
void poison_kernel_ends(void);

#endif
