"""Prediction of runtimes from earlier runs of the same job."""

from __future__ import annotations

import warnings
from bisect import insort
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.cohorts.cohort import notes_unit
from traceana.errors import DataError
from traceana.questions.runtimes.tables import RuntimePredictions
from traceana.stats.arguments import as_list, check_confidence, is_number
from traceana.stats.arrays import Floats
from traceana.stats.intervals import ratio_interval
from traceana.store.frames import Names, as_names, collect, column_names, open_frame
from traceana.tables.declare import declared, returns, schema_of

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
    quantiles
        Quantiles to predict, each in (0, 1).
    split
        Fraction of the jobs that are submitted before the split, in (0, 1).
    submit, end, runtime
        Columns of the submission and the end (seconds or datetimes), and of the runtime (seconds or
        a duration).
    cluster
        Column of the independent unit, such as user; None: rows are independent.
    confidence
        Coverage of the interval of the skill, in (0, 1), by linearization of a ratio.

    Returns
    -------
    DataFrame
        One row per quantile and predictor:
        {columns}

    Raises
    ------
    DataError
        If a quantile or the split is not in (0, 1), or no job is on one side of the split.

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
    levels = _check_levels(quantiles, split)
    names = as_names(same)
    keys = tuple(dict.fromkeys((*names, *([cluster] if cluster else []))))
    sizes = [name for name in _SIZES if name in column_names(jobs) and name not in keys]
    rows = collect(open_frame(jobs, keys=keys, measures=(submit, end, runtime, *sizes)))
    frame = rows.drop_nulls([submit, end, runtime]).sort(submit, end, maintain_order=True)
    at = frame[submit].quantile(split, "lower") or 0.0
    earlier = frame.filter(pl.col(end) <= at)[runtime].to_numpy()
    is_later = frame.select(pl.col(submit) > at).to_series()
    if not len(earlier) or not is_later.any():
        raise DataError("no job ended before the split, or none was submitted after it")
    codes = frame.select(pl.struct(names).rank("dense")).to_series() if names else None
    every = _history(frame, codes, (submit, end, runtime), [0.5, *levels])
    history = np.delete(every[is_later.to_numpy()], 2, axis=1)
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
        predictions["quantile"] = history[:, 2 + place]
        if modeled is not None:
            predictions["model"] = modeled[is_later.to_numpy(), place]
        for predictor, known in predictions.items():
            score = _score(actual, known, base, level, units=units, confidence=confidence)
            scores.append({"predictor": predictor, "quantile": float(level), **score})
    shared = {
        "n": len(actual),
        "n_excluded": rows.height - frame.height,
        "with_history": float((~np.isnan(history[:, 0])).mean()),
    }
    table = pl.DataFrame(
        [score | shared for score in scores], schema=schema_of(RuntimePredictions)
    ).fill_nan(None)
    return declared(table, RuntimePredictions)


def _check_levels(quantiles: Sequence[float], split: float) -> list[float]:
    levels = as_list("quantiles", quantiles)
    for name, value in (*(("quantiles", level) for level in levels), ("split", split)):
        if not (is_number(value) and 0 < value < 1):
            raise DataError(f"{name} must lie between 0 and 1; found {value!r}")
    return levels


def _score(
    actual: Floats,
    known: Floats,
    base: Floats,
    level: float,
    /,
    *,
    units: NDArray[np.int64],
    confidence: float,
) -> dict[str, float | None]:
    """Return loss, coverage, and the skill over `base` with its interval."""
    predicted = np.where(np.isnan(known), base, known)
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
        if known is not base:
            x, y = np.bincount(units, loss_of_base), np.bincount(units, loss)
            sums = np.array([[x.sum()], [y.sum()], [x @ x], [x @ y], [y @ y], [len(x)]])
            (low,), (high,) = ratio_interval(sums, confidence=confidence)
            score |= {"ci_low": 1 - float(high), "ci_high": 1 - float(low)}
    return score


def _history(
    table: pl.DataFrame,
    codes: pl.Series | None,
    times: tuple[str, str, str],
    levels: Sequence[float],
) -> Floats:
    """Return last, mean and quantiles of the runs that had ended at each submission, or NaN."""
    submitted, ended, ran = (table[name].to_numpy() for name in times)
    groups = np.zeros(table.height, dtype=int) if codes is None else codes.fill_null(0).to_numpy()
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
    sizes: pl.DataFrame,
    history: Floats,
    ran: Floats,
    ended: NDArray[np.bool_],
    levels: Sequence[float],
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
    """Return a quantile of sorted values by linear interpolation."""
    at = level * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])
