"""Utilization of a trace: what instances, machines and jobs used of what was requested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import MOST_GROUPS
from traceana.cohorts.observation import window_of
from traceana.cohorts.overlap import ENDED_STATUSES, HELD, open_overlap
from traceana.cohorts.task_times import KEYS, hash_keys
from traceana.cohorts.tasks import JobSample, instance_times, sample_jobs, sampled_rows, task_owners
from traceana.questions.runtimes.distributions import empirical_distribution
from traceana.questions.utilization.tables import (
    MachineUtilization,
    RequestedUsed,
)
from traceana.questions.utilization.used import (
    RESOURCES,
    allocation_rate,
    gpu_sharing,
    idle_gpu_hours,
    summarize_allocation,
    utilization,
)
from traceana.questions.workload.demand import gpu_demand
from traceana.stats.quantiles import woodruff_interval
from traceana.store import Trace
from traceana.store.frames import collect, reduce_frame
from traceana.tables.declare import declared, schema_of

BIN_S: Final = 6 * 3600
_NETWORK: Final = {"read_bytes": "input", "write_bytes": "output"}
_MACHINE_CPU: Final = {"cpu_usr": "user", "cpu_kernel": "kernel", "cpu_iowait": "I/O wait"}
_ROLE: Final = "task_name"


@dataclass(frozen=True)
class UtilizationTables:
    """Results on the utilization of a trace; None where columns are missing."""

    n_rows: int
    n_instances: int
    """Rows of instance_usage, and instances among them: repeated rows count once."""
    used: dict[str, pl.DataFrame]
    """Used versus requested resources, by column of the groups; the key "" is all instances."""
    idle: pl.DataFrame
    by_size: pl.DataFrame
    """Idle GPU-hours by GPU type or overall, and by size: a fraction of a GPU, one, or several."""
    shared: pl.DataFrame | None
    curves: dict[str, pl.DataFrame]
    """Distribution functions of requested and used, by resource."""
    unused: pl.DataFrame | None
    network: pl.DataFrame | None
    machine_cpu: pl.DataFrame | None
    """Distribution functions of requests above the use, as fractions of the machine, of network
    input and output, and of CPU time of machines by kind."""
    allocation: pl.DataFrame | None
    allocation_summary: pl.DataFrame | None
    """Allocation rate over time, overall and by GPU type."""
    machines: pl.DataFrame | None


def analyze_utilization(trace: Trace, /) -> UtilizationTables:
    """Compute the utilization of a trace from instance_usage, tasks, instances and machines."""
    manifest = trace.manifest
    rows = _instances(trace)
    n_rows = manifest.tables["instance_usage"].rows
    typed = ("gpu_type",) if rows["gpu_type"].count() else ()
    shared = None
    if rows["gpu_device"].count() and rows["machine_id"].count():
        shared = gpu_sharing(rows, by=typed)
    unused = _unused(rows, trace)
    rows = rows.drop("machine_id", "gpu_device", "start_s", "end_s")  # the others need less memory
    by = [name for name in ("gpu_type", "user", _ROLE) if rows[name].count()]
    unit = "user" if rows["user"].count() else "job"
    used = {"": utilization(rows, cluster=unit)}
    for name in by:
        within = "job" if name == "user" else unit
        used[name] = utilization(_largest(rows, name), by=name, cluster=within)
    gpus, names = pl.col("gpus"), ("fraction of one", "one", "several")
    size = pl.when(gpus < 1).then(0).when(gpus == 1).then(1).otherwise(2)
    size = size.replace_strict(dict(enumerate(names)), return_dtype=pl.Enum(names))
    sized = rows.filter(pl.col("gpus") > 0).with_columns(gpus_requested=size)
    idle = idle_gpu_hours(rows, by=typed, cluster=unit)
    if typed:
        whole = idle_gpu_hours(rows, cluster=unit).select(pl.lit("all").alias("gpu_type"), pl.all())
        idle = pl.concat([idle.with_columns(pl.col("gpu_type").cast(pl.String)), whole])
    by_size = idle_gpu_hours(sized, by="gpus_requested", cluster=unit)
    curves = {
        request: _curves(rows.drop_nulls([request, use]), {request: "requested", use: "used"})
        for use, request in RESOURCES.items()
        if request and rows[request].count() and rows[use].count()
    }
    del rows, sized
    allocation, summary = _allocation(trace)
    return UtilizationTables(
        n_rows=n_rows,
        n_instances=int(used[""]["n"][0] + used[""]["n_missing"][0]),
        used=used,
        idle=idle,
        shared=shared,
        by_size=by_size,
        curves=curves,
        unused=unused,
        network=_network(trace),
        machine_cpu=_machine_cpu(trace),
        allocation=allocation,
        allocation_summary=summary,
        machines=_machines(trace),
    )


def _instances(trace: Trace) -> pl.DataFrame:
    """Return one row per instance, the last one, with the request of its task and its times."""
    key = hash_keys(KEYS, 1).alias(".task")
    named = pl.col("worker_id").is_not_null()
    worker = pl.when(named).then(pl.col("worker_id").hash(2)).alias(".worker")
    columns = (*KEYS, "worker_id", *RESOURCES, "machine_id", "gpu_device")
    measures = pl.col(list(RESOURCES)).cast(pl.Float64)
    place = pl.col("machine_id", "gpu_device").cast(pl.Categorical())
    usage = sampled_rows(trace, "instance_usage", *columns)
    usage = usage.select(worker, key, measures, place, job=pl.col("job_id").hash(3))
    used = usage.collect(engine="streaming")
    used = used.filter(pl.col(".worker").is_null() | pl.col(".worker").is_last_distinct())
    places = used.lazy().select(".worker").with_row_index(".place")
    used = used.drop(".worker")
    times = (
        sampled_rows(trace, "instances", "job_id", "worker_id", "start_s", "end_s", "status")
        .filter(named)
        .select(worker, "start_s", "end_s", ok=pl.col("status").cast(pl.String) == "completed")
        .join(places, on=".worker")
        .drop(".worker")
        .collect(engine="streaming")
    )
    again = times[".place"].is_duplicated()
    last = times.filter(again).sort("ok", "start_s", "end_s").unique(".place", keep="last")
    times = pl.concat([times.filter(~again), last]).drop("ok")
    of_usage = pl.repeat(None, used.height, dtype=pl.UInt32, eager=True)
    of_usage.scatter(times[".place"], pl.int_range(times.height, dtype=pl.UInt32, eager=True))
    used = used.hstack(times.select(pl.col("start_s", "end_s").gather(of_usage)))
    del again, last, places, times
    n_instances = trace.once(instance_times).tasks
    owners = trace.once(task_owners, "user")
    tasks = n_instances.select(key, "gpus", "cpus", "memory_gib", "gpu_type", _ROLE).hstack(
        owners.select("user") if "user" in owners.columns else []
    )
    names = [name for name in ("gpu_type", _ROLE, "user") if name in tasks.columns]
    tasks = tasks.with_columns(pl.col(names).cast(pl.Categorical()))
    if "user" not in names:
        tasks = tasks.with_columns(user=pl.lit(None, pl.Categorical()))
    # a join of the keys alone, then gathered: a join of all columns needs twice the memory
    places = tasks.lazy().select(".task").with_row_index(".place")
    table = used.lazy().select(".task").join(places, on=".task", how="left", maintain_order="left")
    at = table.select(".place").collect(engine="streaming").to_series()
    used = used.hstack(tasks.drop(".task").select(pl.all().gather(at))).drop(".task")
    return used.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))


def _largest(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the rows of the groups with the most GPU-hours, if there are many groups."""
    if rows[name].n_unique() <= MOST_GROUPS + 1:
        return rows
    hours = (pl.col("gpus") * pl.col("runtime_s")).sum()
    most = reduce_frame(rows, (name,), hours=hours).drop_nulls(name)
    kept = most.top_k(MOST_GROUPS, by="hours").select(name)
    return rows.join(kept, on=name, how="semi", maintain_order="left")


