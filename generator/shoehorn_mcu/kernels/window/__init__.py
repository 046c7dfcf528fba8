"""Kernels of windows without weights: pools, sums over rows, and resizes."""
