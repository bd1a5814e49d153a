"""Resources of a trace's jobs by user, account, queue, size and end reason, and its facts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import MOST_NOT_ENDED, count_not_ended, count_users, form_cohort
from traceana.cohorts.ends import END_CLASS, with_end_class, without_numbers
from traceana.cohorts.observation import window_of
from traceana.cohorts.overlap import (
    COUNTED,
    HELD,
    Window,
    count_reckoned,
    note_reckoned,
    open_overlap,
)
from traceana.questions.failures.hazards import overall_failure
from traceana.questions.trends.capacity import NEEDS, cpus_allocated, gpus_allocated
from traceana.questions.workload.analyze import describe_workload
from traceana.questions.workload.demand import gpu_demand
from traceana.questions.workload.tables import ResourceUsage
from traceana.store import Trace
from traceana.store.frames import Names, as_keys, collect, column_names, reduce_frame
from traceana.tables.declare import declared, returns
from traceana.tables.formatting import (
    LAST_DATE_S,
    count,
    duration,
    hours_text,
    listed,
    plain,
    share,
    sparkline,
)

_NUMBERS: Final[tuple[str, ...]] = (
    "submit_s",
    "start_s",
    "gpus",
    "cpus",
    "nodes",
    "cpu_time_s",
    "memory_gib",
    "memory_gib_used",
    "gpu_utilization",
    "energy_j",
)
_WASTED: Final = ("failed", "cancelled")
_REASONS: Final = ("end_reason", "status")
_J_PER_KWH: Final = 3.6e6


@returns(ResourceUsage)
def resource_usage(
    jobs: IntoFrame, /, by: Names = (), *, window: Window | None = None
) -> pl.DataFrame:
    """Compute resources, wait, failure, waste and efficiency of each group.

    Hours are those within the window. CPU and memory efficiency are those of Slurm's seff: CPU time
    over CPUs times runtime, and memory used over memory requested, here summed over jobs (memory
    weighted by runtime). A job wastes its hours if it failed, reached a limit or was cancelled;
    some such jobs save checkpoints. All numbers are of the recorded jobs, without sampling error.

    Parameters
    ----------
    jobs
        One row per job: status, runtime_s and those of the columns submit_s, start_s, end_s, gpus,
        cpus, nodes, cpu_time_s, memory_gib, memory_gib_used, gpu_utilization and energy_j that are
        there; eager or lazy, of any supported engine. Null and NaN are missing.
    by
        Columns to group by, such as user, or job_id for each job; null is a group of its own. By
        default all rows are one group.
    window
        As in :func:`workload_summary`.

    Returns
    -------
    DataFrame
        The group with the most hours first, with the columns of `by` and
        {columns}

        A column is null where no job of the group records it.

    Raises
    ------
    DataError
        If a column is missing or a number is negative.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"user": ["ann", "eva"], "gpus": [4, 1], "runtime_s": [36000, 3600],
    ...      "gpu_utilization": [0.02, 0.9], "status": ["completed", "failed"]}
    ... )
    >>> found = traceana.resource_usage(jobs, by="user")
    >>> found.select("user", "gpu_hours", "idle_gpu_hours", "fraction_wasted").rows()
    [('ann', 40.0, 39.2, 0.0), ('eva', 1.0, 0.1, 1.0)]
    """
    keys = as_keys(by, ResourceUsage.columns())
    # a number by which jobs are grouped is also summed
    groups = {name: f"{name} of the group" for name in keys if name in _NUMBERS}
    columns = {group: nw.col(name) for name, group in groups.items()}
    rows = nw.from_native(jobs).with_columns(**columns).to_native() if groups else jobs
    of_groups = tuple(groups.get(name, name) for name in keys)
    usage = _usage(*_opened(rows, of_groups, window), of_groups)
    return usage.rename({group: name for name, group in groups.items()})


def _opened(
    jobs: IntoFrame, keys: tuple[str, ...], window: Window | None
) -> tuple[nw.LazyFrame[Any], list[str]]:
    """Return [*keys, what is summed or ranked of each job], and the numbers that the jobs have."""
    names = column_names(jobs)
    numbers = [name for name in _NUMBERS if name in names]
    roles = {"submit_s": "submit", "start_s": "start"}
    required = {roles.get(name, name): name for name in numbers} | {"runtime": "runtime_s"}
    needed = tuple(dict.fromkeys((*keys, "status", END_CLASS)))
    frame = open_overlap(with_end_class(jobs), needed, required, window=window)
    missing = {name: nw.lit(None, nw.Float64) for name in _NUMBERS if name not in numbers}
    frame = frame.with_columns(**missing) if missing else frame
    return frame.select(*keys, *COUNTED, **_sums(), **_waits(), **_flags()), numbers


def _sums() -> dict[str, nw.Expr]:
    """Return what is summed over jobs; a sum of nothing is null."""
    column = {name: nw.col(name) for name in _NUMBERS}
    held = nw.col(HELD) / 3600
    runtime = nw.col("runtime_s")
    sums = {f"{unit}_hours": column[f"{unit}s"] * held for unit in ("gpu", "cpu", "node")}
    wasted = nw.col("status").cast(nw.String).is_in([*_WASTED])
    sums |= {
        f"{unit} wasted": nw.when(wasted).then(sums[f"{unit}_hours"]) for unit in ("gpu", "cpu")
    }
    pairs = {
        "cpu": (column["cpu_time_s"], column["cpus"] * runtime),
        "memory": (column["memory_gib_used"] * runtime, column["memory_gib"] * runtime),
        "busy": (column["gpu_utilization"] * column["gpus"] * held, column["gpus"] * held),
    }
    for name, (used, requested_hours) in pairs.items():
        measured = ~used.is_null() & (requested_hours > 0)
        sums |= {
            f"{name} used": nw.when(measured).then(used),
            f"{name} asked": nw.when(measured).then(requested_hours),
        }
    return sums | {"job energy": column["energy_j"]}


def _waits() -> dict[str, nw.Expr]:
    start, submit, runtime = nw.col("start_s"), nw.col("submit_s"), nw.col("runtime_s")
    wait = nw.when(start >= submit).then(start - submit)
    return {
        "job wait": wait,
        "job expansion": nw.when(runtime > 0).then((wait + runtime) / runtime),
    }


def _flags() -> dict[str, nw.Expr]:
    """Return what is counted over jobs: 1, else 0."""
    status = nw.col("status").cast(nw.String)
    flags = {
        "ended": status.is_in(["completed", "failed"]),
        "failed": status == "failed",
        "own": nw.col(END_CLASS).is_in(["job", "machine"]),
    }
    return {f"n {name}": flag.cast(nw.Int64).fill_null(0) for name, flag in flags.items()}


def _usage(frame: nw.LazyFrame[Any], numbers: list[str], keys: tuple[str, ...]) -> pl.DataFrame:
    wait, expansion = nw.col("job wait"), nw.col("job expansion")
    table = reduce_frame(
        frame,
        keys,
        jobs=nw.len(),
        **{name: nw.col(name).sum() for name in (*_sums(), *_flags())},
        **{f"n {name}": nw.col(name).count() for name in _sums()},
        wait_s_median=wait.quantile(0.5, interpolation="linear"),
        wait_s_p90=wait.quantile(0.9, interpolation="linear"),
        expansion_median=expansion.quantile(0.5, interpolation="linear"),
        **count_reckoned(),
    )
    table = table.with_columns(
        pl.col(pl.Categorical).cast(pl.String),
        *(
            pl.when(pl.col(f"n {name}") > 0).then(pl.col(name).cast(pl.Float64).round_sig_figs(12))
            for name in _sums()
        ),
    )
    unit = "gpu" if "gpus" in numbers and (table["gpu_hours"].sum() or 0) > 0 else "cpu"
    hours, wasted = pl.col(f"{unit}_hours"), pl.col(f"{unit} wasted")
    parts = {"cpu_used": "cpu", "memory_used": "memory", "gpu_utilization": "busy"}
    used = {name: pl.col(f"{part} used") / pl.col(f"{part} asked") for name, part in parts.items()}
    ended = pl.when(pl.col("n ended") > 0).then("n ended")
    unused = pl.col("memory asked") - pl.col("memory used")
    done = table.with_columns(
        fraction_of_all=pl.when(hours.sum() > 0).then(hours / hours.sum()),
        failure_rate=pl.col("n failed") / ended,
        own_failure_rate=pl.col("n own") / ended,
        wasted_hours=pl.when(hours.is_not_null()).then(wasted.fill_null(0.0)),
        ended=pl.col("n ended"),
        own_failures=pl.col("n own"),
        fraction_wasted=pl.when(hours > 0).then(wasted.fill_null(0.0) / hours),
        measured_gpu_hours=pl.col("busy asked"),
        idle_gpu_hours=(pl.col("busy asked") - pl.col("busy used")).clip(0).round_sig_figs(12),
        unused_gib_hours=(unused / 3600).clip(0).round_sig_figs(12),
        energy_kwh=pl.col("job energy") / _J_PER_KWH,
        note=note_reckoned(),
        **used,
    )
    done = done.sort(hours.fill_null(0.0), "jobs", descending=True, maintain_order=True)
    return declared(done, ResourceUsage, by=keys)


CONSUMER_NEEDS: Final = ({"jobs": ("runtime_s", "status")},)
"""What a trace needs for resources by group."""
FEWEST_WAITS: Final = 20
"""Jobs of a group below which its wait is not named."""
_GROUPS: Final = (
    "user",
    "account",
    "queue",
    "cluster",
    "gpu_type",
    END_CLASS,
    "end_reason",
    "status",
    "gpus_requested",
)
_TRENDS: Final = ("user", "account", "queue", "cluster")
_BINS: Final = 16
_TEXTS_AS_CODES: Final = pl.selectors.string().cast(pl.Categorical)
"""Texts are grouped and compared faster by their codes."""
MOST_SHOWN: Final = 20
"""Groups of a table on the page, and jobs with the most idle hours."""
_SMALL: Final = 1000
"""Jobs of a log of which single jobs are stated."""
_USED: Final = {*_GROUPS, *_NUMBERS, "job_id", "end_s", "runtime_s"}


@dataclass(frozen=True)
class Consumers:
    """Resources of a trace's jobs."""

    whole: dict[str, Any]
    """Of all jobs."""
    without: dict[str, Any] | None
    """Of the jobs of all users but the one with the most; None without a second user."""
    groups: dict[str, pl.DataFrame]
    """By column with several values, or one of wasted jobs, and of the jobs with the most idle
    hours (`job_id`)."""
    trends: dict[str, pl.DataFrame]
    """By column: GPUs over time of each group, as a sparkline (`trend`)."""
    unit: str
    """"GPU", or "CPU" where no job has GPUs."""
    each: pl.DataFrame | None
    """Of each job, if the log is small."""
    arrays: dict[str, int]
    """[jobs, and where they are known: arrays, jobs_in_arrays, restarted, restarts, requeued]."""


