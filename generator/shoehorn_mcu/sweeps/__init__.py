"""Sweeps: the product of models, boards and options, each planned, built, validated and timed (docs/sweeps.md)."""
