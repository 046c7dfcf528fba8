// SPDX-License-Identifier: 0BSD
// Sums of the linear kernels for Helium (MVE): four output channels of two pixels at once, or of
// one. Per 16 inputs four loads of weights and two of inputs are for eight VMLADAVA, whose sums are
// the eight even registers. Of four such sums, one pixel's, is a vector that is rounded and stored.
//
// The inputs of a pixel are a run of contiguous elements, or with SH_TAPS several, all of one
// length. A run is read by 16 elements, the last of them predicated: nothing is read beyond it.
//
// The packed weights have for every four output channels a, b, c, d:
//   four biases;
//   for each 16 elements of a run the weights of a, those of b, of c, of d; for fewer at its end so
//     many of each, or with SH_TAPS 16 (those beyond are multiplied by 0);
//   four multipliers, four shifts (negative: to the right, at least 1).
// Missing output channels have zeros. shoehorn_mcu/kernels/linear/mve.py packs them.
#ifndef SH_HELIUM_SUMS_H
#define SH_HELIUM_SUMS_H

#ifdef __ARM_FEATURE_MVE
#include "sh_helium.h"

// A pass over all output channels of one pixel, or of two. The assembly knows the offsets.
typedef struct {
#ifdef SH_TAPS
    const int8_t *const *runs; // 0: the runs, for either pixel in turn
    const int8_t *const *end;  // 4: of these
#else
    const int8_t *x[2]; // 0, 4: of either pixel
#endif
    int32_t vectors;     // 8: of a run, before the last one
    int32_t rest;        // 12: elements of the last one
    int8_t *at[2];       // 16, 20: the next outputs of either pixel
    int32_t left;        // 24: outputs that are left
    const void *weights; // 28
    int32x4_t low;       // 32
    int32x4_t high;      // 48
    int32x4_t zero;      // 64
    int32_t outputs;
    int32_t step; // from a pixel of y to the next
    int8_t *y;
} sh_pass;

// SECOND(text) is text in a pass over two pixels and nothing in one over a single pixel; LAST loads
// a run's last elements, STORE stores four outputs.
// clang-format off
#define SH_TWO_PIXELS(text) text
#define SH_TWO_LAST "vpstt\n vldrbt.u8 q0, [r1]\n vldrbt.u8 q2, [r3]\n"
#define SH_TWO_STORE "vpstt\n vstrbt.32 q0, [r1], #4\n vstrbt.32 q1, [r3], #4\n"
#define SH_ONE_PIXEL(text)
#define SH_ONE_LAST "vpst\n vldrbt.u8 q0, [r1]\n"
#define SH_ONE_STORE "vpst\n vstrbt.32 q0, [r1], #4\n"

// r0, r2, r4, r6: sums of a, b, c, d of the first pixel, r8, r10, r12, lr: of the second.
// r1, r3: their inputs, in q0 and q2; r5: weights; r11: the pass.
#ifdef SH_TAPS
#define SH_BEHIND "vldrb.u8 q1, [r5], #16\n"
#define SH_BEGIN                                                                                   \
    "ldr r9, [r11]\n"                                                                              \
    "ldr r7, [r11, #12]\n"                                                                         \
    "vctp.8 r7\n"                                                                                  \
    "2:\n"                                                                                         \
    "ldrd r1, r3, [r9], #8\n"
#define SH_END                                                                                     \
    "ldr r1, [r11, #4]\n"                                                                          \
    "cmp r9, r1\n"                                                                                 \
    "bne 2b\n"
#else
#define SH_BEHIND "vldrb.u8 q1, [r5]\n add r5, r5, r9\n"
#define SH_BEGIN                                                                                   \
    "ldrd r1, r3, [r11]\n"                                                                         \
    "vctp.8 r9\n"
#define SH_END
#endif

#define SH_EACH(SECOND, WEIGHTS, one, other)                                                       \
    WEIGHTS                                                                                        \
    "vmladava.s8 " one ", q0, q1\n"                                                                \
    SECOND("vmladava.s8 " other ", q2, q1\n")

#define SH_PRODUCTS(SECOND, WEIGHTS)                                                               \
    SH_EACH(SECOND, WEIGHTS, "r0", "r8") SH_EACH(SECOND, WEIGHTS, "r2", "r10")                     \
    SH_EACH(SECOND, WEIGHTS, "r4", "r12") SH_EACH(SECOND, WEIGHTS, "r6", "lr")

// Scales four sums, as sh_rescale_four, and clamps them. q2, q3: multipliers, shifts; r7: 1.
#define SH_SCALE(sums)                                                                             \
    "vqrdmulh.s32 " sums ", " sums ", q2\n"                                                        \
    "vqdmlah.s32 " sums ", " sums ", r7\n"                                                         \
    "vrshl.s32 " sums ", " sums ", q3\n"                                                           \
    "vadd.i32 " sums ", " sums ", q6\n"                                                            \
    "vmax.s32 " sums ", " sums ", q4\n"                                                            \
    "vmin.s32 " sums ", " sums ", q5\n"