def describe_consumers(trace: Trace, /) -> Consumers:
    """Compute resources, wait, failure, waste and efficiency by group."""
    window, stated = trace.once(window_of), {*trace.manifest.tables["jobs"].columns}
    jobs = trace.rows("jobs").select(*sorted(_USED & (stated | {"job_id", "status"})))
    jobs = jobs.with_columns(gpus_requested=nw.col("gpus")) if "gpus" in stated else jobs
    names = {*column_names(jobs.to_native()), END_CLASS}
    names -= {"status"} if "end_reason" in names else set()  # it has more values
    by = tuple(name for name in _GROUPS if name in names)
    groups, whole, without = _usages(jobs.to_native(), by, window)
    groups |= _most_idle(trace, jobs, window, whole["gpu_hours"])
    cohort = form_cohort(trace)
    if count_not_ended(cohort) > MOST_NOT_ENDED * cohort.rows.height:
        # jobs of groups that run longer have ended less often, and rather if they failed
        unknown = pl.lit(None, pl.Float64)
        rates = {"failure_rate": unknown, "own_failure_rate": unknown}
        groups = {name: usage.with_columns(**rates) for name, usage in groups.items()}
    each = None
    if whole["jobs"] <= _SMALL:
        each = resource_usage(jobs.to_native(), by="job_id", window=window)
    trends = _trends(jobs.to_native(), groups, window) if window and whole["gpu_hours"] else {}
    unit = "GPU" if whole["gpu_hours"] else "CPU"
    return Consumers(whole, without, groups, trends, unit, each, _arrays(trace))


