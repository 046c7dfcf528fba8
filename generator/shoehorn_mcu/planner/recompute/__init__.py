"""Orders in which rows are computed more than once."""
