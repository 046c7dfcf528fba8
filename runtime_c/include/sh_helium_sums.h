// SPDX-License-Identifier: 0BSD
// Sums of the linear kernels for Helium (MVE): four output channels of two pixels at once, or of
// one. Per 16 inputs four loads of weights and two of inputs are for eight VMLADAVA, whose sums are
// the eight even registers. Of four such sums, one pixel's, is a vector that is rounded and stored.
//
// The inputs of a pixel are a run of contiguous elements, or with SH_TAPS several, all of one
// length. A run is read by 16 elements, the last of them predicated: nothing is read beyond it.
//
// The packed weights have for every four output channels a, b, c, d:
//   four biases; with SH_OFFSETS four offsets, which all weights of the channel lack;
//   for each 16 elements of a run the weights of a, those of b, of c, of d; for fewer at its end so
//     many of each, or with SH_TAPS 16 (those beyond are multiplied by 0);
//   four multipliers, four shifts (negative: to the right, at least 1).
// Missing output channels have zeros. shoehorn_mcu/kernels/linear/mve.py packs them.
#ifndef SH_HELIUM_SUMS_H
#define SH_HELIUM_SUMS_H

#ifdef __ARM_FEATURE_MVE
#include "sh_assembly.h"
#include "sh_helium.h"