def _usages(
    jobs: IntoFrame, by: tuple[str, ...], window: Window | None
) -> tuple[dict[str, pl.DataFrame], dict[str, Any], dict[str, Any] | None]:
    """Return the resources by each column, of all jobs, and without the largest user."""
    opened, numbers = _opened(jobs, by, window)
    if isinstance(jobs, pl.LazyFrame):  # nine results: the rows are read and classified once
        flags = pl.col(*COUNTED, *_flags()).cast(pl.Int8)
        rows = opened.to_native().with_columns(_TEXTS_AS_CODES, flags)
        opened = nw.from_native(collect(rows).lazy())
    usages = {name: _usage(opened, numbers, (name,)) for name in by}
    groups = {
        name: usage
        for name, usage in usages.items()
        if usage.height > 1 or (name in _REASONS and usage["fraction_wasted"].sum())
    }
    whole = _usage(opened, numbers, ()).row(0, named=True)
    return groups, whole, _without_largest(opened, numbers, groups)


def _without_largest(
    jobs: nw.LazyFrame[Any], numbers: list[str], groups: dict[str, pl.DataFrame]
) -> dict[str, Any] | None:
    """Return the resources of all users but the one with the most jobs."""
    users = groups.get("user", pl.DataFrame({"user": []})).drop_nulls("user")
    if users.height <= 1:
        return None
    largest = users.sort("jobs", descending=True)["user"][0]
    return _usage(jobs.filter(nw.col("user") != largest), numbers, ()).row(0, named=True)


