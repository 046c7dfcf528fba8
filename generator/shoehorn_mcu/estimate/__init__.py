"""What a firmware will take before it is built: flash, RAM, and the weights that are worth copying to RAM."""