#define SH_PASS(SECOND, LAST, STORE)                                                                    \
    "push {r7, r11}\n"                                                                             \
    "vldrw.u32 q4, [r11, #32]\n"                                                                   \
    "vldrw.u32 q5, [r11, #48]\n"                                                                   \
    "vldrw.u32 q6, [r11, #64]\n"                                                                   \
    "ldr r5, [r11, #28]\n"                                                                         \
    "ldr r9, [r11, #12]\n"                                                                         \
    "1:\n"                                                                                         \
    "ldm r5!, {r0, r2, r4, r6}\n"                                                                  \
    SECOND("mov r8, r0\n mov r10, r2\n mov r12, r4\n mov lr, r6\n")                                \
    SH_BEGIN                                                                                       \
    "ldr r7, [r11, #8]\n"                                                                          \
    "cbz r7, 4f\n"                                                                                 \
    "3:\n"                                                                                         \
    "vldrb.u8 q0, [r1], #16\n"                                                                     \
    SECOND("vldrb.u8 q2, [r3], #16\n")                                                             \
    SH_PRODUCTS(SECOND, "vldrb.u8 q1, [r5], #16\n")                                                \
    "subs r7, r7, #1\n"                                                                            \
    "bne 3b\n"                                                                                     \
    "4:\n"                                                                                         \
    LAST                                                                                           \
    SH_PRODUCTS(SECOND, SH_BEHIND)                                                                 \
    SH_END                                                                                         \
    "vmov q0[2], q0[0], r0, r4\n"                                                                  \
    "vmov q0[3], q0[1], r2, r6\n"                                                                  \
    SECOND("vmov q1[2], q1[0], r8, r12\n")                                                         \
    SECOND("vmov q1[3], q1[1], r10, lr\n")                                                         \
    "vldrw.u32 q2, [r5], #16\n"                                                                    \
    "mov r7, #1\n"                                                                                 \
    "vldrw.u32 q3, [r5], #16\n"                                                                    \
    SH_SCALE("q0")                                                                                 \
    SECOND(SH_SCALE("q1"))                                                                         \
    "ldr r7, [r11, #24]\n"                                                                         \
    "ldrd r1, r3, [r11, #16]\n"                                                                    \
    "vctp.32 r7\n"                                                                                 \
    STORE                                                                                          \
    "subs r7, r7, #4\n"                                                                            \
    "strd r1, r3, [r11, #16]\n"                                                                    \
    "str r7, [r11, #24]\n"                                                                         \
    "bgt 1b\n"                                                                                     \
    "pop {r7, r11}\n"

// This is assembly because compilers keep the sums of one block on the stack while they compute
// those of the next, and it needs all 14 registers.
#define SH_RUN(SECOND, LAST, STORE)                                                                     \
    __asm volatile(SH_PASS(SECOND, LAST, STORE)                                                               \
                   : "+r"(at)                                                                      \
                   :                                                                               \
                   : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr",     \
                     "q0", "q1", "q2", "q3", "q4", "q5", "q6", "cc", "memory")
// clang-format on

SH_APART void sh_run_one(sh_pass *of)
{
    register sh_pass *at __asm("r11") = of;
    SH_RUN(SH_ONE_PIXEL, SH_ONE_LAST, SH_ONE_STORE);
}

SH_APART void sh_run_two(sh_pass *of)
{
    register sh_pass *at __asm("r11") = of;
    SH_RUN(SH_TWO_PIXELS, SH_TWO_LAST, SH_TWO_STORE);
}

// Sets the length of a run.
SH_INLINED void sh_set_run(sh_pass *of, int32_t run)
{
    of->vectors = (run - 1) >> 4;
    of->rest = ((run - 1) & 15) + 1;
}

// The outputs of the next two pixels, or of the last one.
SH_INLINED void sh_run(sh_pass *of, int32_t pixels)
{
    of->at[0] = of->y;
    of->at[1] = of->y + of->step;
    of->left = of->outputs;
    if (pixels > 1) {
        sh_run_two(of);
    } else {
        sh_run_one(of);
    }
    of->y += 2 * of->step;
}

#ifndef SH_TAPS
// A row of output: `width` pixels, of `run` contiguous inputs that begin `step` elements apart.
SH_INLINED void sh_run_row(sh_pass *next, const int8_t *x, int32_t run, int32_t step, int32_t width)
{
    sh_set_run(next, run);
    SH_ROLLED
    for (int32_t left = width; left > 0; left -= 2, x += 2 * step) {
        next->x[0] = x;
        next->x[1] = x + step;
        sh_run(next, left);
    }
}
#endif
#endif

#endif
