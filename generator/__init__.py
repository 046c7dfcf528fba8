"""Shoehorn: a model and a board in, a folder of static C out."""

__version__ = "0.1.0"
