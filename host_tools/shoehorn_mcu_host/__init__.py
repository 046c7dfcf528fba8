"""Builds, flashes, times and validates a written project folder. Never imports the generator."""
