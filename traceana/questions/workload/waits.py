"""Queueing delay against size, load and time, with pending jobs censored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from traceana.cohorts.observation import window_of
from traceana.errors import DataError
from traceana.questions.failures.hazards import cause_specific_hazards
from traceana.questions.workload.analyze import clock_name, grouping_column, local_submissions
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.time_blocks import DAY_S, MIN_BLOCKS, time_blocks
from traceana.store.frames import collect
from traceana.tables.display import key_heading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    from traceana.store import Trace

WAITS_NEED: Final = ("submit_s", "start_s", "gpus")
MOST_ROWS: Final = 50_000
"""Jobs beyond which as many are drawn at random."""
_FEWEST_DAYS: Final = 14
_QUARTER_S: Final = DAY_S / 4
_MINUTE_S: Final = 60.0
_WEEKS: Final = "Weeks later"


def adjusted_waits(trace: Trace, /) -> pl.DataFrame | None:
    """Return hazard ratios of the start of GPU jobs, all other features equal; None without a fit.

    A ratio below 1 means longer waits. Features are GPUs, load (GPUs of the jobs that run or wait
    at the submission), weeks since the first submission, quarter of the day, weekend, and the
    trace's grouping. Pending jobs are censored at their last record, else at the end of the window;
    jobs cancelled before they started at their end. Jobs of one time wait alike, and those of one
    user: standard errors are over blocks of days and users. Of 150 simulated logs of 60 users of
    Pareto sizes whose days and users differ, 6.7 % have p below 0.05 for a feature of the user
    without an effect, in 30 days and in 90; of 200 users 6.0 %. Weeks are for adjustment, without a
    test.
    """
    if not trace.has("jobs", WAITS_NEED):
        return None
    by = grouping_column(trace, "jobs")
    rows, features = _with_features(trace, by)
    if rows.height > MOST_ROWS:
        rows = rows.sample(MOST_ROWS, seed=1)
    if not rows.height:
        return None
    time = rows["submit_s"].to_numpy()
    blocks = time_blocks(time, np.log(rows["wait_s"].to_numpy() + _MINUTE_S))
    if blocks.n_blocks < MIN_BLOCKS:
        return None
    rows = rows.with_columns(pl.Series("block", blocks.code))
    users = "user" in rows.columns and rows["user"].count()
    if users:
        rows = rows.with_columns(user=pl.coalesce("user", pl.int_range(pl.len()).cast(pl.String)))
    try:
        hazards = cause_specific_hazards(
            rows,
            features=features,
            causes="started",
            runtime="wait_s",
            cluster=["block", "user"] if users else "block",
        )
    except DataError:
        return None
    trend = pl.col("feature") == _WEEKS
    p = hazards["pvalue"].to_numpy().astype(float)
    p[(hazards["feature"] == _WEEKS).to_numpy()] = np.nan
    return hazards.with_columns(
        *(pl.when(~trend).then(name) for name in ("ci_low", "ci_high", "pvalue")),
        pvalue_adjusted=pl.Series(adjust_pvalues(p, method="holm")).fill_nan(None),
        note=pl.when(trend)
        .then(pl.lit("for adjustment; drift has a test of its own"))
        .otherwise("note"),
    )


def _with_features(trace: Trace, by: str | None) -> tuple[pl.DataFrame, list[str]]:
    """Return GPU jobs with wait_s, status (started or waiting), submit_s and the features."""
    window = trace.once(window_of)
    names = [
        name for name in ("end_s", "status", "user", by) if name and trace.has("jobs", (name,))
    ]
    rows = collect(trace.scan("jobs").select(*WAITS_NEED, *names))
    rows = rows.with_columns(
        pl.lit(None, pl.Float64).alias("end_s") if "end_s" not in names else pl.col("end_s"),
        pl.col("status").cast(pl.String) if "status" in names else pl.lit("").alias("status"),
    ).filter(pl.col("submit_s") >= (window[0] if window else -np.inf))  # a survivor waited longer
    waits = pl.col("start_s").is_null()
    last = pl.coalesce("end_s", pl.lit(window and window[1], pl.Float64))
    rows = rows.with_columns(
        wait_s=(pl.when(waits).then(last).otherwise("start_s") - pl.col("submit_s")).clip(0),
        load=pl.Series(_load(rows)),
        local=local_submissions(rows, trace.manifest),
    ).filter(
        pl.col("gpus") > 0,
        ~waits | pl.col("status").is_in(["pending", "cancelled"]),
        pl.col("wait_s").is_not_null(),
    )
    time = pl.col("submit_s")
    days = float(rows.select((time.max() - time.min()) / DAY_S).item() or 0)
    named: dict[str, pl.Expr] = {
        "GPUs doubled": pl.col("gpus").log(2),
        "GPUs running or waiting doubled": (1 + pl.col("load")).log(2),
    }
    if days >= _FEWEST_DAYS:
        clock = clock_name(trace.manifest)
        quarter = (pl.col("local") % DAY_S // _QUARTER_S).cast(pl.Int64)
        hours = pl.format("{} to {} h", quarter * 6, quarter * 6 + 6)
        named |= {
            _WEEKS: (time - time.min()) / (7 * DAY_S),
            f"Time of day ({clock or 'hours modulo 24'})": hours,
        }
        if clock:  # Unix day 0 was a Thursday
            weekend = (pl.col("local") // DAY_S + 3) % 7 >= 5
            named["Day"] = pl.when(weekend).then(pl.lit("weekend")).otherwise(pl.lit("weekday"))
    if by is not None:
        named[key_heading(by)] = pl.col(by).cast(pl.String)
    user = ["user"] if "user" in names else []
    status = pl.when(waits).then(pl.lit("waiting")).otherwise(pl.lit("started"))
    return rows.select("wait_s", "submit_s", *user, status=status, **named), [*named]


def _load(rows: pl.DataFrame) -> Floats:
    """Return the GPUs of the other jobs that run or wait at each submission."""
    gpus = rows["gpus"].fill_null(0).cast(pl.Float64).to_numpy()
    begin, end = (rows[name].cast(pl.Float64).to_numpy() for name in ("submit_s", "end_s"))
    ended = np.flatnonzero(~np.isnan(end))

    def total(times: Floats, of: Floats, side: Literal["left", "right"]) -> Floats:
        order = np.argsort(times, kind="stable")
        sums: Floats = np.concatenate([[0.0], np.cumsum(of[order])])
        return sums[np.searchsorted(times[order], begin, side=side)]

    load = total(begin, gpus, "left") - total(end[ended], gpus[ended], "right")
    return load.clip(0.0)
