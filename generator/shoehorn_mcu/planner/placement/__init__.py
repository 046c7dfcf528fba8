"""Addresses for live ranges."""
