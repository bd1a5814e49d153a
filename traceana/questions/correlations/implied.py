"""How many points a published correlation and its p-value imply."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from scipy.special import stdtr

from traceana.errors import DataError
from traceana.questions.correlations.tables import ImpliedN

if TYPE_CHECKING:
    from collections.abc import Callable

_SMALLEST: Final = 3  # points that a test of r needs
_LARGEST: Final = 10**15  # a double does not distinguish n from n + 1 beyond it


def implied_n(r: str | float | Decimal, pvalue: str | float | Decimal, /) -> ImpliedN:
    """Compute how many points a published Pearson correlation and its p-value imply.

    The two-sided test of r = 0 over n points is Student's t of r sqrt((n - 2) / (1 - r^2)) with
    n - 2 degrees of freedom, so r and p determine n. Both are rounded to their last printed digit:
    n is any number of points at which some r and p within half a unit of it agree.

    Parameters
    ----------
    r, pvalue
        As printed, such as ``"0.44"`` in [-1, 1] and ``"2.01e-02"`` in [0, 1]: the digits define
        the precision. A float is its shortest decimal representation, without trailing zeros.

    Returns
    -------
    ImpliedN
        `low`, `high` and `note`. If there is no n, p is from another test or other points, or is
        misprinted. If there is no largest n, r may be 0.

    Examples
    --------
    >>> import traceana
    >>> print(traceana.implied_n("0.64", "4.51e-07"))
    n from 50 to 51
    """
    value, half = _printed("r", r)
    p, p_half = _printed("p", pvalue)
    if abs(value) > 1 or not 0 <= p <= 1:
        raise DataError(f"r must lie from -1 to 1 and p from 0 to 1; they are {r} and {pvalue}")
    nearest = float(max(abs(value) - half, Decimal(0)))
    farthest = float(min(abs(value) + half, Decimal(1)))
    smallest, largest = float(max(p - p_half, Decimal(0))), float(min(p + p_half, Decimal(1)))
    # p falls as |r| or n grows: the largest |r| reaches the largest p first
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
    """Return the smallest n for which a monotone condition holds; None if there is none."""
    high = _SMALLEST
    while not holds(high):
        high *= 2
        if high > _LARGEST:
            return None
    low = _SMALLEST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
