// SPDX-License-Identifier: 0BSD
// Sums of the linear kernels for Helium (MVE): two output channels of two pixels at once, or of
// one. Per 16 inputs two loads of weights and two of inputs are for four VMLADAVA. Two such sums
// make vectors of four output channels, one per pixel, which are rounded and stored.
//
// The packed weights have for every four output channels a, b, c, d:
//   bias of a and of c, weights of a, weights of c, zeros up to a whole word; the same of b and d;
//   four multipliers, four shifts (negative: to the right, at least 1).
// Missing output channels have zeros. The loops over a run are tail-predicated: nothing is read
// beyond the run or its weights. generator/kernels/mve_linear.py packs them.
//
// With SH_TAPS the inputs of a pixel are several runs of contiguous elements, all of one length.
#ifndef SH_HELIUM_SUMS_H
#define SH_HELIUM_SUMS_H

#ifdef __ARM_FEATURE_MVE
#include "sh_helium.h"

// A pass over all output channels of one pixel, or of two. The assembly knows the offsets.
typedef struct {
#ifdef SH_TAPS
    const int8_t *const *runs; // 0: the runs, for either pixel in turn
    const int8_t *const *end;  // 4: of these
    int32_t back;              // 8: run, less run rounded up to whole vectors
    int32_t pitch;             // 12: weights of an output channel
    int32_t gap;               // 16: from the end of a channel's weights to the next bias
#else
    const int8_t *x[2]; // 0, 4: of either pixel
    int32_t gap;        // 8: from the end of a channel's last vector of weights to the next bias
#endif
    int32_t run; // length of a run
    const int8_t *weights;
    int32_t outputs;
    int8_t *y;
    int32_t zero;
    int32x4_t low;
    int32x4_t high;
} sh_pass;

// SECOND(text) is text in a pass over two pixels and nothing in one over a single pixel.
// clang-format off
#define SH_TWO_PIXELS(text) text
#define SH_ONE_PIXEL(text)

// Adds a run's products to the sums a0, b0 of output channels a, b, and a1, b1 of the second pixel.
#define SH_RUN(SECOND)                                                                             \
    "dlstp.8 lr, %[run]\n"                                                                         \
    "2:\n"                                                                                         \
    "vldrb.u8 q0, [%[x0]], #16\n"                                                                  \
    "vldrb.u8 q1, [%[a]], #16\n"                                                                   \
    "vmladava.s8 %[a0], q0, q1\n"                                                                  \
    SECOND("vldrb.u8 q2, [%[x1]], #16\n")                                                          \
    SECOND("vmladava.s8 %[a1], q2, q1\n")                                                          \
    "vldrb.u8 q1, [%[b]], #16\n"                                                                   \
    "vmladava.s8 %[b0], q0, q1\n"                                                                  \
    SECOND("vmladava.s8 %[b1], q2, q1\n")                                                          \
    "letp lr, 2b\n"

#define SH_BIASES(SECOND)                                                                          \
    "ldrd %[a0], %[b0], [%[a]], #8\n"                                                              \
    SECOND("mov %[a1], %[a0]\n mov %[b1], %[b0]\n")

#ifdef SH_TAPS
#define SH_NEXT [next] "=&r"(next),
#define SH_SUMS(SECOND)                                                                            \
    SH_BIASES(SECOND)                                                                              \
    "ldr %[b], [%[of], #12]\n"                                                                     \
    "ldr %[next], [%[of]]\n"                                                                       \
    "add %[b], %[b], %[a]\n"                                                                       \
    "1:\n"                                                                                         \
    "ldrd %[x0], %[x1], [%[next]], #8\n"                                                           \
    SH_RUN(SECOND)                                                                                 \
    "ldrd %[x0], %[x1], [%[of], #4]\n"                                                             \
    "add %[a], %[a], %[x1]\n"                                                                      \
    "add %[b], %[b], %[x1]\n"                                                                      \
    "cmp %[next], %[x0]\n"                                                                         \
    "bne 1b\n"                                                                                     \
    "ldr %[a], [%[of], #16]\n"                                                                     \
    "add %[a], %[a], %[b]\n"
