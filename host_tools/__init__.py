"""Builds, flashes, talks to and checks a written project folder. Never imports the generator."""
