"""When the rows of a trace were observed: left truncation and censoring by its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from traceana.cohorts.overlap import BEGIN, UNTIL, Window, open_overlap
from traceana.cohorts.tasks import JobSample
from traceana.stats.survival import product_limit
from traceana.store import Trace
from traceana.store.frames import collect, reduce_frame, sort_stably
from traceana.store.manifest import Manifest


@dataclass(frozen=True)
class Observation:
    """Observation window of rows with a runtime, and what it cuts off."""

    start_s: float | None
    end_s: float | None
    """The window; None where it is not known."""
    stated: bool
    """Whether the manifest states it; else it is derived from the times in the trace."""
    n: int
    """Rows with a runtime, or with a start and no end."""
    n_truncated: int
    """Those that started before the window: seen only because they lasted into it."""
    n_censored: int
    """Those still running at its end."""
    n_open: int
    """Those of them without an end."""
    n_unstarted: int
    """Other rows without a start, but pending and cancelled ones."""
    n_unlisted: float | None
    """Estimate of the rows that a trace without unfinished rows omits; None for other traces."""

    def describe(self, noun: str, /) -> str:
        """Return what the window cuts off, as sentences; empty for no row."""
        if not self.n:
            return ""
        seen = "a runtime or a start" if self.n_open else "a runtime"
        text = (
            f"{noun.capitalize()} with {seen}: {self.n:,}, of which {self.n_truncated:,} started "
            f"before the observation window (left-truncated) and {self.n_censored:,} still ran at "
            f"its end (right-censored); window {'stated' if self.stated else 'derived'}."
        )
        if self.n_open:
            text += f" The {self.n_open:,} without an end are taken as running until it ends."
        if self.n_unstarted:
            text += (
                f" {self.n_unstarted:,} {noun} without a start are excluded: they may have started "
                "before the window."
            )
        if self.n_unlisted is not None:
            unlisted = max(self.n_unlisted, 0.0)
            share = 100 * unlisted / (self.n + unlisted)
            least = f"at least {share:.2g} %" if unlisted else "none"
            text += (
                f" All of them ended within the window, so runtimes are right-truncated: {noun} "
                f"still running at its end may be missing ({least} by "
                "Lynden-Bell's estimator; runtimes longer than the window are never listed)."
            )
        return text


def find_window(rows: IntoFrame, manifest: Manifest, /) -> tuple[float | None, float | None]:
    """Return the observation window of a trace's jobs: as stated, else derived.

    A derived one ends with the last end, or where a row without an end has run until, and begins
    with the first recorded end if the trace lists only survivors of an earlier time.
    """
    first, last = manifest.window_start_s, manifest.window_end_s
    if manifest.window == "stated" or last is None:
        return first, last
    frame: Any = nw.from_native(rows).lazy()
    names = {*frame.collect_schema().names()}
    lasted, times = nw.col("runtime_s"), dict[str, nw.Expr]()
    if "end_s" in names:
        end = nw.col("end_s")
        times = {"first end": end.min(), "end": end.max()}
        lasted = nw.when(end.is_null()).then(lasted)  # of a running job, that until the export
    for name in ("start_s", "submit_s"):
        if {name, "runtime_s"} <= names:
            times[name] = (nw.col(name) + lasted).max()
    row = reduce_frame(frame, (), **times).row(0, named=True) if times else {}
    seconds = {name: value for name, value in row.items() if value is not None}
    if manifest.lists_only_survivors:
        first = seconds.get("first end", first)
    run = [seconds[name] for name in ("end", "start_s") if name in seconds]
    return first, max([last, *(run or [seconds.get("submit_s", last)])])


def window_of(trace: Trace, /) -> Window | None:
    """Return the observation window of a trace's jobs; None if it has no times."""
    first, last = find_window(trace.frame("jobs"), trace.manifest)
    return None if first is None or last is None else (first, last)


