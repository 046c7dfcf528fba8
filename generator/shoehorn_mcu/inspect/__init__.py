"""What a model file holds, op by op, and which of its ops are supported."""
