"""A written folder as the host tools read it: its documents, its plan, and vectors for its inputs."""
