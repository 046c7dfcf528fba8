"""In which order rows are computed, and what that order costs."""
