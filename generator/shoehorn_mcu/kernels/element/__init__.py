"""Kernels that compute element by element."""
