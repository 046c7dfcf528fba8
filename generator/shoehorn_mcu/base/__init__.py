"""What all rooms may import: the version, the base class of errors, and where the data folders are."""
