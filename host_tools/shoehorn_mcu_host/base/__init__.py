"""What the host tools and the generator share: errors, reads with limits, processes that are locked in, compiled C."""
