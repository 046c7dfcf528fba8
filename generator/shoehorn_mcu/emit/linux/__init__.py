"""What a library for Linux has beside its C: the sources of a Python module, its Python files, a file of pkg-config."""