def _most_idle(
    trace: Trace, jobs: nw.LazyFrame[Any], window: Window | None, total: float | None
) -> dict[str, pl.DataFrame]:
    """Return the jobs with the most idle GPU-hours, as a group; `total` are those of all jobs."""
    if not {"gpu_utilization", "gpus"} <= {*column_names(jobs.to_native())}:
        return {}
    idle = nw.col("gpus") * nw.col("runtime_s") * (1 - nw.col("gpu_utilization"))
    local = trace.local(jobs.with_columns(idle=idle).drop_nulls("idle").to_native(), "jobs")
    most = local.top_k(MOST_SHOWN, by="idle").drop("idle").collect()
    if most.height <= 1:
        return {}
    usage = resource_usage(most, by="job_id", window=window)
    usage = usage.with_columns(fraction_of_all=pl.col("gpu_hours") / pl.lit(total, pl.Float64))
    return {"job_id": usage.sort("idle_gpu_hours", descending=True, nulls_last=True)}


def _trends(
    jobs: IntoFrame, groups: dict[str, pl.DataFrame], window: Window
) -> dict[str, pl.DataFrame]:
    """Return the GPUs of each shown group over equal parts of the window, as a sparkline."""
    first, last = window
    width = (last - first) / _BINS
    # bins begin at multiples of their width; times before the window stay positive
    shift = -first % width if width > 0 else 0.0
    begin = first + shift
    names = [name for name in _TRENDS if name in groups] if width > 0 else []
    present = column_names(jobs)
    times = [name for name in ("submit_s", "start_s", "end_s") if name in present]
    counted: Any = nw.from_native(jobs).select(
        *(nw.col(name) + shift for name in times),
        *(name for name in ("runtime_s", "gpus", "status", *names) if name in present),
    )
    if "end_s" not in times:  # no job has ended
        counted = counted.with_columns(end_s=nw.lit(None, nw.Float64))
    if isinstance(jobs, pl.LazyFrame):  # read once for all columns
        counted = nw.from_native(collect(counted.to_native().with_columns(_TEXTS_AS_CODES)))
    place = ((pl.col("bin_start_s") - begin) / width).round().cast(pl.Int64)
    gpus = pl.when(place >= 0).then("gpus_mean").fill_null(0)
    trends: dict[str, pl.DataFrame] = {}
    for name in names:
        window = (begin, last + shift)
        shown = groups[name][name].head(MOST_SHOWN).drop_nulls().to_list()
        of_shown = counted.filter(nw.col(name).is_in(shown) | nw.col(name).is_null())
        demand = gpu_demand(of_shown.to_native(), by=name, bin_s=width, window=window)
        bins = demand.group_by(name).agg(place=place.fill_null(0).clip(0), gpus=gpus)
        lines = [
            sparkline(np.bincount(of, gpus, _BINS)[:_BINS].tolist())
            for of, gpus in bins.select("place", "gpus").iter_rows()
        ]
        table = bins.select(pl.col(name).cast(pl.String), trend=pl.Series(lines))
        trends[name] = table.sort(name)
    return trends


