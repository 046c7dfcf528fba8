"""A block of ops run in bands of rows, as if it were one op."""
