"""Emulators of chips that are Python packages, each run in a process of its own as QEMU is."""
