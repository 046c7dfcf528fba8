"""The link to a board or an emulator, and what it measures: time, cycles, cores."""
