"""The machines that firmware runs on: cores, boards, families of chips, and memories."""
