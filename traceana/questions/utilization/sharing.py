"""GPUs that several instances use at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.utilization.tables import GpuSharing
from traceana.store.frames import (
    Names,
    as_names,
    collect,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


@returns(GpuSharing)
def gpu_sharing(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    device: Names = ("machine_id", "gpu_device"),
    start: str = "start_s",
    end: str = "end_s",
) -> pl.DataFrame:
    """Compute how long GPUs were used by several instances at once.

    Parameters
    ----------
    frame
        One row per instance: `by` and the columns below; eager or lazy, of any supported engine.
        Rows without a device, a start or an end are excluded and counted.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    device
        Columns that together name one GPU.
    start, end
        Columns of the start and the end: seconds or datetimes.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by` (nulls last), with the columns of `by` and
        {columns}

        An instance that starts as another ends does not share with it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> rows = pl.DataFrame({"gpu": ["a", "a"], "start_s": [0, 1800], "end_s": [3600, 5400]})
    >>> traceana.gpu_sharing(rows, device="gpu").select("busy_hours", "shared_hours").row(0)
    (1.5, 0.5)
    """
    keys, place = as_names(by), as_names(device)
    refuse_clash(keys, GpuSharing.columns())
    if not place:
        raise DataError("device names no column; pass the columns that identify a GPU")
    several = tuple(dict.fromkeys((*keys, *place)))
    rows = open_frame(frame, keys=several, measures={"start": start, "end": end})
    every = collect(rows.select(*several, nw.col(start).alias(".start"), nw.col(end).alias(".end")))
    known = every.drop_nulls([*place, ".start", ".end"])
    if (known[".end"] < known[".start"]).any():
        raise DataError(f"an instance ends before it starts: {end} is below {start}")
    numbered = known.select(several).unique().sort(several).with_row_index(".gpu")
    known = known.join(numbered, on=list(several), nulls_equal=True)
    known = known.select(*keys, ".gpu", ".start", ".end")
    steps = pl.concat(
        known.select(
            *keys, ".gpu", pl.col(time).alias(".time"), pl.lit(step, pl.Int8).alias(".step")
        )
        for time, step in ((".end", -1), (".start", 1))
    )
    # by one column at a time: several are encoded as bytes first, which takes longer
    for column in (".time", ".gpu"):
        steps = steps.sort(column, maintain_order=True)
    # each GPU begins and ends with none, so that one cumulative sum counts the instances of all
    steps = steps.with_columns(
        pl.col(".step").cast(pl.Int32).cum_sum().alias(".there"),
        ((pl.col(".time").shift(-1) - pl.col(".time")) / 3600).alias(".hours"),
    )
    there, hours = pl.col(".there"), pl.col(".hours")
    statistics = {
        "devices": pl.col(".gpu").n_unique().cast(pl.Int64),
        "devices_shared": pl.col(".gpu").filter(there > 1).n_unique().cast(pl.Int64),
        "n": (pl.col(".step") == 1).sum().cast(pl.Int64),
        "busy_hours": hours.filter(there > 0).sum(),
        "shared_hours": hours.filter(there > 1).sum(),
        "instances_max": there.max().cast(pl.Int64),
    }
    if not keys:
        found = reduce_frame(steps, (), **statistics).with_columns(rows=pl.lit(every.height))
    else:
        sizes = every.group_by(keys).agg(rows=pl.len())
        shared = reduce_frame(steps, keys, **statistics)
        found = sizes.join(shared, on=keys, how="left", nulls_equal=True)
        found = found.sort(keys, nulls_last=True)
    zero = ("devices", "devices_shared", "n", "busy_hours", "shared_hours")
    found = found.with_columns(pl.col(zero).fill_null(0)).with_columns(
        n_missing=(pl.col("rows") - pl.col("n")).cast(pl.Int64),
        share_of_time=pl.when(pl.col("busy_hours") > 0).then(
            pl.col("shared_hours") / pl.col("busy_hours")
        ),
    )
    return declared(found, GpuSharing, by=keys)
