"""Headline numbers of each trace, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec

import numpy as np
import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, Cohort, form_cohort
from traceana.cohorts.observation import window_of
from traceana.errors import DataError
from traceana.questions.comparison.tables import Comparison
from traceana.questions.failures.curves import kaplan_meier
from traceana.questions.failures.overall import overall_failure
from traceana.questions.failures.rates import failure_rates
from traceana.questions.stragglers.analyze import (
    PIPELINE,
    cov_by_job,
    published_cov,
    stragglers,
)
from traceana.questions.workload.concentration import concentration
from traceana.stats.quantiles import woodruff_interval
from traceana.store import Trace, distinct_traces
from traceana.tables.declare import declared, schema_of
from traceana.tables.formatting import duration

_QUESTIONS: Final = {
    "Runtime": ("runtime_s_median", "Median runtime (s)"),
    "Size": ("fraction_multi_gpu", "Jobs with more than one GPU (fraction)"),
    "Queueing": ("queueing_delay_s_median", "Median queueing delay (s)"),
    "Failure": ("failure_rate", "Failure rate among completed and failed (fraction)"),
    "Failure by a runtime": (
        "failure_incidence",
        "Failed by a stated runtime: cumulative incidence (fraction)",
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
P = ParamSpec("P")


def compare_traces(traces: Sequence[Trace], /) -> pl.DataFrame:
    """Return the headline numbers of traces, by question: columns of :class:`Comparison`."""
    distinct = distinct_traces(traces)
    rows = pl.concat([trace.once(describe_headlines) for trace in distinct])
    order = pl.Enum(list(_QUESTIONS))
    ranked = rows.with_columns(
        rank=pl.col("estimate").rank("min", descending=True).over("question").cast(pl.Int64)
    ).sort(pl.col("question").cast(order), maintain_order=True)
    return declared(ranked, Comparison)


def describe_headlines(trace: Trace, /) -> pl.DataFrame:
    """Return the headline numbers of one trace: columns of :class:`Comparison` without ranks."""
    headlines = _of_jobs(trace) | {
        "Variation": _or_note(_variation, trace),
        "Stragglers": _or_note(_straggler_cost, trace),
    }
    rows = [
        {"question": question, "name": name, "measure": measure, "trace": trace.label}
        | {"rank": None}
        | _row()
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


def _of_jobs(trace: Trace) -> dict[str, Row]:
    """Return the rows on jobs, or on tasks where only these have runtimes."""
    manifest = trace.manifest
    needs = ({"jobs": ("runtime_s",)}, *COHORT_NEEDS)
    if not any(all(manifest.has(*need) for need in column.items()) for column in needs):
        missing = "no runtimes of jobs are recorded"
        names = ("Runtime", "Size", "Queueing", "Failure", "Failure by a runtime", "Concentration")
        return {name: _row(note=missing) for name in names}
    cohort = form_cohort(trace)
    kind = f"of {cohort.noun}" if cohort.from_tasks else None
    return {
        "Runtime": _or_note(_runtime, cohort, kind),
        "Size": _or_note(_size, cohort, kind),
        "Queueing": _or_note(_queueing, cohort),
        "Failure": _or_note(_failure, cohort, kind),
        "Failure by a runtime": _or_note(_incidence, cohort, kind),
        "Concentration": _or_note(_concentration, cohort, kind),
    }


def _or_note(describe: Callable[P, Row], *args: P.args, **options: P.kwargs) -> Row:
    """Return a headline number, or why there is none."""
    try:
        return describe(*args, **options)
    except DataError as error:
        return _row(note=str(error))


def _runtime(cohort: Cohort, kind: str | None) -> Row:
    table = cohort.rows.drop_nulls("duration_s")
    cut = _cut(table)
    if not cut:
        return _median(cohort, table["duration_s"], table, kind)
    curve = kaplan_meier(
        table,
        status=None,
        runtime="duration_s",
        entry="entry_s",
        observed="observed",
        cluster=cohort.cluster,
    ).groups.row(0, named=True)
    return _row(
        table.height,
        curve["median_s"],
        (curve["ci_low"], curve["ci_high"]),
        _joined(kind, f"{cut:,} truncated or censored: Kaplan-Meier median", _independence(cohort)),
    )


def _cut(rows: pl.DataFrame) -> int:
    """Return how many rows the window cuts off."""
    return rows.filter((pl.col("entry_s") > 0) | ~pl.col("observed")).height


def _size(cohort: Cohort, kind: str | None) -> Row:
    table = cohort.rows.drop_nulls("gpus")
    if table.is_empty():
        return _row(note="no GPUs are recorded")
    stated = table.select(
        pl.lit("all").alias("all"),
        pl.when(pl.col("gpus") > 1)
        .then(pl.lit("failed"))
        .otherwise(pl.lit("completed"))
        .alias("status"),
        *([cohort.cluster] if cohort.cluster else []),
    )
    return _rate(stated, cohort, kind)


def _failure(cohort: Cohort, kind: str | None) -> Row:
    for status, what in (("completed", "completed job"), ("failed", "failure")):
        if not (cohort.rows["status"].cast(pl.String) == status).any():
            return _row(note=f"no {what} is recorded")
    result = cohort.trace.once(overall_failure)
    rate = result.rate
    note = _joined(kind, result.bias(cohort.noun), _independence(cohort))
    return _row(rate["n"], rate["rate"], (rate["ci_low"], rate["ci_high"]), note)


def _incidence(cohort: Cohort, kind: str | None) -> Row:
    incidence = cohort.trace.once(overall_failure).incidence
    if incidence is None:
        return _row(note="no failure with a runtime is recorded")
    interval = (incidence["ci_low"], incidence["ci_high"])
    within = f"within {duration(incidence['horizon_s'])}"
    note = _joined(kind, within, _independence(cohort))
    return _row(incidence["n"], incidence["fraction"], interval, note)


def _rate(stated: pl.DataFrame, cohort: Cohort, note: str | None) -> Row:
    [rate] = failure_rates(stated, "all", cluster=cohort.cluster).rows(named=True)
    interval = (rate["ci_low"], rate["ci_high"])
    return _row(rate["n"], rate["rate"], interval, _joined(note, _independence(cohort)))


def _queueing(cohort: Cohort) -> Row:
    names = cohort.rows.columns
    if not {"submit_s", "start_s"} <= {*names}:
        return _row(note="no times of submission and start")
    table = cohort.rows.drop_nulls(["submit_s", "start_s"])
    if table.is_empty():
        return _row(note="no times of submission and start")
    return _median(cohort, table["start_s"] - table["submit_s"], table, None)


def _concentration(cohort: Cohort, kind: str | None) -> Row:
    if not cohort.rows["gpus"].count():
        return _row(note="no GPUs are recorded")
    window = cohort.trace.once(window_of)
    [found] = concentration(cohort.rows, window=window).rows(named=True)
    share = found["fraction_of_top_1_percent"]
    note = found["note"] or "no interval: it rests on the few largest jobs"
    if cut := _cut(cohort.rows.drop_nulls(["gpus", "runtime_s"])):
        note += f", {cut:,} of which are truncated or censored"
    return _row(found["n"], share, note=_joined(kind, note))


def _median(cohort: Cohort, values: pl.Series, rows: pl.DataFrame, note: str | None) -> Row:
    if values.is_empty():
        return _row(note=_joined(note, "no row has a value"))
    codes = None
    if cohort.cluster is not None:
        codes = rows[cohort.cluster].rank("dense").to_numpy() - 1
    interval = woodruff_interval(values.to_numpy(), codes)
    note = _joined(note, _independence(cohort))
    if np.isnan(interval).any():
        note = _joined(note, "no interval: too few independent units")
        interval = (np.nan, np.nan)
    if interval[0] == interval[1]:
        note = _joined(note, "the limits are equal: most rows have this value")
    return _row(values.len(), float(np.median(values.to_numpy())), interval, note)


def _independence(cohort: Cohort) -> str | None:
    return None if cohort.cluster else "rows treated as independent: no user is recorded"


def _variation(trace: Trace) -> Row:
    manifest = trace.manifest
    if manifest.has("worker_samples"):
        jobs = trace.once(cov_by_job).filter(ddof=0)["median"].drop_nulls()
        return _over_jobs(jobs)
    if manifest.has("cov_samples"):
        jobs = trace.once(published_cov)[0]["median"].drop_nulls()
        return _over_jobs(jobs)
    return _row(note="no step times of workers are recorded")


def _straggler_cost(trace: Trace) -> Row:
    if not trace.manifest.has("worker_samples"):
        return _row(note="no step times of workers are recorded")
    if all(trace.has(table, columns) for table, columns in PIPELINE.items()):
        return _row(note="pipelines: times per worker do not add up to a slowdown")
    jobs = trace.once(stragglers).jobs
    return _over_jobs(jobs["slowdown"].drop_nulls())


def _over_jobs(values: pl.Series) -> Row:
    if values.is_empty():
        return _row(note="no job has a value")
    median = float(np.median(values.to_numpy()))
    if values.len() < _FEWEST_JOBS:  # the range of five values covers the median in 94 %
        return _row(values.len(), median, note=f"no interval below {_FEWEST_JOBS} jobs")
    return _row(values.len(), median, woodruff_interval(values.to_numpy()))


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
