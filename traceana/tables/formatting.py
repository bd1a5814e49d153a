"""How numbers are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

_LONGEST: Final = 10_000  # characters; names in a log may have millions
_SHOWN: Final = 500
UNITS: Final = {"s": "s", "w": "W", "j": "J", "gib": "GiB", "bytes": "bytes"}
"""Units that are the last part of a column's name."""
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
)


def without_controls(text: str, /) -> str:
    """Replace control characters and marks of direction, and what XML refuses."""
    return _CONTROL.sub("\ufffd", text)


def count(value: float) -> str:
    """Write a whole number: 82,739."""
    return f"{value:,.0f}"


def hours_text(value: float) -> str:
    """Write hours: 1,234 from ten on, else 3.2 or 0.056."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def seconds(value: float) -> str:
    """Write seconds: 12,345 from a hundred on, else 12.3."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


_SMALLEST, _LARGEST = 1e-9, 1e15
"""Beyond these, a number of three digits is written with a power of ten."""
_UNITS_S: Final = {"d": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
_TICKS_S: Final = (
    (1, 60, 3600, 86_400, 30 * 86_400, 1000 * 86_400),
    (1, 10, 60, 600, 3600, 86_400, 10 * 86_400, 100 * 86_400, 1000 * 86_400),
    (1, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000, 43_200, 86_400, 172_800, 432_000),
)
"""Round durations, from sparse to dense."""


_DECADES: Final = tuple(10.0**power for power in range(-9, 0))
_DAYS: Final = tuple(part * 10**power for power in range(1, 9) for part in (1, 2, 5))


def duration(value: float) -> str:
    """Write seconds in the largest unit of which there is one: 30 s, 5 min, 2 h, 1.5 d, 10 ms."""
    if 0 < abs(value) < 1:
        return f"{1000 * value:.3g} ms"
    unit = next((name for name, size in _UNITS_S.items() if abs(value) >= size), "s")
    scaled = value / _UNITS_S[unit]
    return f"{scaled:,.0f} {unit}" if abs(scaled) >= 100 else f"{scaled:.3g} {unit}"


def energy(value: float) -> str:
    """Write joules in the largest unit of which there is one: 512 J, 3.2 kJ, 5.45 MJ."""
    power = min(sum(abs(value) >= 1000**step for step in (1, 2, 3)), 3)
    scaled = value / 1000**power
    number = f"{scaled:,.0f}" if abs(scaled) >= 100 else f"{scaled:.3g}"
    return f"{number} {('J', 'kJ', 'MJ', 'GJ')[power]}"


_FIRST_DATE_S: Final = 1e8
"""No trace lasts so long: a time beyond it counts from 1970."""
LAST_DATE_S: Final = 253_402_214_400.0
"""The last day of the year 9999: later times, which mean never, have no date."""


def clock(value: float) -> str:
    """Write a time: 3.43 h since the clock began, 2026-03-01 14:05 UTC if it counts from 1970."""
    if not _FIRST_DATE_S <= value < LAST_DATE_S:
        return duration(value)
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M UTC")


def duration_ticks(low: float, high: float, most: int, /) -> list[float]:
    """Return the densest series of at most `most` round durations within limits, or multiples."""
    series = [
        [tick for tick in (*_DECADES, *map(float, ticks)) if low <= tick <= high]
        for ticks in _TICKS_S
    ]
    densest = max([ticks for ticks in series if len(ticks) <= most] or series[:1], key=len)
    return densest if len(densest) > 1 else _multiples(low, high, most)


def _multiples(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` multiples of a round duration within limits."""
    steps = (*_DECADES, *map(float, _TICKS_S[-1]), *(days * 86_400.0 for days in _DAYS))
    half = next((size / 2 for size in _UNITS_S.values() if low >= size), 0.0)  # 1.5 h, not 1.17 h
    step = next(s for s in steps if s >= half and high // s - (low - 1e-9) // s <= most)
    first = int((low - 1e-9) // step) + 1
    return [number * step for number in range(first, int(high // step) + 1)]


def hours(value: float) -> str:
    """Write hours: 12,345 from a thousand on, else 12.3."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def days(value: float) -> str:
    """Write seconds as days, to a tenth."""
    return f"{value / 86_400:,.1f}"


def days_range(first: float, last: float) -> str:
    """Write the days between two times in seconds, to a tenth."""
    return days(last - first)


def ratio(value: float) -> str:
    """Write a ratio such as a CoV to three decimals."""
    return f"{value:.3f}"


def percent(value: float) -> str:
    """Write a fraction as a percentage with a decimal, as in tables."""
    return f"{100 * value:z.1f} %"


def share(value: float) -> str:
    """Write a fraction in a sentence: without decimals from 10 % on, unless that makes 100 %."""
    rounded = round(100 * value)
    whole = round(abs(100 * value), 1) >= 10 and (abs(rounded) != 100 or abs(value) == 1)
    return f"{rounded:,} %" if whole else percent(value)


def fine_fraction(value: float) -> str:
    """Write a fraction in percent to two decimals."""
    return f"{100 * value:.2f} %"


def plain(value: float) -> str:
    """Write a number without needless zeros or a power of ten: 0.5, 8, 4,580,688."""
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.6g}"


def percent_range(low: float, high: float) -> str:
    """Write an interval of fractions, as in tables."""
    return f"{100 * low:z.1f} to {percent(high)}"


def fraction_range(low: float, high: float) -> str:
    """Write an interval of fractions in a sentence, with a decimal if its ends are else equal."""
    if share(low) == share(high) and low != high:
        return percent_range(low, high)
    return f"{share(low).removesuffix(' %')} to {share(high)}"


def interval(
    row: Mapping[str, Any],
    write: Callable[[float, float], str],
    /,
    template: str = "95 % CI {}; ",
    *,
    shown: object = True,
) -> str:
    """Write the interval of a row as part of a sentence; nothing if it has none."""
    low, high = row["ci_low"], row["ci_high"]
    return template.format(write(low, high)) if shown and None not in (low, high) else ""


def size(value: float) -> str:
    """Write a number of bytes in the largest decimal unit below it."""
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


def plural(number: int, noun: str) -> str:
    """Write a count with its noun: 1 job, 1,234 jobs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(parts: Iterable[str]) -> str:
    """Join parts of a sentence: a, b and c."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def in_sentence(heading: str) -> str:
    """Write a heading within a sentence: cluster, memory (GiB), but QoS class."""
    if heading.split(" ", 1)[0][1:].islower():
        return heading[0].lower() + heading[1:]
    return heading if any(letter.isupper() for letter in heading[1:]) else heading.lower()


def pvalue(value: float) -> str:
    """Write a p-value to two digits, and one below 0.0001 as that."""
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def p_equals(value: float) -> str:
    """Write a p-value within a sentence: p = 0.012, p < 0.001."""
    return "p < 0.001" if value < 0.001 else f"p = {pvalue(value)}"


def correlation(r: float, low: float | None = None, high: float | None = None) -> str:
    """Write a coefficient to two decimals, with its interval where it has one."""
    if low is None or high is None:
        return f"{r:z.2f}"
    return f"{r:z.2f} ({correlation_range(low, high)})"


def correlation_range(low: float, high: float) -> str:
    """Write an interval of a correlation to two decimals."""
    return f"{low:z.2f} to {high:z.2f}"


def three_digits(value: float) -> str:
    """Write a number to three significant digits: 12,346; 1.10; 0.0123; 1.23e-09."""
    if value == 0:
        return "0"
    if not _SMALLEST <= abs(value) < _LARGEST:
        return f"{value:.2e}"
    rounded = Decimal(f"{value:#.3g}")
    return f"{value:,.0f}" if abs(rounded) >= 1000 else f"{rounded:f}"


DIGITS: Final = 12
"""Significant digits of a number in a file; those beyond depend on the order of sums."""


def rounded(content: object) -> object:
    """Return what is written as JSON with its floats rounded to :data:`DIGITS`."""
    if isinstance(content, float):
        return float(f"{content:.{DIGITS}g}")
    if isinstance(content, Mapping):
        return {key: rounded(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [rounded(value) for value in content]
    return content


def _range_of(write: Callable[[float], str]) -> Callable[[float, float], str]:
    return lambda low, high: f"{write(low)} to {write(high)}"


def duration_range(low: float, high: float) -> str:
    """Write an interval of durations, each to three digits: 6.98 to 14.0 min, 8.30 h to 2.08 d."""
    low_unit, high_unit = (
        next((name for name, size in _UNITS_S.items() if abs(value) >= size), "ms")
        for value in (low, high)
    )
    low_unit = low_unit if low else high_unit
    ends = [
        value / _UNITS_S.get(unit, 1e-3) for value, unit in ((low, low_unit), (high, high_unit))
    ]
    whole = all(end == round(end) for end in ends)
    first, last = (count(end) if whole else three_digits(end) for end in ends)
    return f"{first}{'' if low_unit == high_unit else f' {low_unit}'} to {last} {high_unit}"


seconds_range = _range_of(seconds)
ratio_range = _range_of(ratio)
three_digits_range = _range_of(three_digits)
energy_range = _range_of(energy)


def sparkline(values: Sequence[float]) -> str:
    """Write values of 0 or more as bars of eighths of the largest: ▁▄█."""
    most = max(values, default=0) or 1
    return "".join("▁▂▃▄▅▆▇█"[min(int(8 * value / most), 7)] for value in values)


def yes_or_no(value: bool) -> str:
    """Write a Boolean."""
    return "yes" if value else "no"


def as_text(value: object) -> str:
    """Write a value as Python does."""
    return text(str(value))


def text(value: str) -> str:
    """Return a text as it is, its beginning where it is very long."""
    return value if len(value) <= _LONGEST else f"{value[:_SHOWN]} ... ({len(value):,} characters)"
