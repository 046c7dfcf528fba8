"""Rewrites of the ends of a graph, which the user asks for: they change what a caller sees, so they are no passes."""
