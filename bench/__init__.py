"""Benchmarks: run by hand, never by pytest."""
