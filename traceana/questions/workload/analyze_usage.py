"""GPU-hours by group, queueing delays, job arrays and failures of nodes of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.cohorts.local_time import read_clock
from traceana.cohorts.observation import window_of
from traceana.cohorts.tasks import sample_jobs
from traceana.questions.failures.nodes import node_failures
from traceana.questions.workload.queueing import queueing_delay
from traceana.questions.workload.usage import gpu_hours_by
from traceana.stats.effect_sizes import conclude
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.ranks import placements, rank_anova
from traceana.stats.wild_bootstrap import effective_clusters, too_few_clusters
from traceana.store.frames import collect, reduce_frame

if TYPE_CHECKING:
    from traceana.store import Trace
    from traceana.store.manifest import Manifest

USAGE_NEEDS: Final = ({"jobs": ("gpus", "runtime_s", "status")},)
"""What a trace needs for GPU-hours by group."""
MOST_GROUPS: Final = 20
"""Groups with rows of their own; the others are summed."""
FEWEST: Final = 20
"""Delays of a group below which no finding names it."""
_COMPARED: Final = 200_000
"""Delays whose ranks are compared; of more, a sample."""
_GROUPS: Final = (
    "user",
    "account",
    "queue",
    "gpu_type",
    "cluster",
    "month",
    "status",
    "end_reason",
)
_NODES: Final = ("NodeList", "node", "host", "machine_id")
_SIZES: Final = {
    "below 1": 1, "1": 2, "2": 3, "3 to 4": 5, "5 to 8": 9, "9 to 16": 17, "17 to 64": 65,
}  # fmt: skip
_LARGEST: Final = "65 or more"
_TOP: Final = 0.05
_DAY_S: Final = 86_400


@dataclass(frozen=True)
class Usage:
    """Results on the jobs of a trace."""

    groups: dict[str, pl.DataFrame]
    """GPU-hours by group, for each column with several values; the largest groups."""
    n_users: int | None
    n_top: int | None
    top_share: float | None
    """Users, the number of the top 5 % of them (rounded up), and their fraction of the GPU-hours;
    None without users."""
    waits: dict[str, pl.DataFrame]
    """Queueing delay by size, queue, hour and user; empty without submissions and starts."""
    wait_tests: pl.DataFrame
    """Rank ANOVA of the delays between the groups of each column but hour and user, p adjusted
    (Holm); the largest effect first."""
    arrays: dict[str, int] | None
    """[jobs, and where they are known: arrays, jobs_in_arrays, restarted, restarts, requeued]; None
    without any of them."""
    nodes: pl.DataFrame | None
    """Nodes compared with comparable jobs on others; None where jobs have no node."""
    node_rows: tuple[int, int]
    """Completed and failed jobs, and those of them with a node."""


def describe_usage(trace: Trace, /) -> Usage:
    """Compute GPU-hours by group, waits, arrays and failures of nodes."""
    manifest = trace.manifest
    jobs = listed = _with_calendar(trace.rows("jobs"), manifest)
    columns = {*manifest.tables["jobs"].columns}
    if not columns & {*_NODES} and manifest.has("instances", ("machine_id",)):
        jobs, columns = (
            _with_machine(jobs, trace.rows("instances")),
            columns | {_NODES[-1]},
        )
    present = columns | ({"month"} if manifest.absolute_times else set())
    user = "user" if "user" in columns else None
    window = trace.once(window_of)
    groups = {}
    for name in _GROUPS:
        if name in present:
            found = gpu_hours_by(
                jobs.to_native(), name, user=user if name != "user" else None, window=window
            )
            if found.height > 1:
                groups[name] = found
    n_users = n_top = top_share = None
    if user in groups:
        hours = groups["user"].drop_nulls("user")["gpu_hours"]
        n_users = hours.len()
        n_top = -int(-n_users * _TOP // 1)
        total = float(hours.sum())
        top_share = float(hours.head(n_top).sum()) / total if total else None
    nodes, node_rows = _nodes(jobs, columns)
    waits = _waits(jobs, columns, manifest) if {"submit_s", "start_s"} <= columns else {}
    sample = trace.once(sample_jobs)
    # in their order, which the join with machines does not keep
    drawn: Any = nw.from_native(sample.rows_of(listed.to_native())) if sample else listed
    return Usage(
        groups={name: _largest(found, name) for name, found in groups.items()},
        n_users=n_users,
        n_top=n_top,
        top_share=top_share,
        waits=waits,
        wait_tests=_compare_waits(drawn, [*waits], user),
        arrays=_arrays(jobs, columns),
        nodes=nodes,
        node_rows=node_rows,
    )


def _with_machine(jobs: nw.LazyFrame[Any], instances: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Add the machine of the jobs whose instances all ran on one."""
    machine = nw.col(_NODES[-1])
    of_job = instances.group_by("job_id").agg(machine.min(), machine.max().alias("last"))
    alone = of_job.filter(machine == nw.col("last")).drop("last")
    return jobs.join(alone, on="job_id", how="left")


