"""Kernels of layers with a state, and of audio front ends."""
