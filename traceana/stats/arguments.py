"""What an option may be, where Python would take anything."""

from __future__ import annotations

from inspect import signature
from numbers import Integral, Real

import numpy as np

from traceana.errors import DataError


def is_number(value: object, /, *, whole: bool = False) -> bool:
    """Return whether a value is one real number, NaN and truth values aside."""
    if isinstance(value, bool | np.bool) or not isinstance(value, Integral if whole else Real):
        return False
    return bool(value == value)  # which NaN is not  # noqa: PLR0124


def check_confidence(confidence: float, /) -> None:
    """Refuse a coverage outside (0, 1)."""
    if not (is_number(confidence) and 0 < confidence < 1):
        raise DataError(f"confidence must lie between 0 and 1, such as 0.95; it is {confidence!r}")


def as_generator(rng: int | np.random.Generator, /) -> np.random.Generator:
    """Return the generator of a seed, or the given generator.

    Raises a DataError if it is neither a whole number from 0 on nor a generator.
    """
    if isinstance(rng, np.random.Generator) or (is_number(rng, whole=True) and rng >= 0):
        return np.random.default_rng(rng)
    raise DataError(f"rng must be a whole number from 0 on or a numpy Generator; it is {rng!r}")


def takes(function: object, count: int, /) -> bool:
    """Return whether a function can be called with so many arguments by position.

    One whose signature cannot be read, such as a compiled one, is taken at its word.
    """
    if not callable(function):
        return False
    try:
        signature(function).bind(*(None,) * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
