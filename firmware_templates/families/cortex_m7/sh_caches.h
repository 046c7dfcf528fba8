// SPDX-License-Identifier: 0BSD
#ifndef SH_CACHES_H
#define SH_CACHES_H

// Switches on the caches of a Cortex-M7, where there is no DMA to agree with.
void sh_caches_start(void);

#endif