def cpu_hours_of(trace: Trace, /) -> float | None:
    """Return the CPU-hours of all jobs; None where they are not recorded."""
    if not trace.has("jobs", ("cpus", *CONSUMER_NEEDS[0]["jobs"])):
        return None
    hours: float | None = trace.once(describe_consumers).whole["cpu_hours"]
    return hours


def _arrays(trace: Trace) -> dict[str, int]:
    """Count arrays, restarts and requeued runs; what the trace does not state is left out."""
    array = nw.col("array_id")
    again = nw.col("end_reason").cast(nw.String).str.starts_with("REQUEUED").cast(nw.Int64)
    every = {
        "array_id": {"jobs_in_arrays": array.count(), "arrays": array.n_unique()},
        "end_reason": {"requeued": again.sum()},
    }
    counts: dict[str, nw.Expr] = {}
    for column, of_column in every.items():
        counts |= of_column if column in trace.manifest.tables["jobs"].columns else {}
    counted = reduce_frame(trace.rows("jobs"), (), jobs=nw.len(), **counts).row(0, named=True)
    whole = {name: int(value) for name, value in counted.items() if value is not None}
    if "arrays" in whole:
        whole["arrays"] -= whole["jobs_in_arrays"] < whole["jobs"]  # null is no array
    if not whole.get("requeued"):
        whole.pop("requeued", None)
    if "restarts" in trace.manifest.tables["jobs"].columns:
        restarts = trace.once(restarted_jobs)["restarts"]
        whole |= {"restarted": restarts.len(), "restarts": int(restarts.sum())}
    return whole


