"""The rows that questions of runtime and outcome are asked of, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.tasks import task_owners, task_sample, task_times
from traceana.report.blocks import Absent, join_parts
from traceana.results.formatting import share

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.report.blocks import Content
    from traceana.report.context import Context

PAI: Final = "alibaba-pai-2020"
OPENB: Final = "alibaba-openb-2023"


@dataclass(frozen=True)
class Population:
    """Rows with status and runtime_s, and what a reader must know of them.

    Attributes
    ----------
    trace
        The trace.
    name
        Its title, as the page writes it.
    things
        What a row is, in the plural.
    rows
        [status, runtime_s, gpus, cpus, memory_gib, ...].
    cluster
        Column that says which rows belong together; None where the trace names nobody.
    about
        What the rows are and where their runtime comes from.
    sampled
        Of which sample they are, as a sentence to add; empty where they are all of the trace.
    """

    trace: str
    name: str
    things: str
    rows: pl.DataFrame
    cluster: str | None
    about: str
    sampled: str = ""

    @property
    def independence(self) -> str:
        """What is taken as independent, in words."""
        if self.cluster is None:
            return (
                "The trace names no user: rows are taken as independent, which hardly holds, and "
                "intervals are too narrow rather than too wide."
            )
        return (
            f"{self.rows['user'].n_unique():,} users (a task whose user is not known counts as one "
            "of its own) are taken as independent, their tasks are not."
        )


def read_populations(
    session: Context, /, *, what: str, missing_end: str = "drop"
) -> list[Population | Absent]:
    """Return PAI's tasks and openb's pods, or what would bring them.

    Parameters
    ----------
    session
        The store.
    what
        What is asked, for where a table is absent.
    missing_end
        What stands for a missing end of an instance of PAI's tasks.
    """
    parts: list[Population | Absent] = []
    lacking = [table for table in ("tasks", "instances") if not session.has(PAI, table)]
    if lacking:
        parts.append(session.absent(PAI, lacking[0], what=what))
    else:
        parts.append(_tasks(session, missing_end))
    if session.has(OPENB, "jobs"):
        parts.append(_pods(session))
    else:
        parts.append(session.absent(OPENB, "jobs", what=what))
    return parts


def tell_populations(
    session: Context,
    tell: Callable[[Population], Content],
    /,
    *,
    opening: str,
    what: str,
    missing_end: str = "drop",
) -> Content:
    """Return a section that tells of each population under a heading, or what would bring it.

    Parameters
    ----------
    session, what, missing_end
        As for :func:`read_populations`.
    tell
        What there is to tell of one.
    opening
        The section's first paragraph.
    """
    parts = (
        part if isinstance(part, Absent) else (f"{part.name}: {part.things}", tell(part))
        for part in read_populations(session, what=what, missing_end=missing_end)
    )
    return join_parts(opening, parts)


def pai_name(session: Context, /) -> str:
    """Return the title of the PAI trace, with its share where its tasks are a sample."""
    sample = session.once(task_sample, PAI)
    name = session.title(PAI)
    return name if sample is None else f"{name}, a sample of {share(sample.fraction)} of its tasks"


def pai_sampled(session: Context, /) -> str:
    """Return what to tell of the sample of PAI's tasks; nothing where all are analysed."""
    sample = session.once(task_sample, PAI)
    return "" if sample is None else f" All results are from a sample: {sample.description}."


def _tasks(session: Context, missing_end: str) -> Population:
    tasks = task_times(session, PAI, missing_end)
    user = pl.coalesce("user", pl.format("job {}", "job_id"))
    rows = tasks.hstack(session.once(task_owners, PAI).select("user")).with_columns(user)
    known = rows["runtime_s"].count()
    return Population(
        PAI,
        pai_name(session),
        "tasks",
        rows.drop("job_id"),
        "user",
        f"A task's runtime is the last end of its instances minus their first start, missing ends "
        f"treated by `{missing_end}` (see task runtimes): {known:,} of {rows.height:,} tasks have "
        f"one.{pai_sampled(session)}",
        pai_sampled(session),
    )


def _pods(session: Context) -> Population:
    rows = session.scan(OPENB, "jobs").collect()
    return Population(
        OPENB,
        session.title(OPENB),
        "pods",
        rows.with_columns(gpus_asked=_gpus_asked(rows["gpus"])),
        None,
        "A pod's runtime is its deletion minus its scheduling. A pod whose last phase is running "
        "was deleted while it ran: under the published reading that is a failure.",
    )


def _gpus_asked(gpus: pl.Series) -> pl.Series:
    """GPUs asked for as words, all shares of one GPU taken together."""
    frame = gpus.to_frame("gpus")
    name = (
        pl.when((pl.col("gpus") > 0) & (pl.col("gpus") < 1))
        .then(pl.lit("share of one"))
        .otherwise(pl.col("gpus").cast(pl.String).str.strip_suffix(".0"))
    )
    named = frame.with_columns(name=name)
    order = named.drop_nulls("gpus").sort("gpus")["name"].unique(maintain_order=True)
    return named["name"].cast(pl.Enum(order))
