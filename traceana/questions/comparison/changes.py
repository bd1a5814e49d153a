"""Exact changes between two periods or clusters, and conditions on them."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.cohorts.overlap import HELD, Window
from traceana.errors import DataError
from traceana.questions.comparison.tables import Changes
from traceana.questions.trends.by_period import DAY_S, ENDED, open_jobs, span
from traceana.stats.quantiles import woodruff_interval
from traceana.store.frames import collect
from traceana.tables.declare import declared

if TYPE_CHECKING:
    from traceana.store import Trace

MEASURES: Final = {
    "jobs_per_day": "Jobs submitted per day",
    "users": "Users who submitted a job",
    "gpu_hours_per_day": "GPU-hours used per day",
    "cpu_hours_per_day": "CPU-hours used per day",
    "median_wait_s": "Median wait of jobs that started (s)",
    "p95_wait_s": "95 % quantile of the wait (s)",
    "median_runtime_s": "Median runtime of jobs that ended (s)",
    "median_gpus": "Median GPUs of jobs that requested some",
    "failure_rate": "Failure rate of jobs that ended (fraction)",
    "gpu_hours_failed": "GPU-hours of failed jobs (fraction)",
}
"""Measures by name."""


@dataclass(frozen=True)
class _Number:
    value: float | None
    low: float = np.nan
    high: float = np.nan
    n: int = 0


def compare_windows(
    before: Trace, after: Trace, windows: tuple[Window | None, Window | None] = (None, None), /
) -> pl.DataFrame:
    """Return the changes between two traces, or two windows of one: columns of :class:`Changes`.

    Numbers are exact. Use is by overlap with the window; a job counts where it is submitted, its
    wait where it starts, its runtime and status where it ends. The interval of a ratio treats days
    as independent: Woodruff's of a median, linearization of a rate, combined on the log scale
    (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    first, second = (_measure(*side) for side in zip((before, after), windows, strict=True))
    rows = []
    for name, label in MEASURES.items():
        a, b = first[name], second[name]
        if a.value is None and b.value is None:
            continue
        low, high = _ratio_interval(a, b)
        both_known = a.value is not None and b.value is not None
        rows.append(
            {
                "measure": name,
                "label": label,
                "before": a.value,
                "after": b.value,
                "difference": b.value - a.value if both_known else None,  # type: ignore[operator]
                "ratio": b.value / a.value if both_known and a.value else None,  # type: ignore[operator]
                "ci_low": low,
                "ci_high": high,
                "n_before": a.n,
                "n_after": b.n,
            }
        )
    if not rows:
        raise DataError(f"{before.id} and {after.id} have no measure to compare")
    frame = pl.DataFrame(rows, infer_schema_length=None).cast(
        dict.fromkeys(("before", "after", "difference", "ratio", "ci_low", "ci_high"), pl.Float64)
    )
    return declared(frame, Changes)


def _measure(trace: Trace, window: Window | None) -> dict[str, _Number]:
    if not trace.has("jobs"):
        raise DataError(f"{trace.id} has no jobs to compare")
    frame = open_jobs(trace.frame("jobs"), window)
    first, last = window or span(frame)
    rows, days = collect(frame), max((last - first) / DAY_S, 1e-9)
    status = pl.col("status").cast(pl.String)

    def within(time: pl.Expr) -> pl.DataFrame:
        return rows.filter(time.is_between(first, last)).with_columns(
            day=((time - first) // DAY_S).cast(pl.Int64)
        )

    arrived = within(pl.coalesce("submit_s", "start_s"))
    started = within(pl.col("start_s")).with_columns(wait=pl.col("start_s") - pl.col("submit_s"))
    waits = started.drop_nulls("wait")
    lost = trace.manifest.failure_statuses
    over = status.is_in([*lost, "completed", "cancelled"])
    ended = within(pl.col(ENDED)).filter(over | status.is_null())
    runtime = pl.coalesce("runtime_s", pl.col("end_s") - pl.col("start_s"))
    ran = ended.with_columns(ran=runtime).drop_nulls("ran")
    table = ended.filter(status.is_in([*lost, "completed"]))
    table = table.with_columns(failed=status.is_in(lost).cast(pl.Float64))
    asked = arrived.filter(pl.col("gpus") > 0)
    hours = rows.with_columns(
        gpu=pl.col("gpus") * pl.col(HELD) / 3600,
        cpu=pl.col("cpus") * pl.col(HELD) / 3600,
        failed=status.is_in(lost),
    )
    total = float(hours["gpu"].sum())
    wasted = float(hours.filter("failed")["gpu"].sum())
    users = arrived["user"].drop_nulls().n_unique() or None
    return {
        "jobs_per_day": _Number(arrived.height / days, n=arrived.height),
        "users": _Number(users, n=arrived.height),
        "gpu_hours_per_day": _per_day(hours["gpu"], days),
        "cpu_hours_per_day": _per_day(hours["cpu"], days),
        "median_wait_s": _quantile(waits, "wait", 0.5),
        "p95_wait_s": _quantile(waits, "wait", 0.95),
        "median_runtime_s": _quantile(ran, "ran", 0.5),
        "median_gpus": _quantile(asked, "gpus", 0.5),
        "failure_rate": _rate(table),
        "gpu_hours_failed": _Number(
            wasted / total if total and table.height else None, n=hours["gpu"].count()
        ),
    }


def _per_day(hours: pl.Series, days: float) -> _Number:
    n = hours.count()
    return _Number(float(hours.sum()) / days if n else None, n=n)


def _quantile(rows: pl.DataFrame, column: str, quantile: float) -> _Number:
    if rows.is_empty():
        return _Number(None)
    values = rows[column].to_numpy()
    day = rows["day"].rank("dense").to_numpy().astype(np.int64) - 1
    low, high = woodruff_interval(values, day, quantile=quantile)
    return _Number(float(np.quantile(values, quantile)), low, high, len(values))


def _rate(rows: pl.DataFrame) -> _Number:
    if rows.is_empty():
        return _Number(None)
    rate = float(rows["failed"].mean())  # type: ignore[arg-type]
    sums = rows.group_by("day").agg(off=(pl.col("failed") - rate).sum())["off"].to_numpy()
    if len(sums) < 2 or not rate:
        return _Number(rate, n=rows.height)
    # on the log scale, where the limits of a rate stay above 0
    error = 1.96 * np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / rows.height / rate
    return _Number(rate, rate * np.exp(-error), rate * np.exp(error), rows.height)


def _ratio_interval(a: _Number, b: _Number) -> tuple[float | None, float | None]:
    ends = (a.value, a.low, a.high, b.value, b.low, b.high)
    if any(end is None or not end > 0 for end in ends):
        return None, None
    x, x_low, x_high, y, y_low, y_high = np.log(np.array(ends, dtype=np.float64))
    low = y - x - np.hypot(y - y_low, x_high - x)
    high = y - x + np.hypot(y_high - y, x - x_low)
    return float(np.exp(low)), float(np.exp(high))


def describe_changes(changes: pl.DataFrame, /) -> dict[str, dict[str, Any]]:
    """Return the rows by measure."""
    return {row["measure"]: row for row in changes.iter_rows(named=True)}


_BINARY: Final[dict[type, Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARED: Final[dict[type, Any]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LONGEST: Final = 500
_FORM: Final = "write a comparison such as 'median_wait_s > 1.2 * before'"


def holds(changes: pl.DataFrame, condition: str, /) -> bool:
    """Return whether a condition on changes holds.

    It compares a measure, which has its value after, with numbers and arithmetic; ``before`` and
    ``after`` are the values of the measure in the same comparison. Comparisons are joined by
    ``and``, ``or`` and ``not``.
    """
    check_condition(condition)
    return _truth(_parsed(condition), describe_changes(changes), condition)


def check_condition(condition: str, /) -> None:
    """Check that a text is a condition, without its values."""
    example = {name: {"before": 1.0, "after": 1.0} for name in MEASURES}
    tree = _parsed(condition)
    for node in ast.walk(tree):  # also what the example's values skip
        if isinstance(node, ast.Compare):
            _comparison(node, example, condition)
    _truth(tree, example, condition)


def _parsed(condition: str) -> ast.expr:
    try:
        return ast.parse(condition.strip()[:_LONGEST], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DataError(f"condition {condition[:80]!r} cannot be read; {_FORM}") from None


def _truth(node: ast.expr, values: dict[str, dict[str, Any]], condition: str) -> bool:
    if isinstance(node, ast.BoolOp):
        parts = [_truth(part, values, condition) for part in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _truth(node.operand, values, condition)
    if isinstance(node, ast.Compare):
        return _comparison(node, values, condition)
    raise DataError(f"condition {condition!r} compares nothing; {_FORM}")


def _comparison(node: ast.Compare, values: dict[str, dict[str, Any]], condition: str) -> bool:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    measures = sorted(names - {"before", "after"})
    for name in measures:
        if name not in MEASURES:
            raise DataError(
                f"condition {condition!r}: {name} is no measure; measures are "
                f"{', '.join(MEASURES)}, before and after"
            )
    if not measures:
        raise DataError(f"condition {condition!r} names no measure; {_FORM}")
    if len(measures) > 1 and names & {"before", "after"}:
        raise DataError(
            f"condition {condition!r}: before and after are of one measure, and {measures[0]} and "
            f"{measures[1]} stand in one comparison; join two comparisons with 'and'"
        )
    of = values.get(measures[0], {})
    known_values = {name: values.get(name, {}).get("after") for name in measures}
    known_values |= {side: of.get(side) for side in names & {"before", "after"}}
    if missing := [name for name in known_values if known_values[name] is None]:
        raise DataError(f"condition {condition!r}: {missing[0]} has no value in these traces")
    sides = [_number(part, known_values, condition) for part in (node.left, *node.comparators)]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if type(op) not in _COMPARED:
            raise DataError(f"condition {condition!r}: only < <= > >= == != compare; {_FORM}")
        if not _COMPARED[type(op)](left, right):
            return False
    return True


def _number(node: ast.expr, values: dict[str, Any], condition: str) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return float(values[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _number(node.operand, values, condition)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = (_number(side, values, condition) for side in (node.left, node.right))
        try:
            return float(_BINARY[type(node.op)](left, right))
        except (ZeroDivisionError, OverflowError):
            raise DataError(f"condition {condition!r} divides by 0") from None
    raise DataError(
        f"condition {condition!r}: only measures, numbers and + - * / are allowed; {_FORM}"
    )
