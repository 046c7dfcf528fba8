// This machine's mode for float32 numbers below 2^-126.
#ifndef SH_FPU_H
#define SH_FPU_H

// 1: the calling thread reads and writes them as 0; 0: as they are. Returns the mode before.
// Nothing changes on machines other than x86-64 and AArch64.
int shoehorn_flush_subnormals(int flush);

#endif
