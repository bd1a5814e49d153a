"""Section on jobs that fail again and again, and on crashes at start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import polars as pl

from traceana.page.blocks import Content, Text
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.repeats import (
    AGAIN_S,
    FIRST_S,
    Repeats,
    failing_positions,
    fewest_tries,
    find_repeats,
)
from traceana.store import Trace, distinct_traces
from traceana.tables.formatting import duration, hours_text, share

_NAMED: Final = 3
_NEGLIGIBLE: Final = 0.05
"""Fraction of all failures, or hours, below which it is no main result."""
_FEWEST, _PART, _TIMES = 20, 0.2, 2
"""Failures of a name (and jobs of other names), their fraction of all, and ratio of the rates, from
which the name is stated."""
_PLAIN: Final = re.compile("(?i)fail|err")
"""Reasons that state no more than the status does."""
_MOSTLY: Final = 0.5
"""Failed tasks of some positions of arrays from which they are an alert."""
_COSTLY: Final = 0.1
"""Fraction of all hours from which it is an alert."""
_DEFINITIONS: Final = (
    "Again and again: failures of one user and job name (without the number that it ends in), "
    f"each submitted within {duration(AGAIN_S)} after the failure before, or later, if there are "
    "more of them. "
    "Crash at start: a failure within the first "
    f"{duration(FIRST_S)} of runtime; a user or a name is stated if most of its failures, and at "
    "least 5 % of all, are crashes. Time limits and faults of machines do not count. "
    "Without either, the name with the most failures of any reason is stated, if it has a fifth "
    "of all and fails twice as often as others. "
)


def build(traces: Sequence[Trace]) -> Content:
    """State jobs that fail again and again, and crashes at start; nothing without them."""
    findings: list[Finding] = []
    tries: list[tuple[int, int]] = []
    for trace in distinct_traces(traces):
        repeats = trace.once(find_repeats)
        stated = [*_series(repeats, trace), *_crashes(repeats)] or [*_name(repeats)]
        placed = (_positions(row) for row in trace.once(failing_positions)[:_NAMED])
        findings += [finding.of(trace.label) for finding in (*stated, *placed)]
        late = fewest_tries(repeats.ended, soon=False)
        tries += [(repeats.tries, late)] if stated else []
    if not tries:
        return Content(tuple(findings))
    soon, late = map(min, zip(*tries, strict=True))
    text = (
        f"{_DEFINITIONS} A series has at least {soon} failures, or {late} that may be later: with "
    )
    text += "that, at most 0.01 are expected by chance if half of the jobs fail and half follow an "
    text += "end so soon."
    return Content(tuple(findings), (Text(text),))


def _series(repeats: Repeats, trace: Trace) -> Iterator[Finding]:
    for row in repeats.series.head(_NAMED).rows(named=True):
        job = f"job {row['job_name']}{_of(row['user'])}"
        heading = f"{job} failed again and again, {row['failures']:,} times"
        yield _finding(
            repeats,
            row,
            row["failures"],
            f"{heading} ({_when(row, trace)}median runtime {duration(row['runtime_s'])})",
            heading,
        )


def _crashes(repeats: Repeats) -> Iterator[Finding]:
    named: list[str] = []
    repeated = {
        group: n
        for by in ("user", "job_name")
        for group, n in repeats.series.group_by(by).agg(pl.col("failures").sum()).iter_rows()
    }
    for row in repeats.crashes.rows(named=True):
        group, most = row["group"], row["job_name_most"]
        if group in named:
            continue
        named += [most] if row["by"] == "user" else []
        if 2 * repeated.get(group, 0) >= row["crashes"]:
            continue  # the series has them
        what = f"of user {group}" if row["by"] == "user" else f"named {group}"
        heading = f"{row['crashes']:,} jobs {what} failed in their first minute"
        text = (
            f"{heading}, {share(row['crashes'] / row['ended'])} of their completed and failed jobs"
        )
        yield _finding(repeats, row, row["crashes"], text, heading)


def _name(repeats: Repeats) -> Iterator[Finding]:
    """State the name with the most failures, if it has many of all and fails more than others."""
    for row in repeats.names.head(1).rows(named=True):
        name, failed, ended = row["job_name"], row["failed"], row["ended"]
        n_others = repeats.ended - ended
        if min(failed, n_others) < _FEWEST or failed < _PART * repeats.failures:
            return
        others = (repeats.failures - failed) / n_others
        if failed / ended < _TIMES * others:
            return
        heading = f"{failed:,} jobs named {name} failed"
        is_told = 2 * row["of_reason"] > failed and not _PLAIN.match(row["reason"])
        why = f" ({row['of_reason']:,} ended as {row['reason']})" * is_told
        text = f"{heading}{why}, {share(failed / ended)} of the completed and failed ones and of "
        text += f"others {share(others)}"
        yield _finding(repeats, row, failed, text, heading)


def _positions(row: dict[str, Any]) -> Finding:
    """State from which position, or up to which, the tasks of arrays of a name fail more often."""
    low, high = ((failed / n, f"{failed:,} of {n:,}") for failed, n in row["sides"])
    first, last = f"from task {row['from']} on", f"before task {row['from']}"
    if low[0] > high[0]:
        low, high, first, last = high, low, last, first
    heading = f"arrays {row['name']}{_of(row['user'])} fail {first}"
    text = f"{heading}: {share(high[0])} of these tasks ({high[1]}), {last} {share(low[0])} "
    text += f"({low[1]}; {row['arrays']:,} arrays)"
    return Finding(
        f"{text}.",
        effect=high[0] - low[0],
        n=row["failures"],
        cost_jobs=row["failures"],
        certainty="estimated",
        alert=text if high[0] > _MOSTLY else "",
        heading=heading,
    )


def _finding(repeats: Repeats, row: dict[str, Any], n: int, text: str, heading: str) -> Finding:
    hours = row["hours"] or 0.0
    part = hours / repeats.hours if repeats.hours else 0.0
    cost = f" and {hours_text(hours)} {repeats.unit}-hours" * bool(hours)
    of_all = f"{share(n / repeats.failures)} of all failures{cost}"
    return Finding(
        f"{text}: {of_all}.",
        effect=n / repeats.failures,
        n=n,
        cost_gpu_h=hours * (repeats.unit == "GPU"),
        cost_jobs=n,
        alert=f"{heading}: {of_all}" if part >= _COSTLY else "",
        heading=heading,
        is_null=max(part, n / repeats.failures) < _NEGLIGIBLE,
    )


def _of(user: str | None) -> str:
    return "" if user is None else f" of user {user}"


def _when(row: dict[str, Any], trace: Trace) -> str:
    lasted = duration(row["last_s"] - row["first_s"])
    if not trace.manifest.absolute_times:
        return f"within {lasted}, "
    zone = ZoneInfo(trace.manifest.timezone) if trace.manifest.timezone else UTC
    return f"within {lasted} from {datetime.fromtimestamp(row['first_s'], zone):%Y-%m-%d %H:%M}, "


SECTION: Final = Section(
    "repeats",
    "Repeated failures and crashes at start",
    66,
    build,
    needs=({"jobs": ("status", "submit_s", "end_s", "runtime_s")},),
    part="Failures",
    question="Which jobs fail again and again, and whose jobs crash at start?",
)
