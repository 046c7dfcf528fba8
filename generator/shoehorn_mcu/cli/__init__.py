"""The command `gen`. Only modules of this room print."""
