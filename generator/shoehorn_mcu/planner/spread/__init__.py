"""A finished plan in several memories."""
