"""The error of `gen slim`."""

from shoehorn_mcu.base.errors import ShoehornError


class SlimError(ShoehornError):
    """A model, samples or a recipe that cannot be slimmed; one line that names the cure."""

    kind = "not-slimmable"
