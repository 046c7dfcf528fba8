"""Kernels of depthwise convolutions."""