def _with_calendar(jobs: nw.LazyFrame[Any], manifest: Manifest) -> nw.LazyFrame[Any]:
    """Add month and hour of submission in the trace's time zone, and the number of the size."""
    if manifest.absolute_times:
        submitted = nw.coalesce("submit_s", "start_s")
        clock = read_clock(jobs, submitted, manifest.timezone or "UTC")
        local = submitted + clock.offset_s(submitted)
        hour = ((local % _DAY_S) / 3600).floor().cast(nw.Int64)
        jobs = jobs.with_columns(month=clock.month(submitted), hour=hour)
    gpus = nw.col("gpus")
    above = [(gpus >= low).cast(nw.Int64) for low in _SIZES.values()]
    return jobs.with_columns(size=sum(above, (gpus > 0).cast(nw.Int64)))


def _largest(found: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the largest groups, and the others added up."""
    if name == "month":
        return found.sort("month", nulls_last=True)
    if found.height <= MOST_GROUPS + 1:
        return found
    rest = found.slice(MOST_GROUPS)
    hours = pl.col("gpu_hours")
    others = rest.select(
        pl.lit(f"{rest.height} others").alias(name),
        pl.col("jobs", "n_missing").sum(),
        hours.sum(),
        pl.col("share").sum(),
        (pl.col("failed") * hours).sum() / hours.sum(),
        (pl.col("cancelled") * hours).sum() / hours.sum(),
    )
    return pl.concat([found.head(MOST_GROUPS).cast({name: pl.String}), others], how="diagonal")


def _waits(
    jobs: nw.LazyFrame[Any], columns: set[str], manifest: Manifest
) -> dict[str, pl.DataFrame]:
    names = ["size", *(name for name in ("queue", "qos", "gpu_type", "user") if name in columns)]
    if manifest.absolute_times:
        names.append("hour")
    found = {name: queueing_delay(jobs.to_native(), by=name) for name in names}
    labels = pl.Series(["0", *_SIZES, _LARGEST], dtype=pl.Enum(["0", *_SIZES, _LARGEST]))
    found["size"] = found["size"].with_columns(pl.lit(labels).gather(pl.col("size")).alias("size"))
    return {
        name: rows
        if name in ("size", "hour")
        else rows.sort("n", descending=True).head(MOST_GROUPS)
        for name, rows in found.items()
        if rows["n"].sum() and rows.height > 1
    }


def _compare_waits(jobs: nw.LazyFrame[Any], names: list[str], user: str | None) -> pl.DataFrame:
    """Compare the delays of the groups of each column by their ranks."""
    names = [name for name in names if name not in ("hour", "user")]
    columns = [nw.col(name).cast(nw.String) for name in (*names, user) if name and name != "size"]
    wait = (nw.col("start_s") - nw.col("submit_s")).alias("wait_s")
    every = collect(jobs.select(wait, *(["size"] if "size" in names else []), *columns))
    tests = []
    for name in names:
        known = every.select("wait_s", name, *([user] if user else [])).drop_nulls()
        known = known.filter(pl.len().over(name) >= FEWEST)
        known = known.sample(min(known.height, _COMPARED), seed=1)
        units = known[user].rank("dense").to_numpy() - 1 if user else None
        n_groups = known[name].n_unique()
        if not 2 <= n_groups <= MOST_GROUPS or known["wait_s"].n_unique() < 2:
            continue
        group = (known[name].rank("dense") - 1).cast(pl.Int64).to_numpy()
        placed = placements(known["wait_s"].cast(pl.Float64).to_numpy(), group)
        units = None if units is None else units.astype(np.int64)
        test, _ = rank_anova(group, placed, units, confidence=0.95)
        few = units is not None and too_few_clusters(effective_clusters(np.ones(len(units)), units))
        if np.isnan(test.pvalue) and not few:  # groups do not overlap
            test, _ = rank_anova(group, placed, units, confidence=0.95, equal_spreads=True)
        estimate = (test.effect, test.ci_low, test.ci_high, test.pvalue)
        tests.append((name, known.height, *estimate, few or None))
    numbers = dict.fromkeys(("effect", "ci_low", "ci_high", "pvalue"), pl.Float64)
    schema = {"by": pl.String, "n": pl.Int64, **numbers, "note": pl.String}
    found = pl.DataFrame(tests, schema, orient="row")
    adjusted = adjust_pvalues(found["pvalue"].to_numpy(), method="holm")
    found = found.with_columns(pvalue_adjusted=pl.Series(adjusted, dtype=pl.Float64))
    found = found.fill_nan(None)
    shown = ("effect", "ci_low", "ci_high", "pvalue_adjusted")
    concluded = [conclude("epsilon_squared", *row) for row in found.select(shown).rows()]
    found = found.with_columns(conclusion=pl.Series(concluded, dtype=pl.String))
    return found.sort("effect", descending=True, nulls_last=True)


def _arrays(jobs: nw.LazyFrame[Any], columns: set[str]) -> dict[str, int] | None:
    """Count arrays, restarts and requeued runs; what the trace does not state is left out."""
    counts: dict[str, nw.Expr] = {}
    if "array_id" in columns:
        counts |= {
            "jobs_in_arrays": nw.col("array_id").count(),
            "arrays": nw.col("array_id").n_unique(),
        }
    if "restarts" in columns:
        restarts = nw.col("restarts")
        counts["restarted"] = (restarts > 0).cast(nw.Int64).sum()
        counts["restarts"] = restarts.sum()
    if "end_reason" in columns:
        again = nw.col("end_reason").cast(nw.String).str.starts_with("REQUEUED")
        counts["requeued"] = again.cast(nw.Int64).sum()
    found = reduce_frame(jobs, (), jobs=nw.len(), **counts).row(0, named=True)
    whole = {name: int(value) for name, value in found.items() if value is not None}
    if "arrays" in whole:
        whole["arrays"] -= whole["jobs_in_arrays"] < whole["jobs"]  # null is no array
    if not whole.get("requeued"):
        whole.pop("requeued", None)
    return whole if len(whole) > 1 else None


def _nodes(
    jobs: nw.LazyFrame[Any], columns: set[str]
) -> tuple[pl.DataFrame | None, tuple[int, int]]:
    """Compare the nodes of jobs with those of comparable jobs."""
    name = next((name for name in _NODES if name in columns), None)
    if name is None:
        return None, (0, 0)
    ended = jobs.filter(nw.col("status").cast(nw.String).is_in(["completed", "failed"]))
    counts = reduce_frame(ended, (), n=nw.len(), known=nw.col(name).count()).row(0)
    if not counts[1]:
        return None, counts
    return node_failures(ended.to_native(), node=name), counts
