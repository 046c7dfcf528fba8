"""Builds and flashes a folder, and measures the firmware's bytes of RAM, flash and stack."""
