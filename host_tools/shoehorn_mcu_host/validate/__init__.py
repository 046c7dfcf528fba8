"""Compares a board with the reference runtime, and with the source model in its own runtime."""
