"""The one exception of the host tools: a line that names the place, the thing and the cure."""


class HostError(Exception):
    """A clear refusal; the command line prints it as one line and exits with 1."""
