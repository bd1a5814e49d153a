"""How many points a published correlation and its p-value imply."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from scipy.special import stdtr

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST: Final = 3  # points that a test of r needs
_MOST: Final = 10**15  # beyond it a double tells n from n + 1 no more


@dataclass(frozen=True)
class ImpliedN:
    """Numbers of points at which a printed r and p are those of one test.

    Attributes
    ----------
    low, high
        The least and the largest such number; every whole number between is one too. `low` is
        null where there is none, and `high` also where there is no largest.
    note
        Why a bound is null; null where both are known.
    """

    low: int | None
    high: int | None
    note: str | None

    def __str__(self) -> str:
        """Return the range in words."""
        if self.low is None:
            return f"no n: {self.note}"
        if self.high is None:
            return f"n of {self.low:,} or more: {self.note}"
        return (
            f"n = {self.low:,}"
            if self.low == self.high
            else f"n from {self.low:,} to {self.high:,}"
        )


def implied_n(r: str | float | Decimal, pvalue: str | float | Decimal, /) -> ImpliedN:
    """Tell from a printed Pearson correlation and its p-value how many points were correlated.

    The two-sided test of r = 0 over n points is Student's t of r sqrt((n - 2) / (1 - r^2)) with
    n - 2 degrees of freedom, so that r and p fix n. Both are known to half a unit of their last
    printed digit: n is any at which some r and some p within these bounds (ends included) agree.

    Parameters
    ----------
    r, pvalue
        As printed, ``"0.44"`` and ``"2.01e-02"``: the digits say how exact they are. A float
        stands for the shortest text that gives it, without the zeros at its end.

    Returns
    -------
    ImpliedN
        `low`, `high` and `note`. No n: the p is of another test than this, of other points, or
        misprinted. No largest n: r may be 0.

    Raises
    ------
    DataError
        If either is no number, r is not in [-1, 1], or p is not in [0, 1].

    Examples
    --------
    >>> print(implied_n("0.64", "4.51e-07"))
    n from 50 to 51
    """
    value, half = _printed("r", r)
    p, p_half = _printed("p", pvalue)
    if abs(value) > 1 or not 0 <= p <= 1:
        raise DataError(f"r must lie from -1 to 1 and p from 0 to 1; they are {r} and {pvalue}")
    nearest = float(max(abs(value) - half, Decimal(0)))
    farthest = float(min(abs(value) + half, Decimal(1)))
    smallest, largest = float(max(p - p_half, Decimal(0))), float(min(p + p_half, Decimal(1)))
    # p falls as |r| or n grows: the largest |r| comes to the largest p first
    low = _first(lambda n: _pvalue(farthest, n) <= largest)
    past = _first(lambda n: _pvalue(nearest, n) < smallest)
    if low is None or (past is not None and past <= low):
        return ImpliedN(None, None, "no number of points gives this p with this r")
    if past is None:
        return ImpliedN(low, None, "r or p may be 0 as printed: there is no largest n")
    return ImpliedN(low, past - 1, None)


def _printed(what: str, number: str | float | Decimal) -> tuple[Decimal, Decimal]:
    """Return a printed number and half a unit of its last digit."""
    try:
        value = Decimal(str(number).strip())
    except InvalidOperation:
        value = Decimal("nan")
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN and infinity
        raise DataError(f"{what} must be a number as printed, such as 2.01e-02; it is {number!r}")
    return value, Decimal(5).scaleb(exponent - 1)


def _pvalue(r: float, n: int) -> float:
    if r == 1:
        return 0.0
    return float(2 * stdtr(n - 2, -r * ((n - 2) / (1 - r * r)) ** 0.5))


def _first(holds: Callable[[int], bool]) -> int | None:
    """The least n for which what holds from some n on does; null if it is not found."""
    high = _LEAST
    while not holds(high):
        high *= 2
        if high > _MOST:
            return None
    low = _LEAST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
