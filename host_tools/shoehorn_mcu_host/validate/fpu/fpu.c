#include "fpu.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

int shoehorn_flush_subnormals(int flush)
{
    const unsigned both = 0x8040u; // results, and operands
    const unsigned before = _mm_getcsr();
    _mm_setcsr(flush ? before | both : before & ~both);
    return (before & both) == both;
}
#elif defined(__aarch64__)
#include <stdint.h>

int shoehorn_flush_subnormals(int flush)
{
    const uint64_t bit = 1u << 24;
    uint64_t before;
    __asm volatile("mrs %0, fpcr" : "=r"(before));
    __asm volatile("msr fpcr, %0" : : "r"(flush ? before | bit : before & ~bit));
    return (before & bit) != 0;
}
#else
int shoehorn_flush_subnormals(int flush)
{
    (void)flush;
    return 0;
}
#endif
