"""The text of all other files of a written folder."""
