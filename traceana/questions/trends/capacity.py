"""GPU-hours of the cluster that were allocated, down and idle, by period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.overlap import BEGIN, HELD, UNTIL
from traceana.errors import DataError
from traceana.questions.trends.by_period import open_jobs, span, used_by
from traceana.questions.trends.periods import Periods, divide_window
from traceana.questions.trends.tables import ClusterUtilization
from traceana.stats.arguments import is_number
from traceana.store.frames import admit_columns, collect, column_names, open_frame
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.cohorts.overlap import Window

_USED: Final = {"used": "gpus"}


@returns(ClusterUtilization)
def cluster_utilization(
    jobs: IntoFrame,
    /,
    *,
    gpus: float | None = None,
    machines: IntoFrame | None = None,
    faults: IntoFrame | None = None,
    period: str | None = None,
    timezone: str | None = None,
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute allocated, down and idle GPUs by period.

    The table is that of ``sreport cluster utilization``.

    Allocated are the requested GPUs of running jobs, by overlap with the period, as for
    :func:`trends`. Down are the GPUs of machines with a fault that has an end, from its start to
    its end; overlapping faults of a machine count once. Idle is the rest.

    Parameters
    ----------
    jobs
        One row per job, as for :func:`trends`, with gpus.
    gpus
        GPUs of the cluster; None: those of `machines`.
    machines
        One row per machine: machine_id, gpus and, for rows by type, gpu_type; a machine without a
        type counts in all.
    faults
        One row per fault: machine_id, start_s, end_s; needs `machines`.
    period, timezone, window
        As for :func:`trends`.

    Returns
    -------
    DataFrame
        The whole window, then one row per period; of all GPUs, then of each type:
        {columns}

    Raises
    ------
    DataError
        If neither `gpus` nor `machines` are given.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [43200, 86400], "gpus": [4, 2]})
    >>> traceana.cluster_utilization(jobs, gpus=8).select("period", "allocated").rows()[0]
    ('all', 0.375)
    """
    listed = None if machines is None else _machines(machines)
    total = gpus if gpus is not None or listed is None else float(listed["gpus"].sum())
    if not (is_number(total) and total):
        raise DataError("the GPUs of the cluster are unknown: pass gpus above 0, or machines")
    frame = open_jobs(jobs, window)
    window = window or span(frame)
    periods = divide_window(window, period=period, timezone=timezone)
    down = None if faults is None or listed is None else _down(faults, listed, window)
    # several reductions: read once
    rows = nw.from_native(collect(frame.select(BEGIN, UNTIL, HELD, "gpus", "gpu_type")).lazy())
    parts = {"all": (rows, down, float(total or 0))} | _types(rows, down, listed)
    found = pl.concat(_shares(*of, periods, name) for name, of in parts.items())
    return declared(found, ClusterUtilization)


_Part: TypeAlias = "tuple[nw.LazyFrame[Any], pl.DataFrame | None, float]"


def _types(
    frame: nw.LazyFrame[Any], down: pl.DataFrame | None, machines: pl.DataFrame | None
) -> dict[str, _Part]:
    """Return the jobs, downtime and GPUs of each type, if there are several."""
    if machines is None:
        return {}
    types = machines.drop_nulls("gpu_type").group_by("gpu_type").agg(pl.col("gpus").sum())
    types = types.filter(pl.col("gpus") > 0).sort("gpus", "gpu_type", descending=[True, False])
    if types.height < 2:
        return {}
    return {
        name: (
            frame.filter(nw.col("gpu_type").cast(nw.String) == name),
            None if down is None else down.filter(pl.col("gpu_type") == name),
            float(gpus),
        )
        for name, gpus in types.iter_rows()
    }


def _shares(
    frame: nw.LazyFrame[Any],
    down: pl.DataFrame | None,
    gpus: float,
    periods: Periods,
    gpu_type: str,
) -> pl.DataFrame:
    used = used_by(frame, periods, (), _USED)
    starts, ends = periods.edges_s[:-1], periods.edges_s[1:]
    lost: pl.Series | None = None
    if down is not None:
        lost = used_by(nw.from_native(down.lazy()), periods, (), _USED)["used"].fill_null(0)
    by_period = pl.DataFrame(
        {"period": periods.labels, "start_s": starts, "end_s": ends, "used": used["used"],
         "lost": pl.Series([None] * len(starts), dtype=pl.Float64) if lost is None else lost}
    )  # fmt: skip
    whole = by_period.select(
        pl.lit("all").alias("period"), pl.col("start_s").min(), pl.col("end_s").max(),
        pl.col("used").sum(), pl.lit(None, pl.Float64) if lost is None else pl.col("lost").sum(),
    )  # fmt: skip
    hours = gpus * (pl.col("end_s") - pl.col("start_s")) / 3600
    found = pl.concat([whole.rename({"literal": "lost"}, strict=False), by_period])
    return found.with_columns(
        gpu_type=pl.lit(gpu_type), gpus=pl.lit(gpus), gpu_hours=hours,
        allocated=pl.when(hours > 0).then(pl.col("used").fill_null(0) / hours),
        down=pl.when(hours > 0).then(pl.col("lost") / hours),
    ).with_columns(
        idle=(1 - pl.col("allocated") - pl.col("down").fill_null(0)).clip(0)
    ).select(*ClusterUtilization.columns())  # fmt: skip


def _machines(machines: IntoFrame) -> pl.DataFrame:
    keys = ("machine_id", *(name for name in ("gpu_type",) if name in column_names(machines)))
    rows = collect(open_frame(machines, keys=keys, measures=("gpus",)))
    none = {} if "gpu_type" in rows.columns else {"gpu_type": pl.lit(None, pl.String)}
    rows = rows.with_columns(**none).cast({"machine_id": pl.String, "gpu_type": pl.String})
    return rows.drop_nulls("gpus")


def _down(faults: IntoFrame, machines: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the times in which machines were down, each once, with their GPUs."""
    rows = collect(admit_columns(faults, ("machine_id", "start_s", "end_s"))).drop_nulls()
    rows = rows.with_columns(
        pl.col("machine_id").cast(pl.String),
        pl.col("start_s", "end_s").cast(pl.Float64).clip(*window),
    ).filter(pl.col("end_s") > pl.col("start_s")).sort("machine_id", "start_s")  # fmt: skip
    latest = pl.col("end_s").cum_max().shift(1).over("machine_id")
    begins = (pl.col("start_s") > latest).fill_null(value=True)
    merged = rows.with_columns(part=begins.cum_sum().over("machine_id")).group_by(
        "machine_id", "part"
    ).agg(pl.col("start_s").min(), pl.col("end_s").max())  # fmt: skip
    found = merged.join(machines, on="machine_id").sort("machine_id", "part")
    begin, end = pl.col("start_s"), pl.col("end_s")
    return found.select("gpus", "gpu_type", begin.alias(BEGIN), end.alias(UNTIL),
                        (end - begin).alias(HELD))  # fmt: skip
