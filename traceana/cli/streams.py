"""Standard output and error: no control characters of data, and no traceback where they fail."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, TYPE_CHECKING, Any, Final

from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

# control characters but for the line feed, marks of direction, surrogates of undecodable names
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class ReaderGoneError(Exception):
    """The process that reads the output has ended."""


def printable(text: str, /) -> str:
    """Escape control characters, so that names and data cannot change the terminal."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


class Stream:
    """A text stream that escapes control characters; ``rich`` writes its own beneath."""

    def __init__(self, stream: IO[str], *, escape: bool = True) -> None:
        self._stream = stream
        self._escape = escape
        if escape:
            self.rich_proxied_file = Stream(stream, escape=False)

    def write(self, text: str) -> int:
        """Write a text."""
        self._attempt(self._stream.write, printable(text) if self._escape else text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts; raises as :meth:`write`."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush the stream; raises as :meth:`write`."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Any, *args: str) -> None:  # noqa: ANN401
        try:
            action(*args)
        except OSError as error:
            # what is buffered would be tried again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if isinstance(error, BrokenPipeError):
                raise ReaderGoneError from None
            raise TraceanaError(f"the output cannot be written: {error.strerror}") from None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all else is the stream's
        return getattr(self._stream, name)


def guard_streams() -> None:
    """Put :class:`Stream` around standard output and error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Stream(stream))


def terminal(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console that prints text as it is, control characters escaped."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    raw = getattr(stream, "rich_proxied_file", stream)
    console = Console(file=raw, width=width, markup=False, highlight=False)
    render = console.render_str
    # rich renders each text and each cell of a table by this method
    console.render_str = lambda text, **options: render(printable(text), **options)  # type: ignore[method-assign]
    return console
