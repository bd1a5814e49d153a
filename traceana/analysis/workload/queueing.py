"""How long jobs wait between submission and start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.errors import DataError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def queueing_delay(jobs: IntoFrame, /, *, by: Names = ()) -> pl.DataFrame:
    """Time from submission to start, start_s - submit_s, of the jobs that started.

    A job that never started waited for longer than the trace tells and is in no quantile:
    compare n_no_start with n before reading them. Where a trace gives no starts (ITP, and the
    jobs table of PAI) there is no delay, and none is made up.

    Parameters
    ----------
    jobs
        One row a job: [*by, submit_s, start_s]; eager or lazy, of any listed engine. Null and NaN
        are missing.
    by
        Columns to group by; ``()`` for one row over all. Null in `by` is a group of its own.

    Returns
    -------
    DataFrame
        [*by, jobs, n, n_no_start, n_no_submit, mean_s, median_s, p75_s, p90_s, p95_s, p99_s,
        max_s, share_zero, note], sorted by `by`, nulls last. n counts the delays that the rest is
        taken over, n_no_start the jobs submitted of which no start is known, n_no_submit those
        without a submission; share_zero is the share of delays at 0. Quantiles interpolate
        linearly between order statistics (type 7 of Hyndman and Fan, 1996). All are null where n
        is 0, and note says so.

    Raises
    ------
    DataError
        If a column is missing or not numeric, a value is negative or infinite, or a job starts
        before it was submitted.
    """
    keys = as_names(by)
    refuse_clash(keys, ("note",))
    submit, start = nw.col("submit_s"), nw.col("start_s")
    delay = start - submit
    quantiles = {"median_s": 0.5, "p75_s": 0.75, "p90_s": 0.9, "p95_s": 0.95, "p99_s": 0.99}
    delays = reduce_frame(
        open_frame(jobs, keys=keys, measures=("submit_s", "start_s")),
        keys,
        jobs=nw.len(),
        n=delay.count(),
        n_no_start=submit.count() - delay.count(),
        n_no_submit=nw.len() - submit.count(),
        mean_s=delay.mean(),
        **{name: delay.quantile(q, interpolation="linear") for name, q in quantiles.items()},
        max_s=delay.max(),
        share_zero=nw.when(~delay.is_null()).then((delay == 0).cast(nw.Float64)).mean(),
        least_s=delay.min(),
    )
    if (delays["least_s"] < 0).any():
        raise DataError("a job starts before it was submitted: start_s is below submit_s")
    why = "no job has both submit_s and start_s"
    return delays.drop("least_s").with_columns(note=pl.when(pl.col("n") == 0).then(pl.lit(why)))
