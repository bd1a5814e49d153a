"""Runtimes against those of the same group: ratios to the mean, predictions from earlier runs."""

from __future__ import annotations

import warnings
from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import GROUPINGS, notes_unit
from traceana.cohorts.tables import MissingTimes, RuntimeRatioSummary
from traceana.cohorts.task_times import check_capacity, impute_ends, sum_gpus
from traceana.cohorts.tasks import (
    OWNERS,
    instance_times,
    sample_jobs,
    sampled_rows,
    task_owners,
    task_times,
)
from traceana.errors import DataError
from traceana.questions.runtimes.tables import RuntimePredictions
from traceana.stats.arguments import as_list, check_confidence, is_number
from traceana.stats.arrays import Booleans, Floats, Integers
from traceana.stats.intervals import ratio_interval
from traceana.store import Trace
from traceana.store.frames import (
    Names,
    as_keys,
    as_names,
    collect,
    column_names,
    open_frame,
    reduce_frame,
)
from traceana.tables.declare import declared, returns, schema_of
from traceana.tables.display import key_heading
from traceana.tables.formatting import in_sentence, listed

_RATIO: Final = "runtime_ratio"
_SMALLEST_MEAN: Final = 1e-150
"""Smallest mean that is divided by: the ratio could overflow below it."""
_QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def runtime_ratio(jobs: IntoFrame, /, by: Names, *, runtime: str = "runtime_s") -> pl.DataFrame:
    """Divide each runtime by the mean runtime of its group.

    The ratios of a group average 1 (Zeus, NSDI'23, scales recurring jobs by them).

    Parameters
    ----------
    jobs
        One row per job or task; eager or lazy, of any supported engine. All its columns are
        collected; none may be called runtime_ratio.
    by
        Columns to group by; null is a group of its own, and ``()`` takes all rows as one group.
    runtime
        Column of runtimes, in any unit; durations become seconds.

    Returns
    -------
    DataFrame
        The frame (NaN as null, runtime as a float) with the column runtime_ratio, in the order of
        its rows if the engine has one. The ratio is null if the runtime is null, or all runtimes
        of the group are 0.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "runtime_s": [50.0, 150.0, 60.0]})
    >>> traceana.runtime_ratio(jobs, by="group")["runtime_ratio"].to_list()
    [0.5, 1.5, 1.0]
    """
    keys = as_names(by)
    names = column_names(jobs)
    if _RATIO in names:
        raise DataError(f"the frame has a column {_RATIO}; drop or rename it")
    others = [name for name in names if name not in (*keys, runtime)]
    rows = collect(open_frame(jobs, keys=(*keys, *others), measures={"runtime": runtime}))
    mean = pl.col(runtime).mean().over(keys) if keys else pl.col(runtime).mean()
    ratio = pl.when(mean > 0).then(pl.col(runtime) / mean)
    return rows.select(*names, ratio.alias(_RATIO))


@returns(RuntimeRatioSummary)
def summarize_runtime_ratio(
    jobs: IntoFrame, /, by: Names, *, runtime: str = "runtime_s"
) -> pl.DataFrame:
    """Summarize the distribution of runtimes over the mean of their group.

    Parameters
    ----------
    jobs, by, runtime
        As in :func:`runtime_ratio`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "runtime_s": [50.0, 150.0, 60.0]})
    >>> found = traceana.summarize_runtime_ratio(jobs, by="group")
    >>> found.select("group", "n", "mean_s", "median", "max").rows()
    [('a', 2, 100.0, 1.0, 1.5), ('b', 1, 60.0, 1.0, 1.0)]
    """
    keys, value = as_keys(by, ("note",)), nw.col(runtime)
    groups = reduce_frame(
        open_frame(jobs, keys=keys, measures={"runtime": runtime}),
        keys,
        n=value.count(),
        mean_s=value.mean(),
        cov=value.std(ddof=1),
        **{name: value.quantile(q, interpolation="linear") for name, q in _QUANTILES.items()},
        max=value.max(),
        n_missing=nw.len() - value.count(),
    )
    spread = ["cov", *_QUANTILES, "max"]
    n, mean = pl.col("n"), pl.col("mean_s")
    notes = {
        "no runtime": n == 0,
        "every runtime is 0": mean == 0,
        "the mean runtime is too close to 0 for a ratio": mean < _SMALLEST_MEAN,
        "one runtime has no standard deviation": n == 1,
    }
    note = pl.coalesce(pl.when(holds).then(pl.lit(text)) for text, holds in notes.items())
    ratios = pl.when(mean >= _SMALLEST_MEAN).then(pl.col(spread) / mean).fill_nan(None)
    return declared(
        groups.with_columns(ratios.name.keep(), note=note), RuntimeRatioSummary, by=keys
    )


