"""Columns of an accounting file without a header, found by the form of their cells."""

from __future__ import annotations

import itertools
import re
from datetime import datetime
from typing import Final

_STATES: Final = (
    r"(?:COMPLETED|FAILED|TIMEOUT|OUT_OF_ME\w*\+?|NODE_FAIL|BOOT_FAIL|DEADLINE|PREEMPTED|REVOKED|"
    r"REQUEUED|RUNNING|PENDING|COMPLETING|SUSPENDED|CANCELLED\+?(?: by \S+)?)"
)
_MARK: Final = re.compile(rf"^[^|]*\d[^|]*\|.*(?:^|\|){_STATES}(?:\||$)")
_ID: Final = re.compile(r"\d+(?:_(?:\d+|\[.*\]))?(?:\+\d+)?(?:\.\w+)?")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown|None")
_DURATION: Final = re.compile(r"(?:\d+-)?\d+:\d\d:\d\d(?:\.\d+)?|\d\d:\d\d(?:\.\d+)?|UNLIMITED")
_LIMIT: Final = re.compile(r"(?:\d+-)?\d+:\d\d:00|UNLIMITED|Partition_Limit")
_TRES: Final = re.compile(r"(?:\S+=\S+,)*cpu=\d\S*")
_FURTHER: Final = (
    ("ExitCode", re.compile(r"\d+:\d+"), ""),
    ("ReqMem", re.compile(r"\d+(?:\.\d+)?[KMGT][cn]?|0"), "[cnKMGT]$"),
    (
        "NodeList",
        re.compile(r"None assigned|[A-Za-z][\w.-]*(?:\d|\[[\d,-]+\])[\w.,\[\]-]*"),
        r"\[|^None assigned$",
    ),
)
"""Fields, the form of their cells, and a sign that one of them needs."""
_TIMES: Final = {3: ("Submit", "Start", "End"), 4: ("Submit", "Eligible", "Start", "End")}
_LINES: Final = 1000
_LONGEST: Final = 4096  # characters of a line: searching takes the square of them
_FIT: Final = 0.98


def seems_accounting(head: str, /) -> bool:
    """Return whether a first line is a record of sacct rather than its header."""
    return _MARK.search(head[:_LONGEST]) is not None


def guess_columns(lines: list[str], /) -> tuple[str, ...] | None:
    """Return the fields of records, those not found by number; None where too few are found.

    JobID, State and the times of submission, start and end have to be among them.
    """
    rows = [line.split("|") for line in lines[:_LINES]]
    rows = [row for row in rows if len(row) == len(rows[0])]
    jobs = [row for row in rows if "." not in row[0]]  # no steps
    columns = list(zip(*(jobs or rows), strict=True))
    names: dict[int, str] = {}
    for name, form in (("JobID", _ID), ("State", re.compile(_STATES))):
        places = _find(columns, names, form)
        if not places:
            return None
        names[places[0]] = name
    times = _find(columns, names, _TIME)
    if len(times) not in _TIMES or not _in_order([columns[n] for n in times]):
        return None
    names |= dict(zip(times, _TIMES[len(times)], strict=True))
    for n in _find(columns, names, _DURATION, ":"):
        fits = {
            "Elapsed": _is_elapsed(columns[n], columns[times[-2]], columns[times[-1]]),
            "Timelimit": _fits(columns[n], _LIMIT),
        }
        untaken = [name for name in fits if fits[name] and name not in names.values()]
        if untaken:
            names[n] = untaken[0]
    tres = _find(columns, names, _TRES)
    names |= dict(zip(tres, ("ReqTRES", "AllocTRES")[len(tres) == 1 :], strict=False))
    for name, form, sign in _FURTHER:
        names |= dict.fromkeys(_find(columns, names, form, sign)[:1], name)
    return tuple(names.get(n, f"column {n + 1}") for n in range(len(columns)))


def _find(
    columns: list[tuple[str, ...]], names: dict[int, str], form: re.Pattern[str], sign: str = ""
) -> list[int]:
    """Return the columns without a name whose cells have a form, with a sign in one of them."""
    return [
        n
        for n, cells in enumerate(columns)
        if n not in names and _fits(cells, form) and any(re.search(sign, cell) for cell in cells)
    ]


def _fits(cells: tuple[str, ...], form: re.Pattern[str]) -> bool:
    given = [cell for cell in cells if cell]
    return bool(given) and sum(form.fullmatch(cell) is not None for cell in given) >= _FIT * len(
        given
    )


def _in_order(times: list[tuple[str, ...]]) -> bool:
    pairs = [
        (before, after)
        for row in zip(*times, strict=True)
        for before, after in itertools.pairwise(row)
        if before[:1].isdigit() and after[:1].isdigit()
    ]
    ordered = sum(before <= after for before, after in pairs)
    return bool(ordered >= _FIT * len(pairs))


def _is_elapsed(cells: tuple[str, ...], start: tuple[str, ...], end: tuple[str, ...]) -> bool:
    """Return whether durations are those from start to end, but for summer time."""
    compared = equal = 0
    for cell, first, last in zip(cells, start, end, strict=True):
        try:
            between = datetime.fromisoformat(last) - datetime.fromisoformat(first)
        except ValueError:
            continue
        days, _, clock = cell.rpartition("-")
        seconds = 0
        for part in clock.split(":"):
            seconds = 60 * seconds + int(float(part or 0)) if part[:1].isdigit() else seconds
        compared += 1
        equal += abs(between.total_seconds() - int(days or 0) * 86_400 - seconds) < 2
    return bool(compared) and equal >= 0.9 * compared