def restarted_jobs(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, restarts] of jobs that restarted; the runs of one are one job."""
    if not trace.has("jobs", ("restarts",)):
        return pl.DataFrame(schema={"job_id": pl.String, "restarts": pl.Int64})
    rows = collect(trace.rows("jobs").filter(nw.col("restarts") > 0).select("job_id", "restarts"))
    job = pl.col("job_id").cast(pl.String).str.split("@").list.first()
    jobs = rows.group_by(job).agg(pl.col("restarts").max().cast(pl.Int64))
    return jobs.sort("restarts", "job_id", descending=[True, False])


FACTS: Final = (
    "Period",
    "Jobs",
    "Users",
    "GPU-hours",
    "CPU-hours",
    "GPUs allocated",
    "CPUs allocated",
    "Status",
    "Failed",
    "Median wait",
    "Median runtime",
    "Median runtime so far",
)
"""Names in their order."""
_SHORTEST_S = 60.0
_WORDS = 4


def facts_of(trace: Trace, /) -> list[tuple[str, str]]:
    """Return (name, value) of what a trace has, for its jobs; empty without a table of jobs."""
    return trace.once(_facts) if trace.has("jobs") else []


def failed_as(trace: Trace, /) -> str:
    """Return the log's own words for jobs that failed, if there are several: TIMEOUT (4,326)."""
    if not trace.has("jobs", ("status", "end_reason")):
        return ""
    words = (
        trace.scan("jobs")
        .filter(pl.col("status").cast(pl.String) == "failed", pl.col("end_reason").is_not_null())
        .group_by(pl.col("end_reason").cast(pl.String))
        .len()
        .sort(["len", "end_reason"], descending=[True, False])
        .head(_WORDS)
        .collect()
        .rows()
    )
    return listed(f"{word} ({count(n)})" for word, n in words) if len(words) > 1 else ""


def _facts(trace: Trace) -> list[tuple[str, str]]:
    workload = trace.once(describe_workload)
    row = workload.summary.row(0, named=True)
    facts = [("Period", _period(trace)), ("Jobs", count(row["jobs"]))]
    if users := count_users(trace):
        facts.append(("Users", count(users)))
    if row["gpu_hours"]:
        facts.append(("GPU-hours", hours_text(row["gpu_hours"])))
    elif hours := cpu_hours_of(trace):
        facts.append(("CPU-hours", hours_text(hours)))
    # others may have had the rest; and no section states it of jobs that another trace has
    if users != 1 and trace.manifest.repeats not in trace.store.traces():
        facts += _allocated(trace)
    facts += [("Status", none_ended := _none_ended(trace)), ("Failed", _failed(trace))]
    if workload.queueing is not None and workload.queueing.height:
        wait = workload.queueing["median_s"][0]
        facts.append(("Median wait", "" if wait is None else duration(wait)))
    median = row["runtime_s_median"]
    name = "Median runtime so far" if none_ended else "Median runtime"
    missing = " (short jobs are missing)" * trace.manifest.is_left_truncated
    facts.append((name, "" if median is None else f"{duration(median)}{missing}"))
    return [(name, value) for name, value in facts if value]


def _allocated(trace: Trace) -> list[tuple[str, str]]:
    """Return how much of the GPUs, else of the CPUs, was allocated; empty where it is unknown."""
    if not any(trace.has(*need) for needs in NEEDS for need in needs.items()):
        return []
    gpus = trace.once(gpus_allocated)
    if gpus is not None and gpus["allocated"][0]:
        of_all = gpus.row(0, named=True)
        return [("GPUs allocated", f"{share(of_all['allocated'])} of {plain(of_all['gpus'])}")]
    cpus = trace.once(cpus_allocated)
    return [("CPUs allocated", f"{share(cpus[1])} of {plain(cpus[0])}")] if cpus else []


