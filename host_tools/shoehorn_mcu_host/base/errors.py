"""The base class of all errors for the user: one line that names the place, the thing and the cure."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import ClassVar


class ShoehornError(Exception):
    """An expected error; the command line prints it as one line and exits with 1.

    With `--json` it becomes `{"error": {"kind": kind, "message": str(self), **facts}}` on stdout. `kind` is one word
    for programs; a subclass names its own. `answer` has fields of the object beside `error`, for a command that has
    results even when it fails.
    """

    kind: ClassVar[str] = "refused"
    answer: Mapping[str, object] = MappingProxyType({})

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle, which would call the class with `args`: a subclass may be made of more than its message."""
        return _made_again, (type(self), self.args, vars(self))

    @property
    def facts(self) -> Mapping[str, object]:
        """Further fields of the error in `--json`, such as figures and lists; JSON values only."""
        return {}

    @property
    def lines(self) -> Sequence[str]:
        """The message for a terminal, in as many lines as it has parts; the first one stands alone."""
        return (str(self),)

    def details(self, whole: bool) -> Sequence[str]:
        """Lines printed below the message: at most a screen, or with `-v` (`whole`) all of them."""
        return ()


def _made_again(kind: type[ShoehornError], args: tuple[object, ...], state: dict[str, object]) -> ShoehornError:
    """The error of another process."""
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class MemoryTooSmall(ShoehornError):
    """Something needs more bytes than a memory has, or than the user allows.

    `need` says what and how much, `peak` where that is, `cures` are what would help. The message is all of them.
    """

    kind: ClassVar[str] = "does-not-fit"

    def __init__(
        self, need: str, needed_bytes: int, available_bytes: int, *, peak: str = "", cures: Sequence[str] = ()
    ) -> None:
        super().__init__("; ".join(filter(None, (need, peak, *cures))))
        self.need = need
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.peak = peak
        self.cures = tuple(cures)

    @property
    def lines(self) -> Sequence[str]:
        return tuple(filter(None, (self.need, self.peak, "; ".join(self.cures))))

    @property
    def facts(self) -> Mapping[str, object]:
        found = {"needed_bytes": self.needed_bytes, "available_bytes": self.available_bytes}
        return {**found, "need": self.need, "peak": self.peak, "cures": list(self.cures)}


class HostError(ShoehornError):
    """An error of the host tools: a fault in a folder, a build, a port or a board."""

    kind: ClassVar[str] = "host"


class FolderDamaged(HostError):
    """The files of a project folder cannot be read or contradict each other."""

    kind: ClassVar[str] = "damaged-folder"


class LinkError(HostError):
    """The board does not answer, or not as the link's protocol demands."""

    kind: ClassVar[str] = "link"


class BuildError(HostError):
    """The firmware does not build."""

    kind: ClassVar[str] = "build"


class InputError(HostError):
    """A file that the user gave cannot be read, or has the wrong contents."""

    kind: ClassVar[str] = "input"


def one_line(name: str) -> str:
    """A user's name in quotes, for a message of one line: control characters escaped, length limited."""
    return f"'{printable(name if len(name) <= 120 else f'{name[:117]}...')}'"


def printable(text: str) -> str:
    """The text on one line: newlines and other control characters as Python escapes them."""
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def first_line(error: Exception, most: int = 200) -> str:
    """The first line of an error's message that says something, at most so many characters of it, or its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:most]


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The cure for an unknown name: the most similar names, or `otherwise` where none is similar."""
    close = get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(repr(each) for each in close)}?" if close else otherwise


class NotConfined(UserWarning):
    """This system cannot lock a process that reads foreign files in, or not wholly (`sandbox.py`)."""