def observe(
    rows: IntoFrameT, manifest: Manifest, /, *, sample: JobSample | None = None
) -> tuple[IntoFrameT, Observation]:
    """Add the columns duration_s, entry_s and observed, by the window of the rows' trace.

    A row that may still run lasts until the window's end and is not observed to end; one that
    started before the window has the runtime at its start as entry_s. Rows that are missing are
    estimated from the `sample` of the rows, if there is one.
    """
    frame: Any = nw.from_native(rows)
    start, begin, end = _find_times(frame.lazy())
    first, last = find_window(rows, manifest)
    has_status = "status" in frame.collect_schema().names()
    status = nw.col("status").cast(nw.String) if has_status else nw.lit(None, nw.String)
    runtime, until = nw.col("runtime_s"), nw.lit(last, nw.Float64)
    running = status.is_null() | status.is_in(("running", "unknown"))
    open_ = runtime.is_null() & end.is_null() & running & (begin <= until)
    frame = frame.with_columns(
        nw.when(open_).then(until - begin).otherwise(runtime).alias("duration_s")
    )
    duration, entry = nw.col("duration_s"), nw.lit(0.0)
    if start is not None and first is not None:
        entry = nw.min_horizontal((first - nw.col(start)).clip(0), duration).fill_null(0.0)
    still = (status == "running") & ~(end < until).fill_null(value=False)
    observed = ~(still | open_).fill_null(value=False)
    frame = frame.with_columns(entry.alias("entry_s"), observed.alias("observed"))
    lasts, entered = ~duration.is_null(), nw.col("entry_s")
    # pending rows have not run, and cancelled ones never did
    waits = status.is_in(["pending", "cancelled"]).fill_null(value=False)
    unstarted = ~lasts & begin.is_null() & ~waits
    if start != "start_s":
        unstarted = lasts & nw.lit(value=False)  # one per row, since it is counted
    counts = reduce_frame(
        frame.lazy(),
        (),
        rows=nw.len(),
        n=duration.count(),
        truncated=nw.when(lasts & (entered > 0)).then(entered).count(),
        censored=nw.when(lasts & ~nw.col("observed")).then(entered).count(),
        timed=runtime.count(),
        unstarted=nw.when(unstarted).then(entered).count(),
    )
    n_rows, n, truncated, censored, timed, unstarted_rows = counts.row(0)
    unlisted = None
    if n == n_rows and not censored and not truncated and start and last is not None:
        listed = frame.lazy().filter(lasts)
        drawn: Any = nw.from_native(sample.rows_of(listed.to_native())) if sample else listed
        unlisted = estimate_unlisted(collect(drawn.select("runtime_s", start)), start, last)
        if unlisted is not None and sample:
            unlisted /= sample.fraction
    stated = manifest.window == "stated"
    return frame.to_native(), Observation(
        first, last, stated, n, truncated, censored, n - timed, unstarted_rows, unlisted
    )


def _find_times(frame: nw.LazyFrame[Any]) -> tuple[str | None, nw.Expr, nw.Expr]:
    """Return the column from which rows run, when they started and when they ended, or nulls."""
    null, names = nw.lit(None, nw.Float64), frame.collect_schema().names()
    times = [name for name in ("start_s", "submit_s", "end_s") if name in names]
    counts = reduce_frame(frame, (), **{name: nw.col(name).count() for name in times})
    filled = [name for name in times if counts[name].item()]
    start = next((name for name in filled if name != "end_s"), None)
    begin = nw.col("start_s") if start == "start_s" else null
    if "end_s" in filled:
        return start, begin, nw.col("end_s")
    return start, begin, nw.col(start) + nw.col("runtime_s") if start else null


def estimate_unlisted(rows: pl.DataFrame, start: str, last: float, /) -> float | None:
    """Estimate the rows missing under right truncation (Lynden-Bell, MNRAS 155, 1971).

    A runtime is listed only if it is at most the time left in the window. With time reversed this
    is left truncation, and a listed row has weight 1 / F(time left).
    """
    kept = rows.drop_nulls([start, "runtime_s"])
    runtime, left = kept["runtime_s"].to_numpy(), last - kept[start].to_numpy()
    if not len(kept) or (runtime > left + 1).any():
        return None
    left = np.maximum(left, runtime)
    times = np.unique(runtime)
    ends = np.bincount(np.searchsorted(times, runtime), minlength=len(times))
    # in reversed time a row enters after the last runtime beyond the time left
    beyond = np.searchsorted(times, left, side="right")
    late = np.bincount(beyond, minlength=len(times) + 1)[: len(times)]
    below = np.append(product_limit(ends[::-1], 0 * ends, late[::-1])[::-1], 1.0)
    # F below each runtime; a row has weight 1 / F(time left)
    share = below[beyond]
    return float((1 / share[share > 0] - 1).sum())


NODES: Final = ("NodeList", "node", "host", "machine_id")
"""Columns of the nodes of a job, in the order of preference."""


_MOST_WITHOUT: Final = 0.01
_ROUNDED_S: Final = 300.0
"""Overlap of two jobs that may come from rounded times or durations."""
_ONE_TYPE: Final = 0.9
"""Of the jobs on a node, those of its GPU type at least."""
_SIZES: Final = ("gpus", "cpus")
_NODE: Final = "number of the node"


def node_column(columns: tuple[str, ...] | list[str], /) -> str | None:
    """Return the column of the nodes of a job; None: there is none."""
    return next((name for name in NODES if name in columns), None)