def _period(trace: Trace) -> str:
    """Return the observation window: dates where times are absolute, else its length."""
    first, last = trace.once(window_of) or (0.0, 0.0)
    if last - first < _SHORTEST_S:
        return ""
    if not trace.manifest.absolute_times or last >= LAST_DATE_S:
        return duration(last - first)
    zone = ZoneInfo(trace.manifest.timezone) if trace.manifest.timezone else UTC
    ends = (first, last - 1e-3)  # an end at midnight is that of the day before
    start, end = (datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d") for at in ends)
    return start if start == end else f"{start} to {end}"


def _none_ended(trace: Trace) -> str:
    """Return the statuses of the jobs if all run or are pending: all running; else empty."""
    if not trace.has("jobs", ("status",)):
        return ""
    status = trace.scan("jobs").select(pl.col("status").cast(pl.String)).collect()["status"]
    status_counts = status.value_counts(sort=True).rows()
    if {word for word, _ in status_counts} - {"running", "pending"}:
        return ""
    if len(status_counts) == 1:
        return f"all {status_counts[0][0]}"
    return f"{listed(f'{count(n)} {word}' for word, n in status_counts)}; none ended"


def _failed(trace: Trace) -> str:
    """Return the failed among the completed and failed jobs, or within a runtime if many run."""
    if not trace.has("jobs", ("status",)):
        return ""
    status = pl.col("status").cast(pl.String)
    failed, ended = (
        trace.scan("jobs")
        .select((status == "failed").sum(), ended=status.is_in(["completed", "failed"]).sum())
        .collect()
        .row(0)
    )
    if trace.has("jobs", ("runtime_s",)):
        result = trace.once(overall_failure)
        if result.is_censored and result.incidence is not None:
            by = duration(result.incidence["horizon_s"])
            return f"{share(result.incidence['fraction'])} within {by}"
    return f"{share(failed / ended)} ({count(failed)} of {count(ended)})" if ended else ""


def pending_jobs(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, wait_s] of the jobs that wait at the window's end, the longest wait first."""
    window = trace.once(window_of)
    if window is None or not trace.has("jobs", ("submit_s", "status")):
        return pl.DataFrame(schema={"job_id": pl.String, "wait_s": pl.Float64})
    waits = nw.col("status").cast(nw.String) == "pending"
    if trace.has("jobs", ("start_s",)):
        waits &= nw.col("start_s").is_null()
    if trace.has("jobs", ("end_s",)):  # others were removed before they started
        waits &= nw.col("end_s").is_null() | (nw.col("end_s") >= window[1])
    wait = (window[1] - nw.col("submit_s")).alias("wait_s")
    rows = collect(trace.rows("jobs").filter(waits).select("job_id", wait))
    return rows.filter(pl.col("wait_s") >= 0).sort("wait_s", descending=True, maintain_order=True)


OVERDUE: Final = 5
"""Runtime of a running job, as a multiple of all earlier ones of its kind, that is exceptional."""
_FEWEST_RUNS: Final = 20


def overdue_jobs(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, ran_s, longest_s, gpu_hours] of jobs that run far longer than ever before.

    Of 20 or more ended runs of the same user and name (without the number that it ends in) none
    lasted a fifth as long, nor is it an outlier: beyond the longest are two more of its distances
    from the median, in log scale. The longest is first.
    """
    window, names = trace.once(window_of), ("user", "job_name", "status", "start_s", "runtime_s")
    if window is None or not trace.has("jobs", names):
        return pl.DataFrame(schema=dict.fromkeys(("job_id", "ran_s"), pl.Float64))
    kind = pl.struct(pl.col("user").cast(pl.String), without_numbers(pl.col("job_name"))[0])
    jobs = trace.scan("jobs").with_columns(kind=kind)
    gpus = pl.col("gpus") if trace.has("jobs", ("gpus",)) else pl.lit(0.0)
    running = jobs.filter(pl.col("status").cast(pl.String) == "running").select(
        "job_id", "kind", ran_s=window[1] - pl.col("start_s"), gpus=gpus
    )
    ended = jobs.filter(pl.col("status").cast(pl.String) != "running")
    longest, ran, runs = pl.col("longest_s"), pl.col("ran_s"), pl.col("runtime_s")
    of_kind = ended.join(running, on="kind", how="semi").group_by("kind")
    usual = of_kind.agg(n=runs.count(), longest_s=runs.max(), median_s=runs.median())
    known = running.join(usual.filter(pl.col("n") >= _FEWEST_RUNS), on="kind")
    late = known.filter(
        ran > OVERDUE * longest, ran > longest * (longest / pl.col("median_s")) ** 2
    )
    hours = pl.col("gpus") * pl.col("ran_s") / 3600
    found = late.select("job_id", "ran_s", "longest_s", gpu_hours=hours).collect()
    return found.sort("ran_s", descending=True, maintain_order=True)
