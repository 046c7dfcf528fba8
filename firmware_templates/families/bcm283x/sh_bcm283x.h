// SPDX-License-Identifier: 0BSD
// Shared by the Raspberry Pi families.
#ifndef SH_BCM283X_H
#define SH_BCM283X_H

// Pins and PL011 at 115200 8N1; the firmware's config.txt sets its clock.
void sh_console_start(void);

// Memory map, caches and branch prediction on. Called by start.S with the caches cold and off;
// `guard` (aligned to 2 MB) gets 2 MB without access, so that a stack overflow faults.
void sh_mmu_start(void);

// The same on another core, by the map that core 0 has made: caches are coherent from here on
// (BCM2837).
void sh_mmu_enter(void);

#endif
