"""Messages for names that do not exist: the name that a reader of other libraries meant."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.resources import files


@cache
def _meant() -> dict[str, str]:
    """Return what to use by the name that a reader of other libraries guesses."""
    text = files("traceana").joinpath("guesses.toml").read_text(encoding="utf-8")
    rights = tomllib.loads(text).items()
    return {guess: right for right, guesses in rights for guess in guesses.split()}


def correct_name(name: str, words: Iterable[str], /, *, of: str = "traceana") -> str:
    """Return the message for a name that a module does not have."""
    missing = f"{of} has no {name!r}"
    names = list(words)
    close = get_close_matches(name, names, n=3, cutoff=0.7)
    close += [other for other in names if len(name) > 3 and name in other and other not in close]
    if of == "traceana" and name in _meant():
        return f"{missing}: use {_meant()[name]}"
    if close:
        return f"{missing}: did you mean {', '.join(close[:4])}?"
    return f"{missing}; dir({of}) lists the names"
