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

// A branch to a register takes its instruction set from bit 0 of the address.
#ifdef __thumb__
#define SH_IN_THUMB(text) text
#else
#define SH_IN_THUMB(text)
#endif

#endif
