"""What an option may be, where Python would take anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from inspect import signature
from math import isnan
from numbers import Integral, Real
from typing import Any, Final

import numpy as np

from traceana.errors import DataError

MOST_RESAMPLES: Final = 1_000_000
"""Most resamples of a bootstrap, permutation or simulation."""


def is_number(value: object, /, *, whole: bool = False) -> bool:
    """Return whether a value is one real number: neither NaN, a truth value nor beyond floats."""
    if isinstance(value, bool | np.bool) or not isinstance(value, Integral if whole else Real):
        return False
    with suppress(OverflowError):
        return not isnan(value)
    return False


def check_count(name: str, value: object, /, *, least: int = 1, most: int) -> None:
    """Refuse what is not a whole number within bounds."""
    if not (is_number(value, whole=True) and least <= value <= most):  # type: ignore[operator]
        raise DataError(f"{name} must be a whole number from {least} to {most:,}; it is {value!r}")


def check_choice(name: str, value: object, choices: Collection[str], /) -> None:
    """Refuse a value that is not one of the choices."""
    if not (isinstance(value, str) and value in choices):
        raise DataError(f"{name} must be one of {', '.join(choices)}; it is {value!r}")


def as_list(name: str, values: Iterable[Any], /) -> list[Any]:
    """Return several values as a list, or raise a DataError if they are not several."""
    with suppress(TypeError):
        if not isinstance(values, str | bytes):
            return list(values)
    raise DataError(f"{name} must be a sequence of values; it is {values!r}")


def check_confidence(confidence: float, /) -> None:
    """Refuse a coverage outside (0, 1)."""
    if not (is_number(confidence) and 0 < confidence < 1):
        raise DataError(f"confidence must lie between 0 and 1, such as 0.95; it is {confidence!r}")


def as_generator(rng: int | np.random.Generator, /) -> np.random.Generator:
    """Return the generator of a seed, or the given generator."""
    if isinstance(rng, np.random.Generator) or (is_number(rng, whole=True) and rng >= 0):
        return np.random.default_rng(rng)
    raise DataError(f"rng must be a whole number from 0 on or a numpy Generator; it is {rng!r}")


def takes(function: object, count: int, /) -> bool:
    """Return whether a function can be called with so many arguments by position."""
    if not callable(function):
        return False
    try:
        signature(function).bind(*(None,) * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