// A pass over all output channels of one pixel, or of two. Assembly reads and writes `at` by one
// LDRD and one STRD, and reads `x` so.
typedef struct {
#ifdef SH_TAPS
    const int8_t *const *runs; // the runs, for either pixel in turn
    const int8_t *const *end;  // of these
#else
    const int8_t *x[2]; // of either pixel
#endif
    int32_t vectors; // of a run, before the last one
    int32_t rest;    // elements of the last one
    int8_t *at[2];   // the next outputs of either pixel
    int32_t left;    // outputs that are left
    const void *weights;
    int32x4_t low;
    int32x4_t high;
    int32x4_t zero;
    int32_t outputs;
    int32_t step; // from a pixel of y to the next
    int8_t *y;
#ifdef SH_OFFSETS
    int32_t totals[2]; // of the inputs of either pixel
#endif
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
// r1, r3: their inputs, in q0 and q2; r5: weights; r11: the pass; r9: the runs that are left,
// without SH_TAPS the elements of the last vector.
// SH_WEIGHTS_OF_REST loads the weights of the last vector of a run; SH_RUN_BEGIN goes to its first
// inputs, and SH_RUN_END back to it with the next run.
#ifdef SH_TAPS
#define SH_WEIGHTS_OF_REST "vldrb.u8 q1, [r5], #16\n"
#define SH_RUN_BEGIN                                                                               \
    "ldr r9, [r11, %[runs]]\n"                                                                     \
    "ldr r7, [r11, %[rest]]\n"                                                                     \
    "vctp.8 r7\n"                                                                                  \
    ".Lrun%=:\n"                                                                                   \
    "ldrd r1, r3, [r9], #8\n"
#define SH_RUN_END                                                                                 \
    "ldr r1, [r11, %[end]]\n"                                                                      \
    "cmp r9, r1\n"                                                                                 \
    "bne .Lrun%=\n"
#define SH_INPUT_MEMBERS SH_MEMBER(sh_pass, runs), SH_MEMBER(sh_pass, end)
#else
#define SH_WEIGHTS_OF_REST "vldrb.u8 q1, [r5]\n add r5, r5, r9\n"
#define SH_RUN_BEGIN                                                                               \
    "ldrd r1, r3, [r11, %[x]]\n"                                                                   \
    "vctp.8 r9\n"
#define SH_RUN_END
#define SH_INPUT_MEMBERS SH_MEMBER(sh_pass, x)
#endif

// The sums begin with the biases and, with SH_OFFSETS, the offset of a channel for each input.
#ifdef SH_OFFSETS
#define SH_BEGUN(SECOND, sum, second)                                                              \
    SECOND("mla r7, " second ", r3, " sum "\n")                                                    \
    "mla " sum ", " second ", r1, " sum "\n"                                                       \
    SECOND("mov " second ", r7\n")
#define SH_START(SECOND)                                                                           \
    "ldm r5!, {r0, r2, r4, r6}\n"                                                                  \
    "ldrd r1, r3, [r11, %[totals]]\n"                                                              \
    "ldm r5!, {r8, r10, r12, lr}\n" /* offsets */                                                  \
    SH_BEGUN(SECOND, "r0", "r8") SH_BEGUN(SECOND, "r2", "r10")                                     \
    SH_BEGUN(SECOND, "r4", "r12") SH_BEGUN(SECOND, "r6", "lr")
#define SH_MORE_MEMBERS , SH_MEMBER(sh_pass, totals)
#else
#define SH_START(SECOND)                                                                           \
    "ldm r5!, {r0, r2, r4, r6}\n" SECOND("mov r8, r0\n mov r10, r2\n mov r12, r4\n mov lr, r6\n")
#define SH_MORE_MEMBERS
#endif

// Adds the products of a vector of inputs with the weights of a channel to its sums, `sum` and that
// of the second pixel. WEIGHTS loads the weights.
#define SH_CHANNEL_SUM(SECOND, WEIGHTS, sum, second)                                               \
    WEIGHTS                                                                                        \
    "vmladava.s8 " sum ", q0, q1\n"                                                                \
    SECOND("vmladava.s8 " second ", q2, q1\n")

#define SH_FOUR_SUMS(SECOND, WEIGHTS)                                                              \
    SH_CHANNEL_SUM(SECOND, WEIGHTS, "r0", "r8") SH_CHANNEL_SUM(SECOND, WEIGHTS, "r2", "r10")       \
    SH_CHANNEL_SUM(SECOND, WEIGHTS, "r4", "r12") SH_CHANNEL_SUM(SECOND, WEIGHTS, "r6", "lr")

// Scales four sums, as sh_rescale_four, and clamps them. q2, q3: multipliers, shifts; r7: 1.
#define SH_SCALE(sums)                                                                             \
    "vqrdmulh.s32 " sums ", " sums ", q2\n"                                                        \
    "vqdmlah.s32 " sums ", " sums ", r7\n"                                                         \
    "vrshl.s32 " sums ", " sums ", q3\n"                                                           \
    "vadd.i32 " sums ", " sums ", q6\n"                                                            \
    "vmax.s32 " sums ", " sums ", q4\n"                                                            \
    "vmin.s32 " sums ", " sums ", q5\n"

// All of sh_run_one and sh_run_two.
#define SH_PASS(SECOND, LAST, STORE)                                                               \
    __asm volatile(                                                                                \
        "push {r4-r11, lr}\n"                                                                      \
        "vpush {d8-d13}\n"                                                                         \
        "mov r11, r0\n"                                                                            \
        "vldrw.u32 q4, [r11, %[low]]\n"                                                            \
        "vldrw.u32 q5, [r11, %[high]]\n"                                                           \
        "vldrw.u32 q6, [r11, %[zero]]\n"                                                           \
        "ldr r5, [r11, %[weights]]\n"                                                              \
        "ldr r9, [r11, %[rest]]\n"                                                                 \
        ".Lchannels%=:\n"                                                                          \
        SH_START(SECOND)                                                                           \
        SH_RUN_BEGIN                                                                               \
        "ldr r7, [r11, %[vectors]]\n"                                                              \
        "cbz r7, .Lrest%=\n"                                                                       \
        ".Lvectors%=:\n"                                                                           \
        "vldrb.u8 q0, [r1], #16\n"                                                                 \
        SECOND("vldrb.u8 q2, [r3], #16\n")                                                         \
        SH_FOUR_SUMS(SECOND, "vldrb.u8 q1, [r5], #16\n")                                           \
        "subs r7, r7, #1\n"                                                                        \
        "bne .Lvectors%=\n"                                                                        \
        ".Lrest%=:\n"                                                                              \
        LAST                                                                                       \
        SH_FOUR_SUMS(SECOND, SH_WEIGHTS_OF_REST)                                                   \
        SH_RUN_END                                                                                 \
        "vmov q0[2], q0[0], r0, r4\n"                                                              \
        "vmov q0[3], q0[1], r2, r6\n"                                                              \
        SECOND("vmov q1[2], q1[0], r8, r12\n")                                                     \
        SECOND("vmov q1[3], q1[1], r10, lr\n")                                                     \
        "vldrw.u32 q2, [r5], #16\n"                                                                \
        "mov r7, #1\n"                                                                             \
        "vldrw.u32 q3, [r5], #16\n"                                                                \
        SH_SCALE("q0")                                                                             \
        SECOND(SH_SCALE("q1"))                                                                     \
        "ldr r7, [r11, %[left]]\n"                                                                 \
        "ldrd r1, r3, [r11, %[at]]\n"                                                              \
        "vctp.32 r7\n"                                                                             \
        STORE                                                                                      \
        "subs r7, r7, #4\n"                                                                        \
        "strd r1, r3, [r11, %[at]]\n"                                                              \
        "str r7, [r11, %[left]]\n"                                                                 \
        "bgt .Lchannels%=\n"                                                                       \
        "vpop {d8-d13}\n"                                                                          \
        "pop {r4-r11, pc}\n"                                                                       \
        :                                                                                          \
        : SH_INPUT_MEMBERS, SH_MEMBER(sh_pass, vectors), SH_MEMBER(sh_pass, rest),                 \
          SH_MEMBER(sh_pass, at), SH_MEMBER(sh_pass, left), SH_MEMBER(sh_pass, weights),           \
          SH_MEMBER(sh_pass, low), SH_MEMBER(sh_pass, high),                                       \
          SH_MEMBER(sh_pass, zero) SH_MORE_MEMBERS                                                 \
        : "memory")

// Computes all channels of a pixel, four at a time.
//
// Arguments: r0: the pass.
// Changes:   r0 to r3, r12, lr, q0 to q3, the predicate and the flags; of the pass at and left.
// Stack:     84 bytes.
// Loop:      a turn is a vector of 16 inputs and four channels, 64 multiply-accumulates by 4
//            VMLADAVA and 5 loads; 11 instructions.
SH_NAKED static void sh_run_one(sh_pass *of SH_ARGUMENT)
{
    SH_PASS(SH_ONE_PIXEL, SH_ONE_LAST, SH_ONE_STORE);
}

// Computes all channels of two pixels, four at a time; the pixels share the loaded weights.
//
// Arguments: r0: the pass.
// Changes:   r0 to r3, r12, lr, q0 to q3, the predicate and the flags; of the pass at and left.
// Stack:     84 bytes.
// Loop:      a turn is a vector of 16 inputs of either pixel and four channels, 128
//            multiply-accumulates by 8 VMLADAVA and 6 loads; 16 instructions.
SH_NAKED static void sh_run_two(sh_pass *of SH_ARGUMENT)
{
    SH_PASS(SH_TWO_PIXELS, SH_TWO_LAST, SH_TWO_STORE);
}
// clang-format on

// Sets the length of a run.
SH_INLINED void sh_set_run(sh_pass *of, int32_t run)
{
    of->vectors = (run - 1) >> 4;
    of->rest = ((run - 1) & 15) + 1;
}

#ifdef SH_OFFSETS
// The sum of a run.
SH_INLINED int32_t sh_total(const sh_pass *of, const int8_t *x, int32_t total)
{
    SH_ROLLED
    for (int32_t left = of->vectors; left > 0; left--, x += 16) {
        total = vaddvaq_s8(total, vldrbq_s8(x));
    }
    return vaddvaq_s8(total, vldrbq_z_s8(x, vctp8q((uint32_t)of->rest)));
}

// Sums the inputs of the next pixels, at most two.
SH_APART void sh_set_totals(sh_pass *of, int32_t pixels)
{
    SH_ROLLED
    for (int32_t p = 0; p < 2 && p < pixels; p++) {
        int32_t total = 0;
#ifdef SH_TAPS
        SH_ROLLED
        for (const int8_t *const *run = of->runs; run != of->end; run += 2) {
            total = sh_total(of, run[p], total);
        }
#else
        total = sh_total(of, of->x[p], total);
#endif
        of->totals[p] = total;
    }
}
#endif

// The outputs of the next two pixels, or of the last one.
SH_INLINED void sh_run(sh_pass *of, int32_t pixels)
{
#ifdef SH_OFFSETS
    sh_set_totals(of, pixels);
#endif
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
