"""Kernels of convolutions and dense layers."""
