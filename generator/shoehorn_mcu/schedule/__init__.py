"""Graph and kernels in, a checked plan out: the candidates of plans, their lowering and their predicted time."""
