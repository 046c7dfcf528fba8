"""Turns a plan into the text of every file of the written folder, in memory; only `bundle.write` writes to disk."""
