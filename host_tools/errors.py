"""The one base of all errors that a user may see: a line that names the place, the thing and the cure."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar


class ShoehornError(Exception):
    """A clear refusal; the command line prints it as one line and exits with 1.

    With `--json` it becomes `{"error": {"kind": kind, "message": str(self), **facts}}` on stdout. `kind` is one word
    for programs; a subclass names its own.
    """

    kind: ClassVar[str] = "refused"

    @property
    def facts(self) -> Mapping[str, object]:
        """Further fields of the error in `--json`: figures and lists that a program may want; JSON values only."""
        return {}

    def details(self, whole: bool) -> Sequence[str]:
        """Lines below the message, for a person: at most a screen, or with `-v` (`whole`) all of them."""
        return ()

    @property
    def answer(self) -> Mapping[str, object]:
        """Fields of the JSON object beside `error`, for a command whose refusal is an answer as well."""
        return {}


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


def one_line(name: str) -> str:
    """A name of the user in quotes, for a message of one line: control characters are escaped, length is limited."""
    return f"'{printable(name if len(name) <= 120 else f'{name[:117]}...')}'"


def printable(text: str) -> str:
    """The text on one line: newlines and other control characters as Python escapes them."""
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A cure for a name that does not exist: the names most like it, or `otherwise` where none is like it."""
    close = get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(repr(each) for each in close)}?" if close else otherwise
