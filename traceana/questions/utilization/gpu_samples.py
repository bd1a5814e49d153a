"""Samples of GPUs joined with jobs by machine and time: idle hours, utilization, power."""

from __future__ import annotations

from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.observation import node_column
from traceana.errors import DataError
from traceana.questions.utilization.tables import SampledUsage
from traceana.stats.arguments import is_number
from traceana.store import Trace
from traceana.store.frames import (
    Names,
    as_keys,
    as_names,
    collect,
    column_names,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

_KEYS: Final = ("machine_id", "gpu", "time_s")
_MEASURES: Final = ("utilization", "memory_gib", "power_w")
IDLE_BELOW: Final = 0.01
"""Utilization below which a GPU is idle."""
_LONGEST_GAP: Final = 3
"""Median intervals after which the time until the next sample of a GPU is a gap."""


def assign_gpu_samples(
    samples: IntoFrame, jobs: IntoFrame, /, by: Names = (), *, machine: str = "machine_id"
) -> pl.DataFrame:
    """Assign GPU samples to jobs by machine and time.

    A sample with a job_id of its own keeps it. Another is assigned if one job alone ran on its
    machine, from its start until before its end, on all its sampled GPUs; otherwise, a sample does
    not show which job used the GPU, if any.

    Parameters
    ----------
    samples
        One row per machine_id, gpu and time_s, or several with one measure each: utilization (a
        fraction), memory_gib, power_w and job_id where they are known. Rows without one of the
        first three are excluded.
    jobs
        One row per job, or per job and machine: job_id, start_s, end_s, `machine` and `by`; a null
        end is a running job. A list of machines is separated by commas. gpus are divided among
        them; without it, a job has all GPUs of its machines.
    by
        Columns of jobs to add, such as user.
    machine
        Column of the machines of a job, such as NodeList of Slurm.

    Returns
    -------
    DataFrame
        Sorted by machine_id, gpu and time_s, one row each: these, the measures, job_id, the columns
        of `by`, jobs_at_once (jobs on the machine; null where the sample has a job_id), and
        interval_s. The interval is the time until the next sample of the GPU; the median interval
        if there is none within three times that.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"machine_id": "n1", "gpu": "0", "time_s": [0.0, 30.0, 60.0],
    ...                         "utilization": [0.0, 0.9, 0.8]})
    >>> jobs = pl.DataFrame({"job_id": ["a"], "user": ["eva"], "start_s": [20.0], "end_s": [60.0],
    ...                      "NodeList": ["n1,n2"]})
    >>> found = traceana.assign_gpu_samples(samples, jobs, by="user", machine="NodeList")
    >>> found.select("time_s", "job_id", "user", "interval_s").rows()
    [(0.0, None, None, 30.0), (30.0, 'a', 'eva', 30.0), (60.0, None, None, 30.0)]
    """
    added = tuple(name for name in as_names(by) if name != "job_id")
    refuse_clash(added, (*_KEYS, *_MEASURES, "jobs_at_once", "interval_s"))
    rows = _read_samples(samples)
    keys = ("job_id", *added, *([] if machine in added else [machine]))
    gpus = tuple({"gpus"} & {*column_names(jobs)} - {*keys})
    names = open_frame(
        jobs, keys=keys, measures=("start_s", "end_s", *gpus), roles={"machine": machine}
    )
    table = collect(names).with_columns(pl.col("job_id", machine).cast(pl.String))
    if not gpus:
        table = table.with_columns(gpus=pl.lit(None, pl.Float64))
    sampled = rows.group_by("machine_id").agg(sampled=pl.col("gpu").n_unique())
    running = _running(table.drop_nulls(["job_id", machine, "start_s"]), machine, sampled)
    assigned = rows.join_asof(
        running, on="time_s", by="machine_id", strategy="backward", check_sortedness=False
    ).with_columns(
        pl.coalesce("job_id", "running").alias("job_id"),
        jobs_at_once=pl.when(pl.col("job_id").is_null()).then(pl.col("jobs_at_once").fill_null(0)),
    )
    if added:
        owners = table.select("job_id", *added).unique("job_id", keep="first", maintain_order=True)
        assigned = assigned.join(owners, on="job_id", how="left", maintain_order="left")
    measures = [name for name in _MEASURES if name in assigned.columns]
    named = ("job_id", *added, "jobs_at_once", "interval_s")
    return assigned.sort(_KEYS).select(*_KEYS, *measures, *named)


@returns(SampledUsage)
def sampled_gpu_usage(
    samples: IntoFrame,
    /,
    by: Names = "user",
    *,
    jobs: IntoFrame | None = None,
    idle_below: float = IDLE_BELOW,
    machine: str = "machine_id",
) -> pl.DataFrame:
    """Compute utilization, idle GPU-hours and power from samples of GPUs.

    Parameters
    ----------
    samples, jobs, machine
        As :func:`assign_gpu_samples` takes them. Without jobs, `by` names columns of the samples.
    by
        Columns to group by: user for the idle GPU-hours of users, job_id for the utilization and
        power of jobs. Null is the time without a job, or with several at once on the machine.
    idle_below
        Utilization below which a GPU is idle.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by`, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"machine_id": "n1", "gpu": "0", "time_s": [0.0, 1800.0],
    ...                         "utilization": [0.0, 0.5], "job_id": "a"})
    >>> found = traceana.sampled_gpu_usage(samples, by="job_id")
    >>> found.select("job_id", "gpu_hours", "idle_gpu_hours", "utilization_mean").rows()
    [('a', 1.0, 0.5, 0.25)]
    """
    if not is_number(idle_below) or not 0 <= idle_below <= 1:
        raise DataError(f"idle_below must be from 0 to 1; it is {idle_below!r}")
    keys = as_keys(by, SampledUsage.columns())
    if jobs is None:
        rows = _read_samples(samples, keys).with_columns(jobs_at_once=pl.lit(None, pl.Int64))
    else:
        rows = assign_gpu_samples(samples, jobs, by=keys, machine=machine)
    none = pl.lit(None, pl.Float64)
    rows = rows.with_columns(none.alias(name) for name in {*_MEASURES} - {*rows.columns})
    hours = pl.col("interval_s") / 3600
    used, power = pl.col("utilization"), pl.col("power_w")
    measured = hours.filter(used.is_not_null()).sum()
    idle = hours.filter(used < idle_below).sum()
    powered = hours.filter(power.is_not_null()).sum()
    table = reduce_frame(
        rows,
        keys,
        gpus=pl.struct("machine_id", "gpu").n_unique(),
        n=used.count(),
        n_missing=used.null_count(),
        n_ambiguous=((pl.col("jobs_at_once") > 0) & pl.col("job_id").is_null()).sum(),
        gpu_hours=hours.sum(),
        idle_gpu_hours=idle,
        fraction_idle=pl.when(measured > 0).then(idle / measured),
        utilization_mean=pl.when(measured > 0).then((used * hours).sum() / measured),
        memory_gib_max=pl.col("memory_gib").max(),
        power_w_mean=pl.when(powered > 0).then((power * hours).sum() / powered),
        energy_kwh=pl.when(powered > 0).then((power * hours).sum() / 1000),
    )
    return declared(table, SampledUsage, by=keys)


def _read_samples(samples: IntoFrame, more: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return one row per GPU and time, sorted by time, with the seconds that each represents."""
    names = column_names(samples)
    measures = [name for name in _MEASURES if name in names]
    labels = dict.fromkeys((*more, *(["job_id"] if "job_id" in names else [])))
    labels = dict.fromkeys(name for name in labels if name not in _KEYS)
    opened = open_frame(samples, keys=(*_KEYS[:2], *labels), measures=("time_s", *measures))
    given = [~nw.col(name).is_null() for name in _KEYS]
    merged: dict[str, Any] = {name: nw.col(name).mean() for name in measures}
    merged |= {name: nw.col(name).max() for name in labels}  # a label is in one of the rows
    rows = reduce_frame(opened.filter(*given), _KEYS, **merged)
    if "job_id" not in rows.columns:
        rows = rows.with_columns(job_id=pl.lit(None, pl.String))
    rows = rows.with_columns(pl.col("machine_id", "gpu", "job_id").cast(pl.String))
    gap = pl.col("time_s").shift(-1).over("machine_id", "gpu", order_by="time_s")
    rows = rows.with_columns(interval_s=gap - pl.col("time_s"))
    usual = pl.col("interval_s").median()
    short = pl.col("interval_s") <= _LONGEST_GAP * usual
    return rows.with_columns(
        interval_s=pl.when(short).then("interval_s").otherwise(usual).fill_null(0.0)
    ).sort("time_s", maintain_order=True)


def _running(jobs: pl.DataFrame, machine: str, sampled: pl.DataFrame) -> pl.DataFrame:
    """Return for each machine, from each start or end on, the jobs; one alone if on all GPUs."""
    place, count = pl.col("place"), pl.col("jobs_at_once")
    jobs = jobs.with_row_index("place").with_columns(place.cast(pl.Int64))
    machines = pl.col(machine).str.split(",")
    on = jobs.select("place", "start_s", "end_s", machine_id=machines)
    on = on.explode("machine_id").with_columns(pl.col("machine_id").str.strip_chars())
    on = on.unique(["place", "machine_id"], maintain_order=True)
    edges = pl.concat(
        on.drop_nulls(time).select(
            "machine_id", place * sign, time_s=time, jobs_at_once=pl.lit(sign)
        )
        for time, sign in (("start_s", 1), ("end_s", -1))
    ).cast({"jobs_at_once": pl.Int64})
    at = edges.group_by("machine_id", "time_s").agg(place.sum(), count.sum()).sort("time_s")
    # places are added up: the sum of one job alone is its place
    at = at.with_columns(pl.col("place", "jobs_at_once").cum_sum().over("machine_id"))
    at = at.with_columns(pl.when(count == 1).then("place").alias("place"))
    names = jobs.select("place", running="job_id", gpus=pl.col("gpus") / machines.list.len())
    at = at.join(names, on="place", how="left", maintain_order="left")
    at = at.join(sampled, on="machine_id", how="left", maintain_order="left")
    is_part = pl.col("gpus") < pl.col("sampled")
    at = at.with_columns(running=pl.when(is_part).then(None).otherwise("running"))
    return at.select("machine_id", "time_s", "jobs_at_once", "running")


_FEWEST: Final = 100
"""Samples of a GPU that is compared."""
_ALWAYS: Final = 1 - 1e-9


def unlike_gpus(samples: IntoFrame, /) -> pl.DataFrame:
    """Return GPUs idle all the time though those beside them work.

    [machine_id, gpu, n, idle_gpu_hours, others], others: the median fraction of time in use of the
    GPUs of the machine, a half or more.
    """
    by_gpu = sampled_gpu_usage(samples, by=("machine_id", "gpu"))
    others = 1 - pl.col("fraction_idle").median().over("machine_id")
    idle = by_gpu.with_columns(others=others).filter(
        pl.col("n") >= _FEWEST, pl.col("fraction_idle") > _ALWAYS, pl.col("others") >= 1 / 2
    )
    return idle.sort("machine_id", "gpu")


def _joined(trace: Trace) -> dict[str, Any]:
    """Return the jobs, and their column of machines, that samples are assigned to; or none."""
    if not trace.has("jobs", ("start_s",)):
        return {}
    machine = node_column(trace.scan("jobs").collect_schema().names())
    return {"jobs": trace.frame("jobs"), "machine": machine} if machine else {}


def idle_at_begin(trace: Trace, /) -> pl.DataFrame:
    """Return of each job that used its GPUs [job_id, begin_s, begin_h, idle_h, gpu_h].

    begin_s is from its first sample to the first use of any of its GPUs, begin_h the GPU-hours in
    it, idle_h those of all idle samples, and gpu_h those of all samples.
    """
    samples, options = trace.frame("gpu_samples"), _joined(trace)
    rows = _read_samples(samples)
    if options:
        rows = assign_gpu_samples(samples, options["jobs"], machine=options["machine"])
    hours, idle = pl.col("interval_s") / 3600, pl.col("utilization") < IDLE_BELOW
    first = pl.col("time_s").filter(~idle).min()
    rows = rows.drop_nulls(["job_id", "utilization"])
    table = rows.group_by("job_id").agg(
        begin_s=first - pl.col("time_s").min(),
        begin_h=hours.filter(pl.col("time_s") < first).sum(),
        idle_h=hours.filter(idle).sum(),
        gpu_h=hours.sum(),
    )
    return table.drop_nulls("begin_s").sort("job_id")


SHOWN_GROUPS: Final = 10  # users and jobs with the most idle GPU-hours


def analyze_gpu_samples(trace: Trace, /) -> dict[str, pl.DataFrame]:
    """Return the usage of GPUs (key ""), and by user and job_id where these are known."""
    samples, options = trace.frame("gpu_samples"), _joined(trace)
    usage = {"": sampled_gpu_usage(samples, by=(), **options)}
    users = ("user",) if options and trace.has("jobs", ("user",)) else ()
    for by in (*users, "job_id"):
        of_owner = sampled_gpu_usage(samples, by=by, **options)
        if of_owner[by].count():
            of_owner = of_owner.sort("idle_gpu_hours", descending=True, maintain_order=True)
            usage[by] = of_owner.head(SHOWN_GROUPS)
    return usage
