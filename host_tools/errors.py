"""The one base of all errors that a user may see: a line that names the place, the thing and the cure."""

from typing import ClassVar


class ShoehornError(Exception):
    """A clear refusal; the command line prints it as one line and exits with 1.

    `kind` is one word for programs that read `--json`; a subclass names its own.
    """

    kind: ClassVar[str] = "refused"


class HostError(ShoehornError):
    """A refusal of the host tools: a folder, a build, a port or a board is not as it should be."""

    kind: ClassVar[str] = "host"


class FolderDamaged(HostError):
    """A project folder's own files cannot be read or do not agree."""

    kind: ClassVar[str] = "damaged-folder"


class LinkError(HostError):
    """The board, or the wire to it, does not do what the link's protocol says."""

    kind: ClassVar[str] = "link"


class PortError(LinkError):
    """A serial port cannot be opened or used."""

    kind: ClassVar[str] = "port"


class BuildError(HostError):
    """The firmware does not build."""

    kind: ClassVar[str] = "build"


class InputError(HostError):
    """A file that the user gave cannot be read, or holds something else than was asked for."""

    kind: ClassVar[str] = "input"
