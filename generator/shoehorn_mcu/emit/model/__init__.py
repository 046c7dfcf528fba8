"""The text of `<model>.h` and `<model>.c`."""
