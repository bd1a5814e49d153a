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
_EXIT: Final = re.compile(r"\d+:\d+")
_TRES: Final = re.compile(r"(?:\S+=\S+,)*cpu=\d\S*")
_SIZE: Final = re.compile(r"\d+(?:\.\d+)?[KMGT][cn]?|0")
_HOSTS: Final = re.compile(r"None assigned|[A-Za-z][\w.-]*(?:\d|\[[\d,-]+\])[\w.,\[\]-]*")
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
    width = len(rows[0]) if rows else 0
    rows = [row for row in rows if len(row) == width]
    jobs = [row for row in rows if "." not in row[0]] or rows
    columns = list(zip(*jobs, strict=True))

    def like(form: re.Pattern[str]) -> list[int]:
        return [n for n, cells in enumerate(columns) if _fits(cells, form) and n not in found]

    found: dict[int, str] = {}
    for name, form in (("JobID", _ID), ("State", re.compile(_STATES))):
        places = like(form)
        if not places:
            return None
        found[places[0]] = name
    times = like(_TIME)
    names = {3: ("Submit", "Start", "End"), 4: ("Submit", "Eligible", "Start", "End")}
    if len(times) not in names or not _in_order([columns[n] for n in times]):
        return None
    found |= dict(zip(times, names[len(times)], strict=True))
    start, end = columns[times[-2]], columns[times[-1]]
    durations = [n for n in like(_DURATION) if any(":" in cell for cell in columns[n])]
    for n in durations:
        if _is_elapsed(columns[n], start, end) and "Elapsed" not in found.values():
            found[n] = "Elapsed"
        elif _fits(columns[n], _LIMIT) and "Timelimit" not in found.values():
            found[n] = "Timelimit"
    for n in like(_EXIT)[:1]:
        found[n] = "ExitCode"
    tres = like(_TRES)
    found |= dict(
        zip(tres, ("AllocTRES",) if len(tres) == 1 else ("ReqTRES", "AllocTRES"), strict=False)
    )
    for n in like(_SIZE)[:1]:
        if any(cell[-1:] in ("c", "n", "K", "M", "G", "T") for cell in columns[n]):
            found[n] = "ReqMem"
    hosts = [
        n
        for n in like(_HOSTS)
        if any("[" in cell or cell == "None assigned" for cell in columns[n])
    ]
    for n in hosts[:1]:
        found[n] = "NodeList"
    return tuple(found.get(n, f"column {n + 1}") for n in range(width))


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