ROW_TABLES: Final = ("jobs", "tasks", "recurring_jobs")  # tables whose rows have runtimes


def tables_with_runtimes(trace: Trace, /) -> list[str]:
    """Return the tables of :data:`ROW_TABLES` to analyze: tasks only if jobs have no runtimes."""
    jobs = trace.has("jobs", ("runtime_s",))
    times = ("start_s", "end_s")
    present = {
        "jobs": jobs,
        "tasks": not jobs and trace.has("tasks") and trace.has("instances", times),
        "recurring_jobs": trace.has("recurring_jobs", times),
    }
    return [table for table, has_runtimes in present.items() if has_runtimes]


def ratio_tables(trace: Trace, table: str, /) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the runtime ratios of a table by grouping, and those of each group of the first.

    By grouping, those of all groups together, without rows alone in their group or without one.
    """
    everything = _rows(trace, table)
    rows = everything.filter(pl.col("runtime_s").is_not_null())
    groupings = _groupings(rows, trace.manifest.tables[table].groups)
    parts = []
    for by in ((), *groupings):
        several = rows.select(*by, "runtime_s")
        if by:
            several = several.drop_nulls(by).filter(pl.len().over(by) > 1)
        ratios = runtime_ratio(several, by=by).select("runtime_ratio")
        counts = {  # the grouping as in a sentence: QoS class, status and GPUs
            "grouping": listed([in_sentence(key_heading(name)) for name in by] or ["none"]),
            "groups": several.select(by).n_unique() if by else 1,
            "n_excluded": rows.height - several.height,
        }
        summary = summarize_runtime_ratio(ratios, by=(), runtime="runtime_ratio")
        parts.append(pl.DataFrame([counts]).hstack(summary))
    # rows without a runtime are counted
    groups = summarize_runtime_ratio(everything, by=groupings[0]) if groupings else None
    return pl.concat(parts), groups


def _rows(trace: Trace, table: str) -> pl.DataFrame:
    if table == "tasks":
        rows = task_times(trace)
        owners = trace.once(task_owners)
        return rows.hstack(owners) if owners.width else rows
    present = trace.scan(table).collect_schema().names()
    groups = (*trace.manifest.tables[table].groups, *GROUPINGS, *OWNERS)
    used = {*groups, "status", "gpus", "group", "runtime_s", "start_s", "end_s"}
    names = [name for name in present if name in used]
    rows = sampled_rows(trace, table, *names).collect()
    if table == "recurring_jobs":
        return rows.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    return rows


def _groupings(rows: pl.DataFrame, groups: tuple[str, ...]) -> list[tuple[str, ...]]:
    named = dict.fromkeys((*groups, *GROUPINGS))
    others = ("status", *OWNERS, "gpus", "group")
    varies = {
        name: name in rows.columns and rows[name].drop_nulls().n_unique() > 1
        for name in (*named, *others)
    }
    varying = [name for name in named if varies[name]]
    single = dict.fromkeys((*varying, *(name for name in ("status", *OWNERS) if varies[name])))
    joint = [
        tuple(name for name in names if varies[name])
        for names in ((*varying[:1], "status", "gpus"), ("group", "status"))
    ]
    return [*((name,) for name in single), *(by for by in joint if len(by) > 1)]


def capacity(trace: Trace, /) -> pl.DataFrame:
    """Return the capacity check; of a sample, its GPU-hours times all tasks over those drawn."""
    gpus = sum_gpus(trace.frame("machines")) if trace.has("machines") else None
    check, sample = check_capacity(trace.once(instance_times), gpus), trace.once(sample_jobs)
    if sample is None:
        return check
    summed = ("gpu_hours", "gpu_hours_gang", "fraction_of_capacity")
    return check.with_columns(pl.col(summed) / sample.fraction)


def task_gpu_hours(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, status, gpus, runtime_s, user]: of each task the time of its instances."""
    times = impute_ends(trace.once(instance_times), "drop").select(
        "job_id", pl.col("status").cast(pl.String), "gpus", runtime_s=pl.col("instance_s")
    )
    owners = trace.once(task_owners, "user")
    users = [owners["user"].cast(pl.String)] if "user" in owners.columns else []
    return times.collect(engine="streaming").hstack(users)


