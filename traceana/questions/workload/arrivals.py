"""Submissions by hour of the day and weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.workload.tables import ArrivalRhythm
from traceana.stats.arguments import is_number
from traceana.store.frames import (
    Names,
    as_names,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
_WEEK_S: Final = 7 * _DAY_S
# per -> a slot's length, its cycle's, the first slot's number, and how far into the cycle second 0
# of the Unix clock is (it was a Thursday, the fourth day)
_SLOTS: Final = {"hour": (_HOUR_S, _DAY_S, 0, 0), "weekday": (_DAY_S, _WEEK_S, 1, 3 * _DAY_S)}


@returns(ArrivalRhythm)
def arrival_rhythm(
    jobs: IntoFrame,
    /,
    *,
    per: Literal["hour", "weekday"],
    utc_offset_h: float = 0,
    by: Names = (),
    submit: str = "submit_s",
) -> pl.DataFrame:
    """Count submissions by hour of the day or weekday, with their rates.

    The rate of a slot is its jobs over the time for which the slot was observed, from the first
    to the last submission of the group. Counts alone would depend on how often a slot occurs.

    Seconds are read as seconds since 1970-01-01 00:00 UTC. If second 0 is the beginning of the
    data collection, hour 0 is the first hour of a day that begins when the collection did.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine.
    per
        "hour" for hours 0 to 23, "weekday" for 1 (Monday) to 7, as in ISO 8601.
    utc_offset_h
        Hours to add to the clock for local time, -24 to 24.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    submit
        Column of the submission: seconds or datetimes.

    Returns
    -------
    DataFrame
        Every slot of every group with a submission, sorted by group and slot, nulls last. Jobs
        without a submission are not counted. The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 60, 3600, 90000]})
    >>> traceana.arrival_rhythm(jobs, per="hour").head(3).select("hour", "jobs", "share").rows()
    [(0, 2, 0.5), (1, 2, 0.5), (2, 0, 0.0)]
    """
    if not isinstance(per, str) or per not in _SLOTS:
        raise DataError(f"per must be one of {', '.join(_SLOTS)}; it is {per!r}")
    if not (is_number(utc_offset_h) and -24 <= utc_offset_h <= 24):
        raise DataError(f"utc_offset_h must lie from -24 to 24 hours; it is {utc_offset_h!r}")
    slot_s, cycle_s, first_slot, ahead_s = _SLOTS[per]
    keys = as_names(by)
    refuse_clash(keys, (per, "share", "observed_h", "jobs_per_h", "in_group", "one"))
    # whole weeks change neither hour nor weekday, and keep what is floored from being negative
    shift = (ahead_s + utc_offset_h * _HOUR_S) % _WEEK_S
    local = nw.col(submit) + shift
    slot = ((local % cycle_s) / slot_s).floor() + first_slot
    counts = reduce_frame(
        open_frame(jobs, keys=keys, measures={"submit": submit})
        .filter(~nw.col(submit).is_null())
        .with_columns(slot.alias(per)),
        (*keys, per),
        jobs=nw.len(),
        first=local.min(),
        last=local.max(),
    )
    if (counts["last"] > 2**53).any():
        raise DataError(f"{submit} is above 2^53 s; such seconds are not exact")
    counts = counts.with_columns(pl.col(per).cast(pl.Int64))
    group = [pl.lit(0).alias("one"), *map(pl.col, keys)]
    spans = (
        counts.group_by(group)
        .agg(pl.col("first").min(), pl.col("last").max(), in_group=pl.col("jobs").sum())
        .filter(pl.col("in_group") > 0)  # a frame without rows is still one group of no keys
    )
    slots = pl.DataFrame({per: range(first_slot, first_slot + cycle_s // slot_s)})
    begins = (pl.col(per) - first_slot) * slot_s

    def seconds_before(time: str) -> pl.Expr:
        """Return how long the slot was, from the clock's beginning to a time."""
        past = pl.col(time)
        return (past / cycle_s).floor() * slot_s + (past % cycle_s - begins).clip(0, slot_s)

    observed_h = (seconds_before("last") - seconds_before("first")) / _HOUR_S
    found = (
        spans.join(slots, how="cross")
        .join(counts.select(*keys, per, "jobs"), on=[*keys, per], how="left", nulls_equal=True)
        .with_columns(pl.col("jobs").fill_null(0), observed_h=observed_h)
        .with_columns(
            share=pl.col("jobs") / pl.col("in_group"),
            jobs_per_h=pl.when(pl.col("observed_h") > 0).then(
                pl.col("jobs") / pl.col("observed_h")
            ),
        )
        .sort(*keys, per, nulls_last=True)
    )
    return declared(found, ArrivalRhythm, by=keys)
