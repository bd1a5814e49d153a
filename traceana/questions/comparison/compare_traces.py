"""Headline numbers of traces side by side, and exact changes between two periods."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, SEEN, Cohort, count_cut, form_cohort
from traceana.cohorts.observation import window_of
from traceana.cohorts.overlap import HELD, Window
from traceana.errors import DataError
from traceana.questions.failures.curves import kaplan_meier
from traceana.questions.failures.hazards import failure_by, overall_failure
from traceana.questions.failures.rates import failure_rates
from traceana.questions.stragglers.analyze import PIPELINE, cov_by_job, published_cov, stragglers
from traceana.questions.trends.by_period import ENDED, open_jobs, span
from traceana.questions.workload.analyze import describe_workload
from traceana.questions.workload.summary import concentration
from traceana.stats.quantiles import woodruff_interval
from traceana.stats.time_blocks import DAY_S
from traceana.store import Trace, distinct_traces
from traceana.store.frames import collect
from traceana.tables.declare import ResultTable, ci, count, declared, number, schema_of, text
from traceana.tables.formatting import duration


class Comparison(ResultTable):
    """One row per question and trace."""

    question = text("Question")
    name = text("Name", "stable name of the measure, as in results.json")
    measure = text("Measure", "what the estimate is, with its unit")
    trace = text("Trace", "title of the trace")
    n = count("n", "rows that the estimate is from")
    estimate = number("Estimate", "null where the trace cannot answer")
    ci_low, ci_high = ci("confidence interval; null where none can be given")
    rank = count("Rank", "1: the largest estimate of these traces")
    note = text("Note", "why there is no estimate or interval, and what differs between traces")


def reasons(comparison: pl.DataFrame, /, *, answered: bool) -> list[str]:
    """Return the notes of rows with an estimate, or of those without, by measures and traces."""
    rows = comparison.filter(comparison["estimate"].is_not_null() == answered)
    every = comparison["trace"].n_unique()
    tables_by_reason: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for (question, note), of_question in rows.drop_nulls("note").group_by(
        "question", "note", maintain_order=True
    ):
        of_traces = tables_by_reason.setdefault(str(note), {})
        of_traces.setdefault(tuple(of_question["trace"]), []).append(str(question))
    return [
        f"{', '.join(questions)}: {note} "
        f"({'all traces' if len(traces) == every else '; '.join(traces)})"
        for note, of_traces in tables_by_reason.items()
        for traces, questions in of_traces.items()
    ]


class Changes(ResultTable):
    """One row per measure: two periods or clusters, exact, and what another period may bring."""

    measure = text("Measure", "stable name, for `--fail-if`")
    label = text("What", "what it is, with its unit")
    before = number("Before", "of the first period or cluster; null where it has none")
    after = number("After", "of the second")
    difference = number("Difference", "after minus before")
    ratio = number("Ratio", "after over before; null where before is 0")
    ci_low, ci_high = ci("of the ratio, for other days of such periods; null for totals")
    n_before = count("n before", "jobs that the number is of")
    n_after = count("n after", "jobs that the number is of")


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

    Use is by overlap with the window. Intervals treat days as independent: Woodruff's of a median,
    linearization of a rate, combined on the log scale (Zou and Donner, Stat. in Medicine 27, 2008).
    """
    first, second = (_measure(*side) for side in zip((before, after), windows, strict=True))
    rows: list[dict[str, Any]] = []
    for name, label in MEASURES.items():
        a, b = first[name], second[name]
        low, high = _ratio_interval(a, b)
        row: dict[str, Any] = {"measure": name, "label": label, "before": a.value, "after": b.value}
        rows.append(row | {"ci_low": low, "ci_high": high, "n_before": a.n, "n_after": b.n})
    before_value, after_value = pl.col("before"), pl.col("after")
    table = pl.DataFrame(rows, schema=schema_of(Changes), strict=False).with_columns(
        difference=after_value - before_value,
        ratio=pl.when(before_value != 0).then(after_value / before_value),
    )
    table = table.filter(before_value.is_not_null() | after_value.is_not_null())
    if table.is_empty():
        raise DataError(f"{before.id} and {after.id} have no measure to compare")
    return declared(table, Changes)


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
    wait = pl.col("start_s") - pl.col("submit_s")
    waits = within(pl.col("start_s")).with_columns(wait=wait).drop_nulls("wait")
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


