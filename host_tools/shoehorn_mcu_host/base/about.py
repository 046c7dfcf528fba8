"""What a wheel says of itself: the generator writes it, the host tools make the wheel."""

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """A wheel's facts. `name` is that of the model: of the distribution, its one package and its library."""

    name: str
    version: str  # by PEP 440
    summary: str
    description: str  # Markdown
    generator: str  # with its version