def missing_times(trace: Trace, /) -> pl.DataFrame:
    """Return the missing starts and ends of instances, by the status of their task."""
    n = pl.col("n_instances")
    missing = reduce_frame(
        trace.once(instance_times).tasks,
        ("status",),
        tasks=pl.len(),
        without_instances=(n == 0).sum(),
        instances=n.sum(),
        no_start=(1 - pl.col("n_start").sum() / n.sum()).fill_nan(None),
        no_end=(1 - pl.col("n_end").sum() / n.sum()).fill_nan(None),
    )
    return declared(missing.sort("tasks", "status", descending=True), MissingTimes)


_SIZES = ("gpus", "cpus", "time_limit_s")
_FEWEST_FITTED, _MOST_FITTED = 50, 20_000


@notes_unit
@returns(RuntimePredictions)
def predict_runtimes(
    jobs: IntoFrame,
    /,
    *,
    same: Names = ("user", "job_name"),
    quantiles: Sequence[float] = (0.1, 0.5, 0.9),
    split: float = 0.5,
    submit: str = "submit_s",
    end: str = "end_s",
    runtime: str = "runtime_s",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Score predictions of runtimes from earlier runs of the same job.

    Jobs submitted after the split in time are predicted from what was known at their submission:
    the runs of the same job that had ended. A job without one has the prediction of `all`.

    - all: quantile of the runtimes that had ended at the split, of all jobs
    - last: runtime of the run of the same job that ended last
    - mean: mean runtime of the same job
    - quantile: quantile of the runtimes of the same job; at 0.5 their median
    - model: quantile regression of the log runtime on the logarithms of last, mean and median of
      the same job, and of gpus, cpus and time_limit_s where the frame has them; fitted to the jobs
      that had ended at the split, at most the last 20,000. Without 50 of them there is none.

    The score is the pinball loss, which the true quantile minimizes (Gneiting and Raftery, JASA
    102, 2007): q (y - x) for a runtime y above the prediction x, else (1 - q) (x - y). Its mean is
    determined by long jobs.

    Parameters
    ----------
    jobs
        One row per job: `same`, `submit`, `end`, `runtime` and `cluster`, and where it has them
        gpus, cpus and time_limit_s; eager or lazy, of any supported engine. Rows without a time are
        excluded; so are jobs that still run, which makes predictions too short where many of them
        are long.
    same
        Columns that runs of the same job share.
    quantiles, split
        Quantiles to predict, and fraction of the jobs that are submitted before the split, each in
        (0, 1).
    submit, end, runtime
        Columns of the submission and the end (seconds or datetimes), and of the runtime (seconds or
        a duration).
    cluster, confidence
        As in :func:`outcome_rates`; the interval of the skill is by linearization of a ratio.

    Returns
    -------
    DataFrame
        One row per quantile and predictor:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "user": "u", "job_name": ["a", "b"] * 10, "runtime_s": [60, 3600] * 10,
    ...     "submit_s": [10_000 * day for day in range(20)],
    ... }).with_columns(end_s=pl.col("submit_s") + pl.col("runtime_s"))
    >>> found = traceana.predict_runtimes(jobs, quantiles=[0.5])
    >>> found.select("predictor", "pinball_s", "skill").rows()
    [('all', 885.0, 0.0), ('last', 0.0, 1.0), ('mean', 0.0, 1.0), ('quantile', 0.0, 1.0)]
    """
    check_confidence(confidence)
    levels, names = as_list("quantiles", quantiles), as_names(same)
    for name, value in (*(("quantiles", level) for level in levels), ("split", split)):
        if not (is_number(value) and 0 < value < 1):
            raise DataError(f"{name} must lie between 0 and 1; found {value!r}")
    keys = tuple(dict.fromkeys((*names, *([cluster] if cluster else []))))
    sizes = [name for name in _SIZES if name in column_names(jobs) and name not in keys]
    rows = collect(open_frame(jobs, keys=keys, measures=(submit, end, runtime, *sizes)))
    frame = rows.drop_nulls([submit, end, runtime]).sort(submit, end, maintain_order=True)
    at = frame[submit].quantile(split, "lower") or 0.0
    earlier = frame.filter(pl.col(end) <= at)[runtime].to_numpy()
    is_later = frame.select(pl.col(submit) > at).to_series()
    if not len(earlier) or not is_later.any():
        raise DataError("no job ended before the split, or none was submitted after it")
    code = pl.struct(names).rank("dense") if names else pl.repeat(0, pl.len())
    codes = frame.select(code).to_series()
    computed = list(dict.fromkeys((0.5, *levels)))
    every = _history(frame, codes, (submit, end, runtime), computed)
    history = every[is_later.to_numpy()]
    later = frame.filter(is_later)
    ran, ended = frame[runtime].to_numpy(), (frame[end] <= at).to_numpy()
    modeled = _modeled(frame.select(sizes), every[:, :3], ran, ended, levels)
    actual = later[runtime].to_numpy()
    owners = later[cluster].rank("dense").to_numpy() if cluster else np.arange(later.height)
    _, units = np.unique(owners, return_inverse=True)
    scores = []
    for place, level in enumerate(levels):
        base = np.full(len(actual), float(np.quantile(earlier, level)))
        predictions = {"all": base, "last": history[:, 0], "mean": history[:, 1]}
        predictions["quantile"] = history[:, 2 + computed.index(level)]
        if modeled is not None:
            predictions["model"] = modeled[is_later.to_numpy(), place]
        for predictor, given in predictions.items():
            score = _score(actual, given, base, level, units=units, confidence=confidence)
            scores.append({"predictor": predictor, "quantile": float(level), **score})
    table = pl.DataFrame(scores, schema=schema_of(RuntimePredictions)).with_columns(
        n=pl.lit(len(actual), pl.Int64),
        n_excluded=pl.lit(rows.height - frame.height, pl.Int64),
        with_history=(~np.isnan(history[:, 0])).mean(),
    )
    return declared(table.fill_nan(None), RuntimePredictions)


def _score(
    actual: Floats, given: Floats, base: Floats, level: float, *, units: Integers, confidence: float
) -> dict[str, float | None]:
    predicted = np.where(np.isnan(given), base, given)
    loss, loss_of_base = (
        np.maximum(level * (actual - value), (level - 1) * (actual - value))
        for value in (predicted, base)
    )
    score: dict[str, float | None] = {
        "pinball_s": float(loss.mean()),
        "coverage": float((actual <= predicted).mean()),
    }
    if loss_of_base.any():
        score["skill"] = 1 - float(loss.sum() / loss_of_base.sum())
        if given is not base:
            x, y = np.bincount(units, loss_of_base), np.bincount(units, loss)
            sums = np.array([[x.sum()], [y.sum()], [x @ x], [x @ y], [y @ y], [len(x)]])
            (low,), (high,) = ratio_interval(sums, confidence=confidence)
            score |= {"ci_low": 1 - float(high), "ci_high": 1 - float(low)}
    return score


def _history(
    table: pl.DataFrame, codes: pl.Series, times: Sequence[str], levels: Sequence[float]
) -> Floats:
    """Return last, mean and quantiles of the runs that had ended at each submission, or NaN."""
    submitted, ended, ran = (table[name].to_numpy() for name in times)
    groups = codes.fill_null(0).to_numpy()
    by_end = np.argsort(ended, kind="stable")
    sorted_runs: dict[int, list[float]] = defaultdict(list)
    last: dict[int, float] = {}
    sums: dict[int, float] = defaultdict(float)
    history = np.full((table.height, 2 + len(levels)), np.nan)
    done = 0
    for row in range(table.height):
        while done < len(by_end) and ended[by_end[done]] <= submitted[row]:
            run = by_end[done]
            group = int(groups[run])
            insort(sorted_runs[group], ran[run])
            sums[group] += ran[run]
            last[group] = ran[run]
            done += 1
        group = int(groups[row])
        if runs := sorted_runs.get(group):
            history[row, 0], history[row, 1] = last[group], sums[group] / len(runs)
            history[row, 2:] = [_quantile(runs, level) for level in levels]
    return history


def _modeled(
    sizes: pl.DataFrame, history: Floats, ran: Floats, ended: Booleans, levels: Sequence[float]
) -> Floats | None:
    """Return predictions of each quantile by regression; None with few rows to fit."""
    from statsmodels.regression.quantile_regression import QuantReg  # noqa: PLC0415

    fitted = np.flatnonzero(ended & (ran > 0))[-_MOST_FITTED:]
    if len(fitted) < _FEWEST_FITTED:
        return None
    middle = float(np.median(ran[fitted]))
    numbers = [*history.T, *(size.cast(pl.Float64).fill_null(1).to_numpy() for size in sizes)]
    logs = [
        np.log(np.maximum(np.where(np.isnan(number), middle, number), 1.0)) for number in numbers
    ]
    matrix = np.column_stack([np.ones(len(ran)), ~np.isnan(history[:, 0]), *logs])
    y, x = np.log(ran[fitted]), matrix[fitted]
    predicted = np.empty((len(ran), len(levels)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # collinear columns share their coefficient
        for place, level in enumerate(levels):
            predicted[:, place] = matrix @ QuantReg(y, x).fit(q=level).params
    clipped: Floats = np.exp(np.clip(predicted, y.min(), y.max()))
    return clipped


def _quantile(values: list[float], level: float) -> float:
    at = level * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])
