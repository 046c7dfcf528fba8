// SPDX-License-Identifier: 0BSD
// Functions that are assembly from the first instruction to the last (see Assembly in README.md),
// on Arm cores of 32 bits.
#ifndef SH_ASSEMBLY_H
#define SH_ASSEMBLY_H

#include <stddef.h>

// A function whose body is one __asm. It finds its arguments in r0 to r3, gives r4 to r11 back as
// it found them, and returns by itself. A compiler must not inline it, and must pass arguments of
// which it sees no use.
#if defined(__clang__)
#define SH_NAKED __attribute__((naked, noinline))
#else
#define SH_NAKED __attribute__((naked, noipa))
#endif

// Stands behind the name of such an argument: only assembly reads it.
#define SH_ARGUMENT __attribute__((unused))

// The operand %[member]: how many bytes from its begin a struct has this member.
#define SH_MEMBER(type, member) [member] "i"(offsetof(type, member))

// The begin and the end of such a function for Armv6-M, whose PUSH and POP reach low registers
// only: 36 bytes of stack. Changes r4 to r7.
#define SH_SAVE_ALL                                                                                \
    ".syntax unified\n"                                                                            \
    "push {r4, r5, r6, r7, lr}\n"                                                                  \
    "mov r4, r8\n mov r5, r9\n mov r6, r10\n mov r7, r11\n"                                        \
    "push {r4, r5, r6, r7}\n"
#define SH_RESTORE_ALL                                                                             \
    "pop {r4, r5, r6, r7}\n"                                                                       \
    "mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n"                                        \
    "pop {r4, r5, r6, r7, pc}\n"

// Text for the instruction set Thumb: there a load of pc wants bit 0 of the address set, and
// branches have two lengths.
#ifdef __thumb__
#define SH_IN_THUMB(text) text
#else
#define SH_IN_THUMB(text)
#endif

#endif
