"""The one exception a user may meet: a line that names the place, the thing and the cure."""


class ShoehornError(Exception):
    """A clear refusal; the command line prints it as one line and exits with 1."""