_OPERATORS: Final[dict[type, Callable[[float, float], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LONGEST: Final = 500
_FORM: Final = "write a comparison such as 'median_wait_s > 1.2 * before'"
Values = dict[str, dict[str, Any]]


def holds(changes: pl.DataFrame, condition: str, /) -> bool:
    """Return whether a condition on changes holds.

    It compares measures (their value after), ``before`` and ``after`` with numbers and arithmetic,
    joined by ``and``, ``or`` and ``not``.
    """
    return _evaluate(condition, {row["measure"]: row for row in changes.iter_rows(named=True)})


def check_condition(condition: str, /) -> None:
    """Check that a text is a condition, without its values."""
    _evaluate(condition, {name: {"before": 1.0, "after": 1.0} for name in MEASURES})


def _evaluate(condition: str, values: Values) -> bool:
    try:
        tree = ast.parse(condition.strip()[:_LONGEST], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DataError(f"condition {condition[:80]!r} cannot be read; {_FORM}") from None
    try:
        return _truth(tree, values)
    except DataError as error:
        raise DataError(f"condition {condition!r}: {error}; {_FORM}") from None


def _truth(node: ast.expr, values: Values) -> bool:
    """Evaluate every part, so that a wrong one is refused whatever the others are."""
    match node:
        case ast.BoolOp(op=op, values=parts):
            truths = [_truth(part, values) for part in parts]
            return all(truths) if isinstance(op, ast.And) else any(truths)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(operand, values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            stated = _stated(node, values)
            sides = [_number(part, stated) for part in (left, *others)]
            if not all(isinstance(op, (*_OPERATORS,)) for op in ops):
                raise DataError("only < <= > >= == != compare")
            pairs = zip(ops, pairwise(sides), strict=True)
            return all(_OPERATORS[type(op)](*pair) for op, pair in pairs)
    raise DataError("it compares nothing")


def _stated(node: ast.Compare, values: Values) -> dict[str, Any]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    sides, measures = names & {"before", "after"}, sorted(names - {"before", "after"})
    if wrong := [name for name in measures if name not in MEASURES]:
        named = ", ".join(MEASURES)
        raise DataError(f"{wrong[0]} is no measure; measures are {named}, before and after")
    if not measures:
        raise DataError("it names no measure")
    if len(measures) > 1 and sides:
        raise DataError(
            f"before and after are of one measure, and {measures[0]} and {measures[1]} stand in "
            "one comparison; join two comparisons with 'and'"
        )
    stated = {name: values.get(name, {}).get("after") for name in measures}
    stated |= {side: values.get(measures[0], {}).get(side) for side in sides}
    for name, value in stated.items():
        if value is None:
            raise DataError(f"{name} has no value in these traces")
    return stated


def _number(node: ast.expr, values: dict[str, Any]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id=name):
            return float(values[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            try:
                return float(_OPERATORS[type(op)](_number(left, values), _number(right, values)))
            except (ZeroDivisionError, OverflowError):
                raise DataError("it divides by 0") from None
    raise DataError("only measures, numbers and + - * / are allowed")


_QUESTIONS: Final = {
    "Runtime": ("runtime_s_median", "Median runtime (s)"),
    "Size": ("fraction_multi_gpu", "Jobs with more than one GPU (fraction)"),
    "Queueing": ("queueing_delay_s_median", "Median queueing delay (s)"),
    "Failure": ("failure_rate", "Failure rate among completed and failed (fraction)"),
    "Failure by a runtime": (
        "failure_incidence",
        "Cumulative incidence of failure within a stated runtime (fraction)",
    ),
    "Concentration": (
        "fraction_gpu_hours_top_1_percent",
        "GPU-hours of the largest 1 % of GPU jobs (fraction)",
    ),
    "Variation": ("cov_median", "CoV across workers, median over jobs"),
    "Stragglers": ("slowdown_median", "Slowdown if every time step waits, median over jobs"),
}
_FEWEST_JOBS: Final = 6
Row = dict[str, Any]
T = TypeVar("T")


def compare_traces(traces: Sequence[Trace], /) -> pl.DataFrame:
    """Return the headline numbers of traces, by question: columns of :class:`Comparison`."""
    distinct = distinct_traces(traces)
    tables = [trace.once(describe_headlines) for trace in distinct]
    horizons = [_horizon(trace) for trace in distinct]
    if len(different := {horizon for horizon in horizons if horizon is not None}) > 1:
        # fractions by different runtimes are not comparable
        tables = [
            table if horizon is None else _by_horizon(table, trace, min(different))
            for table, trace, horizon in zip(tables, distinct, horizons, strict=True)
        ]
    rows = pl.concat(tables)
    order = pl.Enum(list(_QUESTIONS))
    ranked = rows.with_columns(
        rank=pl.col("estimate").rank("min", descending=True).over("question").cast(pl.Int64)
    ).sort(pl.col("question").cast(order), maintain_order=True)
    return declared(ranked, Comparison)


def _has_jobs(trace: Trace) -> bool:
    needs = ({"jobs": ("runtime_s",)}, *COHORT_NEEDS)
    return any(all(trace.has(*need) for need in column.items()) for column in needs)


def _horizon(trace: Trace) -> float | None:
    """Return the runtime by which failures of a trace are counted, if they are."""
    try:
        incidence = trace.once(overall_failure).incidence if _has_jobs(trace) else None
    except DataError:
        return None
    return None if incidence is None else float(incidence["horizon_s"])


def _by_horizon(table: pl.DataFrame, trace: Trace, horizon_s: float) -> pl.DataFrame:
    """Return headline numbers with failure by another runtime."""
    row = _or_note(partial(_incidence, horizon_s=horizon_s), form_cohort(trace))
    is_it = pl.col("name") == "failure_incidence"
    return table.with_columns(
        pl.when(is_it).then(pl.lit(value, table.schema[name])).otherwise(name).alias(name)
        for name, value in row.items()
    )


def describe_headlines(trace: Trace, /) -> pl.DataFrame:
    """Return the headline numbers of one trace: columns of :class:`Comparison` without ranks."""
    headlines = dict.fromkeys(_QUESTIONS, _row(note="no runtimes of jobs are recorded"))
    if _has_jobs(trace):
        cohort = form_cohort(trace)
        of_cohort = (_runtime, _size, _queueing, _failure, _incidence, _concentration)
        described = (_or_note(describe, cohort) for describe in of_cohort)
        headlines |= zip(_QUESTIONS, described, strict=False)
    headlines["Variation"] = _or_note(_variation, trace)
    headlines["Stragglers"] = _or_note(_straggler_cost, trace)
    rows = [
        {"question": question, "name": name, "measure": measure, "trace": trace.label}
        | headlines[question]
        for question, (name, measure) in _QUESTIONS.items()
    ]
    return pl.DataFrame(rows, schema=schema_of(Comparison))


def _row(
    n: int = 0,
    estimate: float | None = None,
    interval: tuple[float | None, float | None] = (None, None),
    note: str | None = None,
) -> Row:
    low, high = (None if bound is None or np.isnan(bound) else float(bound) for bound in interval)
    return {"n": n, "estimate": estimate, "ci_low": low, "ci_high": high, "note": note}


def _or_note(describe: Callable[[T], Row], described: T) -> Row:
    try:
        return describe(described)
    except DataError as error:
        return _row(note=str(error))


def _kind(cohort: Cohort) -> str | None:
    return f"of {cohort.noun}" if cohort.from_tasks else None


def _listed(cohort: Cohort) -> str | None:
    missing = "short jobs are missing" if cohort.trace.manifest.is_left_truncated else None
    return _joined(_kind(cohort), missing)


def _runtime(cohort: Cohort) -> Row:
    table = cohort.rows.drop_nulls("duration_s")
    if not (cut := count_cut(table)):
        return _median(cohort, table["duration_s"], table, _listed(cohort))
    survival = cohort.over_units(kaplan_meier, table, status=None, **SEEN)
    median, low, high = survival.groups.select("median_s", "ci_low", "ci_high").row(0)
    cut_note = f"{cut:,} truncated or censored: Kaplan-Meier median"
    note = _joined(_listed(cohort), cut_note, _independence(cohort))
    return _row(table.height, median, (low, high), note)


def _size(cohort: Cohort) -> Row:
    table = cohort.rows.drop_nulls("gpus")
    if table.is_empty():
        return _row(note="no GPUs are recorded")
    several = pl.when(pl.col("gpus") > 1).then(pl.lit("failed")).otherwise(pl.lit("completed"))
    stated = table.select(pl.lit("all").alias("all"), *cohort.unit_columns, status=several)
    [rate] = cohort.over_units(failure_rates, stated, "all").rows(named=True)
    interval = (rate["ci_low"], rate["ci_high"])
    note = _joined(_listed(cohort), _independence(cohort))
    return _row(rate["n"], rate["rate"], interval, note)


def _failure(cohort: Cohort) -> Row:
    for status, what in (("completed", "completed job"), ("failed", "failure")):
        if not (cohort.rows["status"].cast(pl.String) == status).any():
            return _row(note=f"no {what} is recorded")
    result = cohort.trace.once(overall_failure)
    rate = result.rate
    note = _joined(_kind(cohort), result.bias, _independence(cohort))
    return _row(rate["n"], rate["rate"], (rate["ci_low"], rate["ci_high"]), note)


def _incidence(cohort: Cohort, horizon_s: float | None = None) -> Row:
    incidence = cohort.trace.once(overall_failure).incidence
    if horizon_s is not None:
        incidence = failure_by(cohort.trace, horizon_s)
    if incidence is None:
        return _row(note="no failure with a runtime is recorded")
    interval = (incidence["ci_low"], incidence["ci_high"])
    within = f"within {duration(incidence['horizon_s'])}"
    note = _joined(_kind(cohort), within, _independence(cohort))
    return _row(incidence["n"], incidence["fraction"], interval, note)


def _queueing(cohort: Cohort) -> Row:
    table = pl.DataFrame()
    if {"submit_s", "start_s"} <= {*cohort.rows.columns}:
        table = cohort.rows.drop_nulls(["submit_s", "start_s"])
    if table.is_empty():
        return _row(note="no times of submission and start")
    return _median(cohort, table["start_s"] - table["submit_s"], table, None)


def _concentration(cohort: Cohort) -> Row:
    """Return what the largest jobs use, as the section on the workload does."""
    trace, kind = cohort.trace, None
    split = trace.once(describe_workload).concentration if trace.has("jobs") else None
    if split is not None:
        table = split.total
    elif cohort.rows["gpus"].count():
        table, kind = concentration(cohort.rows, window=trace.once(window_of)), _kind(cohort)
    else:
        return _row(note="no GPUs are recorded")
    [row] = table.rows(named=True)
    note = row["note"] or "no interval: it rests on the few largest jobs"
    cut = 0 if cohort.from_tasks else count_cut(cohort.rows.drop_nulls(["gpus", "runtime_s"]))
    if cut:
        note += f", {cut:,} of which are truncated or censored"
    return _row(row["n"], row["fraction_of_top_1_percent"], note=_joined(kind, note))


def _median(cohort: Cohort, values: pl.Series, rows: pl.DataFrame, note: str | None) -> Row:
    if values.is_empty():
        return _row(note=_joined(note, "no row has a value"))
    interval = cohort.median_interval(rows, values)
    note = _joined(note, _independence(cohort))
    if np.isnan(interval).any():
        note = _joined(note, "no interval: too few independent units")
        interval = (np.nan, np.nan)
    if interval[0] == interval[1]:
        note = _joined(note, "the limits are equal: most rows have this value")
    return _row(values.len(), float(np.median(values.to_numpy())), interval, note)


def _independence(cohort: Cohort) -> str | None:
    return None if cohort.cluster else "rows treated as independent: no user is recorded"


def _is_pipeline(trace: Trace) -> bool:
    return all(trace.has(table, columns) for table, columns in PIPELINE.items())


def _variation(trace: Trace) -> Row:
    if _is_pipeline(trace):
        return _row(note="pipelines: workers of different stages have different work")
    if trace.has("worker_samples"):
        return _over_jobs(trace.once(cov_by_job).filter(ddof=0)["median"])
    if trace.has("cov_samples"):
        return _over_jobs(trace.once(published_cov)[0]["median"])
    return _row(note="no step times of workers are recorded")


def _straggler_cost(trace: Trace) -> Row:
    if not trace.has("worker_samples"):
        return _row(note="no step times of workers are recorded")
    if _is_pipeline(trace):
        return _row(note="pipelines: times per worker do not add up to a slowdown")
    return _over_jobs(trace.once(stragglers).jobs["slowdown"])


def _over_jobs(values: pl.Series) -> Row:
    values = values.drop_nulls()
    if values.is_empty():
        return _row(note="no job has a value")
    median = float(np.median(values.to_numpy()))
    if values.len() < _FEWEST_JOBS:  # the range of five values covers the median in 94 %
        return _row(values.len(), median, note=f"no interval below {_FEWEST_JOBS} jobs")
    return _row(values.len(), median, woodruff_interval(values.to_numpy()))


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
