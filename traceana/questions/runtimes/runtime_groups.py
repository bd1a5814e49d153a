"""Runtime ratios of a trace's jobs or tasks within each of its groupings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from traceana.cohorts.cohort import GROUPINGS
from traceana.cohorts.tasks import OWNERS, sampled_rows, task_owners, task_times
from traceana.questions.runtimes.ratio import runtime_ratio, summarize_runtime_ratio
from traceana.tables.display import key_heading
from traceana.tables.formatting import in_sentence, listed

if TYPE_CHECKING:
    from traceana.store import Trace


ROW_TABLES: Final = ("jobs", "tasks", "recurring_jobs")
"""Tables whose rows have runtimes."""


class RatioTables(NamedTuple):
    """Runtime ratios of a trace."""

    groupings: pl.DataFrame
    """[grouping, groups, n_excluded] with the columns of
    :class:`traceana.cohorts.tables.RuntimeRatioSummary`: ratios over all groups together, without
    a grouping and for each. Rows alone in their group, or without one, are excluded."""
    groups: pl.DataFrame | None
    """The summary of each group of the first grouping; None if there is no grouping."""


def tables_with_runtimes(trace: Trace, /) -> list[str]:
    """Return the tables of :data:`ROW_TABLES` to analyze: tasks only if jobs have no runtimes."""
    manifest = trace.manifest
    jobs = manifest.has("jobs", ("runtime_s",))
    tasks = manifest.has("tasks") and manifest.has("instances", ("start_s", "end_s"))
    recurring = manifest.has("recurring_jobs", ("start_s", "end_s"))
    present = {"jobs": jobs, "tasks": tasks and not jobs, "recurring_jobs": recurring}
    return [table for table, there in present.items() if there]


def ratio_tables(trace: Trace, table: str, /) -> RatioTables:
    """Return the runtime ratios of a table, for each of its groupings."""
    everything = _rows(trace, table)
    rows = everything.filter(pl.col("runtime_s").is_not_null())
    groupings = _groupings(rows, trace.manifest.tables[table].groups)
    parts = []
    for by in ((), *groupings):
        stated = rows.select(*by, "runtime_s")
        stated = stated.drop_nulls(by) if by else stated
        several = stated.filter(pl.len().over(by) > 1) if by else stated
        ratios = runtime_ratio(several, by=by).select("runtime_ratio")
        parts.append(
            summarize_runtime_ratio(ratios, by=(), runtime="runtime_ratio").select(
                pl.lit(grouping_title(by)).alias("grouping"),
                pl.lit(several.select(by).n_unique() if by else 1, pl.Int64).alias("groups"),
                pl.lit(rows.height - several.height, pl.Int64).alias("n_excluded"),
                pl.all(),
            )
        )
    # rows without a runtime are counted
    groups = summarize_runtime_ratio(everything, by=groupings[0]) if groupings else None
    return RatioTables(pl.concat(parts), groups)


def grouping_title(by: tuple[str, ...], /) -> str:
    """Return the name of a grouping for a sentence: QoS class, status and GPUs."""
    names = [in_sentence(key_heading(name)) for name in by]
    return listed(names) if names else "none"


def _rows(trace: Trace, table: str) -> pl.DataFrame:
    if table == "tasks":
        rows = task_times(trace)
        owners = trace.once(task_owners)
        return rows.hstack(owners) if owners.width else rows
    there = trace.scan(table).collect_schema().names()
    names = [name for name in there if name != "runtime_ratio"]
    rows = sampled_rows(trace, table, *names).collect()
    if table == "recurring_jobs":
        return rows.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    return rows


def _groupings(rows: pl.DataFrame, groups: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the groupings by one column, then the joint ones."""

    def varies(name: str) -> bool:
        return name in rows.columns and rows[name].drop_nulls().n_unique() > 1

    candidates = dict.fromkeys((*groups, *GROUPINGS))
    varying = [name for name in candidates if varies(name)]
    single = dict.fromkeys((*varying, *(name for name in ("status", *OWNERS) if varies(name))))
    joint = [
        tuple(name for name in (*varying[:1], "status", "gpus") if varies(name)),
        tuple(name for name in ("group", "status") if varies(name)),
    ]
    return [*((name,) for name in single), *(by for by in joint if len(by) > 1)]