#else
#define SH_NEXT
#define SH_SUMS(SECOND)                                                                            \
    SH_BIASES(SECOND)                                                                              \
    "ldrd %[x0], %[x1], [%[of]]\n"                                                                 \
    "add %[b], %[a], %[run]\n"                                                                     \
    SH_RUN(SECOND)                                                                                 \
    "ldr %[a], [%[of], #8]\n"                                                                      \
    "add %[a], %[a], %[b]\n"
#endif

// Sums of two output channels, in lanes `low` and `low + 2` of `first` and of `second`.
// This is assembly because compilers keep the sums of one pair on the stack while they compute
// those of the next.
#define SH_PAIR(SECOND, low, high)                                                                 \
    __asm volatile(SH_SUMS(SECOND)                                                                 \
                   "vmov %q[first][" high "], %q[first][" low "], %[a0], %[b0]\n"                  \
                   SECOND("vmov %q[second][" high "], %q[second][" low "], %[a1], %[b1]\n")        \
                   : [a0] "=&Te"(a0), [b0] "=&Te"(b0), [a1] "=&Te"(a1), [b1] "=&Te"(b1),           \
                     [x0] "=&r"(x0), [x1] "=&r"(x1), [b] "=&r"(b), SH_NEXT                         \
                     [a] "+r"(weights), [first] "+w"(first), [second] "+w"(second)                 \
                   : [of] "r"(of), [run] "r"(run)                                                  \
                   : "q0", "q1", "q2", "lr", "cc", "memory")
// clang-format on

SH_INLINED int32x4_t sh_rounded(int32x4_t sums, int32x4_t multipliers, int32x4_t shifts,
                                int32_t zero, int32x4_t low, int32x4_t high)
{
    const int32x4_t value = vaddq_n_s32(sh_rescale_four(sums, multipliers, shifts), zero);
    return vminq_s32(vmaxq_s32(value, low), high);
}

SH_INLINED void sh_run_pass(const sh_pass *of, int32_t pixels)
{
    const int8_t *weights = of->weights;
    const int32_t run = of->run;
    const int32_t outputs = of->outputs;
    const int32_t zero = of->zero;
    const int32x4_t lowest = of->low;
    const int32x4_t highest = of->high;
    int8_t *y = of->y;
    SH_ROLLED
    for (int32_t left = outputs; left > 0; left -= 4, y += 4) {
        int32x4_t first = vuninitializedq_s32();
        int32x4_t second = vuninitializedq_s32();
        int32_t a0, a1, b0, b1;
        const int8_t *x0, *x1, *b;
#ifdef SH_TAPS
        const int8_t *const *next;
#endif
        if (pixels == 2) {
            SH_PAIR(SH_TWO_PIXELS, "0", "2");
            SH_PAIR(SH_TWO_PIXELS, "1", "3");
        } else {
            SH_PAIR(SH_ONE_PIXEL, "0", "2");
            SH_PAIR(SH_ONE_PIXEL, "1", "3");
        }
        const int32x4_t multipliers = vldrwq_s32((const int32_t *)weights);
        const int32x4_t shifts = vldrwq_s32((const int32_t *)weights + 4);
        const mve_pred16_t written = vctp32q((uint32_t)left);
        weights += 32;
        vstrbq_p_s32(y, sh_rounded(first, multipliers, shifts, zero, lowest, highest), written);
        if (pixels == 2) {
            vstrbq_p_s32(y + outputs,
                         sh_rounded(second, multipliers, shifts, zero, lowest, highest), written);
        }
    }
}

SH_APART void sh_run_one(const sh_pass *of)
{
    sh_run_pass(of, 1);
}

SH_APART void sh_run_two(const sh_pass *of)
{
    sh_run_pass(of, 2);
}

#ifndef SH_TAPS
// A row of output: `width` pixels, of contiguous inputs that begin `step` elements apart.
SH_INLINED void sh_run_row(sh_pass *next, const int8_t *x, int32_t step, int32_t width)
{
    next->gap = (2 * next->run & 2) - (-next->run & 15);
    for (int32_t left = width; left > 0; left -= 2) {
        next->x[0] = x;
        next->x[1] = x + step;
        if (left > 1) {
            sh_run_two(next);
        } else {
            sh_run_one(next);
        }
        x += 2 * step;
        next->y += 2 * next->outputs;
    }
}
#endif
#endif

#endif
