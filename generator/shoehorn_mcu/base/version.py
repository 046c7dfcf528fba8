"""The version of Shoehorn, which written folders and `gen --version` name."""

__version__ = "0.2.0"
