"""The energy of inferences: instruments, their recordings, and what the marks in these say."""