def _unused(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame | None:
    """Return requested minus used over the machine's capacity, of instances that use less."""
    requests = {a: b for a, b in RESOURCES.items() if b and trace.has("machines", (b,))}
    if not requests:
        return None
    capacity = trace.scan("machines").select(
        pl.col("machine_id").cast(pl.Categorical()),
        *(pl.col(name).alias(f"of_{name}") for name in requests.values()),
    )
    both = rows.lazy().join(capacity, on="machine_id").collect()
    curves = []
    for use, request in requests.items():
        unused = (pl.col(request) - pl.col(use)) / pl.col(f"of_{request}")
        values = both.select(unused.alias(request)).filter(pl.all().is_finite(), pl.all() > 0)
        curve = empirical_distribution(values, request)
        curves.append(curve.select(pl.lit(request).alias("resource"), pl.all()))
    table = pl.concat(curves)
    return table if table.height else None


def _network(trace: Trace) -> pl.DataFrame | None:
    kinds = {name: kind for name, kind in _NETWORK.items() if trace.has("instance_usage", (name,))}
    if not kinds:
        return None
    rows = sampled_rows(trace, "instance_usage", "worker_id", *kinds).collect(engine="streaming")
    worker = pl.col("worker_id").hash()
    rows = rows.filter(pl.col("worker_id").is_null() | worker.is_last_distinct())
    return _curves(rows, kinds)


def _machine_cpu(trace: Trace) -> pl.DataFrame | None:
    kinds = {
        name: kind for name, kind in _MACHINE_CPU.items() if trace.has("machine_usage", (name,))
    }
    return _curves(trace.frame("machine_usage"), kinds) if kinds else None


def _curves(rows: IntoFrame, kinds: dict[str, str]) -> pl.DataFrame:
    """Return the distribution functions of columns, by what each of them is."""
    return pl.concat(
        empirical_distribution(rows, name).select(pl.lit(kind).alias("kind"), pl.all())
        for name, kind in kinds.items()
    )


def _allocation(trace: Trace) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Return the allocation rate by bin, and its summary."""
    if not trace.has("machines", ("gpus",)):
        return None, None
    sample = trace.once(sample_jobs)
    key = hash_keys(KEYS, 1).alias(".task")
    requested = trace.once(instance_times).tasks.lazy().filter(pl.col("gpus") > 0)
    requested = requested.select(key, pl.col("gpu_type").cast(pl.String), "gpus")
    machines = trace.scan("machines").collect()
    held = (
        sampled_rows(trace, "instances", *KEYS, "start_s", "end_s")
        .filter(pl.col("end_s") > pl.col("start_s"))
        .select(key, "start_s", "end_s")
        .join(requested, on=".task", maintain_order="left")
        .with_columns(pl.col("gpus") / (sample.fraction if sample else 1))
        .drop(".task")
        .collect(engine="streaming")
    )
    whole = pl.lit("all").alias("gpu_type")
    rates = []
    for some, capacity in (
        (held.with_columns(whole), machines.with_columns(whole)),
        (held.drop_nulls("gpu_type"), machines),
    ):
        if some.height and capacity["gpu_type"].count():
            demand = gpu_demand(some, bin_s=BIN_S, by="gpu_type")
            rates.append(allocation_rate(demand, capacity, by="gpu_type"))
    if not rates or not (every := pl.concat(rates)).height:
        return None, None
    return every, summarize_allocation(every, by="gpu_type")


def _machines(trace: Trace) -> pl.DataFrame | None:
    """Return the use of machines by GPU type, weighted by the time that each row covers."""
    if not trace.manifest.has("machine_usage", ("start_s", "end_s", "machine_id")):
        return None
    rows = trace.rows("machine_usage")
    if trace.has("machines"):
        kinds = trace.rows("machines")
        kind = nw.col("gpu_type").cast(nw.String)
        rows = rows.join(kinds.select("machine_id", kind, "gpus"), on="machine_id", how="left")
    else:
        none = {"gpu_type": nw.lit(None, nw.String), "gpus": nw.lit(None, nw.Float64)}
        rows = rows.with_columns(**none)
    gpus, gpu, seconds = nw.col("gpus"), nw.col("gpu"), nw.col("end_s") - nw.col("start_s")
    measures = {
        "cpu": nw.col("cpu"),
        "iowait": nw.col("cpu_iowait"),
        "gpu": nw.when(gpus > 0).then(gpu),
        "gpu_each": nw.when(gpus > 0).then(gpu / gpus),
        "workers": nw.col("num_worker"),
    }
    n = seconds.count()
    sums = {"machines": nw.col("machine_id").n_unique(), "n": n, "n_missing": nw.len() - n}
    for name, value in measures.items():
        weighed = nw.when(~value.is_null() & (seconds > 0))
        sums[name] = weighed.then(value * seconds).sum()
        sums[f"{name}_s"] = weighed.then(seconds).sum()
    table = reduce_frame(rows, ("gpu_type",), **sums).with_columns(
        pl.when(pl.col(f"{name}_s") > 0).then(pl.col(name) / pl.col(f"{name}_s"))
        for name in measures
    )
    return declared(table, MachineUtilization, by=("gpu_type",))


_RUNTIME: Final = pl.col("runtime_s") / 3600
_GPU_HOURS: Final = pl.col("gpus") * _RUNTIME
_USED, _REQUESTED = pl.col("memory_gib_used") * _RUNTIME, pl.col("memory_gib") * _RUNTIME
_RESOURCES: Final = {
    "CPU time": ("core-hours", pl.col("cpu_time_s") / 3600, pl.col("cpus") * _RUNTIME),
    "Memory": ("GiB-hours", _USED, _REQUESTED),
    "GPUs": ("GPU-hours", pl.col("gpu_utilization") * _GPU_HOURS, _GPU_HOURS),
    "Time limit": ("hours", _RUNTIME, pl.col("time_limit_s") / 3600),
}
"""By resource, the unit of its hours, those used and those requested."""
REQUESTED_NEEDS: Final = tuple(
    {"jobs": tuple(sorted({*used.meta.root_names(), *requested.meta.root_names(), "status"}))}
    for _, used, requested in _RESOURCES.values()
)
"""What a trace needs for one of the resources."""
_LEAST_REQUEST: Final = 1e-9
"""Hours; no ratio to a smaller request is a number that means anything."""


def requested_used(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compare use with requests of ended jobs, with the distribution of use over request.

    Intervals are those of a sample of jobs: all jobs have none.
    """
    hours = _hours(trace)
    ratios = hours.select("resource", value="ratio").drop_nulls()
    return _compare(hours, trace.once(sample_jobs)), empirical_distribution(
        ratios, "value", by="resource"
    )


def _hours(trace: Trace) -> pl.DataFrame:
    """Return [resource, used, requested, ratio, unit] of each job that ended, or of a sample."""
    manifest = trace.manifest
    needs = {
        name: of["jobs"]
        for name, of in zip(_RESOURCES, REQUESTED_NEEDS, strict=True)
        if manifest.has("jobs", of["jobs"])
    }
    unit = manifest.unit if manifest.unit and manifest.has("jobs", (manifest.unit,)) else None
    times = [name for name in ("submit_s", "start_s", "end_s") if manifest.has("jobs", (name,))]
    needed = {"status", "runtime_s", *times, *filter(None, [unit])}.union(*needs.values())
    ended = sampled_rows(trace, "jobs", *sorted(needed)).filter(
        pl.col("status").cast(pl.String).is_in(ENDED_STATUSES), pl.col("runtime_s") > 0
    )
    rows = ended.collect(engine="streaming")
    opened = open_overlap(rows, (), {"runtime": "runtime_s"}, window=trace.once(window_of))
    # hours in the window; ratios are of the job
    part = (collect(opened)[HELD] / rows["runtime_s"]).fill_null(1.0)
    number = pl.col(unit).cast(pl.String).rank("dense").fill_null(0) if unit else pl.lit(None)
    parts = []
    for name in needs:
        _, used, requested = _RESOURCES[name]
        measured = pl.when(used.is_not_null() & (requested > _LEAST_REQUEST))
        columns = {"used": used * part, "requested": requested * part, "ratio": used / requested}
        measured_columns = {column: measured.then(value) for column, value in columns.items()}
        parts.append(rows.select(unit=number, resource=pl.lit(name), **measured_columns))
    return pl.concat(parts)


def _compare(hours: pl.DataFrame, sample: JobSample | None) -> pl.DataFrame:
    """Compare use with requests; totals are those of all jobs, also where a sample is drawn."""
    drawn = sample.fraction if sample else 1.0
    rows: list[dict[str, object]] = []
    for (name,), of_resource in hours.group_by("resource", maintain_order=True):
        table = of_resource.drop_nulls("ratio")
        units = table["unit"] if table["unit"].count() else None
        low, high = woodruff_interval(table["ratio"] if sample else (), units)
        total = float(table["requested"].sum())
        unused = float((table["requested"] - table["used"]).clip(0).sum())
        p25, median, p75 = (table["ratio"].quantile(q, "linear") for q in (0.25, 0.5, 0.75))
        rows.append(
            {
                "resource": f"{name} ({_RESOURCES[str(name)][0]})",
                "n": table.height,
                "n_missing": of_resource.height - table.height,
                "p25": p25,
                "median": median,
                "p75": p75,
                "ci_low": low,
                "ci_high": high,
                "requested_hours": total / drawn,
                "unused_hours": unused / drawn,
                "fraction_unused": unused / total if total else None,
            }
        )
    return declared(pl.DataFrame(rows, schema_of(RequestedUsed)).fill_nan(None), RequestedUsed)
