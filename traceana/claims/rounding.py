"""Comparison of values with published numbers, rounded to the printed digits."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl


def agrees(value: float | None, printed: str, /) -> bool:
    """Return whether a value, rounded to the digits of a printed number, is that number.

    The last printed digit decides: 0.44 means [0.435, 0.445), 2.01e-02 means
    [0.02005, 0.02015). Halves are rounded away from zero. A missing value never agrees.
    """
    rounded = _round(value, printed)
    return rounded is not None and rounded == _number(printed)


def round_as(value: float | None, printed: str, /) -> str:
    """Write a value with the digits of a printed number; "none" if it is missing."""
    rounded = _round(value, printed)
    if rounded is None or value is None:
        return "none"
    if "e" in printed:
        mantissa = printed.partition("e")[0]
        return f"{value:.{len(mantissa.partition('.')[2])}e}"
    return f"{rounded:,}"


def span(values: pl.Series, /) -> tuple[float, float]:
    """Return the smallest and the largest of some numbers."""
    present = values.drop_nulls().to_numpy()
    if not present.size:
        raise DataError(f"no value of {values.name!r} is known")
    return float(present.min()), float(present.max())


def _number(printed: str) -> Decimal:
    return Decimal(printed.replace(",", ""))


def _round(value: float | None, printed: str) -> Decimal | None:
    if value is None or math.isnan(value):
        return None
    exponent = _number(printed).as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101 - a printed number is finite
    return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(exponent), ROUND_HALF_UP)
