"""Builds a shared library and a Python wheel for Linux of the folder of a library."""