def nodes_seen(trace: Trace, /) -> pl.DataFrame:
    """Return [machine_id, gpu_type, gpus, cpus]: the most in use at a time on each node.

    A job has an equal part of its GPUs and CPUs on each of its nodes. These are lower bounds, and
    null where more than a hundredth of the jobs with GPUs (CPUs) has no node. The type is null
    where nodes have jobs of several types, such as slices beside whole GPUs. Jobs that begin or end
    in an hour that occurs twice as daylight saving time ends do not count: they overlap others.
    """
    columns = trace.manifest.tables["jobs"].columns
    name = node_column(columns)
    empty = {"machine_id": pl.String, "gpu_type": pl.String, **dict.fromkeys(_SIZES, pl.Float64)}
    if name is None:
        return pl.DataFrame(schema=empty)
    kept = tuple(column for column in (name, "gpu_type") if column in columns)
    sized: dict[str, str] = {size: size for size in _SIZES if size in columns}
    frame = open_overlap(trace.frame("jobs"), kept, sized, window=trace.once(window_of))
    rows = collect(frame.select(BEGIN, UNTIL, *kept, *sized).filter(~nw.col(BEGIN).is_null()))
    rows = rows.filter(~_occurs_twice(trace.manifest))
    used = [
        size
        for size in sized
        if (using := rows.filter(pl.col(size) > 0))[name].null_count()
        <= _MOST_WITHOUT * using.height
    ]
    hosts = pl.col(name).cast(pl.String).str.split(",")
    lists = rows.select(name).drop_nulls().unique().with_columns(machine_id=hosts)
    parts = lists.with_columns(n=pl.col("machine_id").list.len()).explode("machine_id")
    parts = parts.with_columns(**{_NODE: pl.col("machine_id").rank("dense")})
    kind = pl.col("gpu_type") if "gpu_type" in kept else pl.lit(None, pl.String)
    rows = rows.join(parts, on=name).select(
        BEGIN,
        UNTIL,
        _NODE,
        gpu_type=kind.cast(pl.String),
        **{size: pl.col(size).fill_null(0) / pl.col("n") for size in used},
    )
    kinds = pl.col("gpu_type").drop_nulls()
    part = kinds.unique_counts().max() / kinds.len()
    named = rows.group_by(_NODE).agg(kinds.mode().sort().first(), part=part)
    if (named["part"] < _ONE_TYPE).any():
        named = named.with_columns(gpu_type=pl.lit(None, pl.String))
    named = named.join(parts.select(_NODE, "machine_id").unique(), on=_NODE)
    none = {size: pl.lit(None, pl.Float64) for size in _SIZES if size not in used}
    # what ends makes room for what begins then; times that are rounded overlap by minutes
    until = pl.col(UNTIL) - pl.min_horizontal(_ROUNDED_S, (pl.col(UNTIL) - pl.col(BEGIN)) / 2)
    changes = pl.concat(
        rows.select(_NODE, pl.col(used) * sign, time=time)
        for time, sign in ((until, -1), (pl.col(BEGIN), 1))
    )
    changes = sort_stably(changes, (_NODE, "time"))
    in_use = changes.select(_NODE, pl.col(used).cum_sum().over(_NODE))
    most = in_use.group_by(_NODE).agg(pl.col(used).max().round(3)).join(named, on=_NODE)
    return most.with_columns(**none).select(*empty).sort("machine_id")


def _occurs_twice(manifest: Manifest) -> pl.Expr:
    """Return whether a job begins or ends in an hour that occurs twice on the trace's clock."""
    zone = manifest.timezone
    if not (manifest.absolute_times and zone) or zone == "UTC":
        return pl.lit(value=False)
    utc = pl.from_epoch(pl.col(BEGIN, UNTIL).cast(pl.Int64)).dt.replace_time_zone("UTC")
    local = utc.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return pl.any_horizontal(local.dt.replace_time_zone(zone, ambiguous="null").is_null())


_FEWEST_NODES: Final = 2


class Capacity(NamedTuple):
    """GPUs (or CPUs) of a cluster, its machines, and where they are from."""

    gpus: float
    machines: Any
    """Frame of [machine_id, gpus, gpu_type]; None: only the number is known."""
    source: str


def capacity_of(trace: Trace, of: str = "gpus", /) -> Capacity | None:
    """Return the GPUs or CPUs of a trace's machines, as stated, or of the nodes seen; else None."""
    if trace.has("machines", (of,)):
        machines = trace.rows("machines").filter(~nw.col(of).is_null())
        if total := collect(machines.select(nw.col(of).cast(nw.Float64).sum())).item():
            listed = machines.to_native() if of == "gpus" else None
            return Capacity(float(total), listed, "of the machines")
    stated = sum(
        group.gpus if of == "gpus" else group.nodes * (group.cpus_per_node or 0)
        for group in trace.manifest.capacity.values()
    )
    if stated:
        return Capacity(float(stated), None, "as stated")
    if trace.manifest.lists_only_survivors or not trace.has("jobs", (of, "start_s")):
        return None
    seen = trace.once(nodes_seen).filter(pl.col(of) > 0)
    if seen.height < _FEWEST_NODES:
        return None
    source = f"the most in use at a time on each of {seen.height:,} nodes seen"
    return Capacity(float(seen[of].sum()), seen, source)
