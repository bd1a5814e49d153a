"""How much has ended by each runtime, and in which way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.analysis import EndCurves, cumulative_incidence, kaplan_meier, rows_at_risk
from traceana.errors import DataError
from traceana.report.blocks import (
    DASH,
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    make_table,
    notes,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.populations import PAI, Population, tell_populations
from traceana.results.formatting import count, seconds, seconds_range, share, share_range

if TYPE_CHECKING:
    from traceana.report.context import Context

_POLICY: Final = "running"
_HOUR_S: Final = 3600
_HOURS: Final = (1, 24)
_EVENTS: Final = {PAI: ("completed", "failed")}
_OPENB_EVENTS: Final = ("completed", "failed", "running")

_OPENING: Final = (
    "What failed cannot complete any more: ways to end compete. The cumulative incidence "
    "of one is the share of all rows that has ended that way by a runtime; over all ways "
    "it adds up to what has ended at all. What was last seen running counts as at risk "
    "until then (censored) and not as an end. Rows of which neither an end nor such a time "
    "is known are left out and counted; where ends of one kind were lost more often than "
    "of another, the curves are of what is left."
)


def build(session: Context) -> Content:
    """Tell and draw the cumulative incidence of each end."""
    return tell_populations(
        session, _tell, opening=_OPENING, what="How much has ended", missing_end=_POLICY
    )


def _tell(population: Population) -> Content:
    by, heading = ("gpu_type", "GPU type") if population.trace == PAI else ("qos", "QoS class")
    events = _EVENTS.get(population.trace, _OPENB_EVENTS)
    note = (
        "Of a task whose last status is running, instances without an end run to the trace's end "
        "(policy `running`), where it is censored."
        if population.trace == PAI
        else "Here it is a third way to end: such a pod was taken down."
    )
    try:
        ends = cumulative_incidence(population.rows, by=by, events=events)
        medians = kaplan_meier(population.rows, by=by, events=events)
    except DataError as error:
        return Content((), (Text(f"Curves cannot be told: {error}."),))
    blocks: tuple[Block, ...] = (
        Text(f"{population.about} {note} Rows are taken as independent in every interval here."),
        _lost(population, by, heading),
        _incidence_table(ends, population, by, heading),
        _medians(medians.groups, population, by, heading),
        Gallery(tuple(_pictures(ends, population, by, heading))),
    )
    return Content(tuple(_findings(ends, population, by, heading)), blocks)


def _lost(population: Population, by: str, heading: str) -> Table:
    """Rows without a known time, by how they ended: whom the curves leave out."""
    status = pl.col("status")
    lost = (
        population.rows.group_by(by)
        .agg(
            **{
                f"{word} {part}": (status == word).sum()
                if part == "all"
                else ((status == word) & pl.col("runtime_s").is_null()).sum()
                for word in ("completed", "failed", "running")
                for part in ("all", "out")
            }
        )
        .sort(by, nulls_last=True)
    )
    return make_table(
        lost,
        [
            words(heading, by),
            *(
                Column(f"{word.capitalize()}, left out", (f"{word} out", f"{word} all"), _out_of)
                for word in ("completed", "failed", "running")
            ),
        ],
        caption=f"Rows left out for want of a time, by status. {population.name}",
    )


def _out_of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if whole else DASH


def _incidence_table(ends: EndCurves, population: Population, by: str, heading: str) -> Table:
    table = ends.groups
    for hours in _HOURS:
        reached = _at(ends, by, hours * _HOUR_S).select(
            by,
            "event",
            *(pl.col(name).alias(f"{name} {hours}") for name in ("incidence", "ci_low", "ci_high")),
        )
        table = table.join(
            reached, on=[by, "event"], how="left", nulls_equal=True, maintain_order="left"
        )
    return make_table(
        table,
        [
            words(heading, by),
            words("Ended", "event"),
            Column("Rows", "n", count),
            Column("Ended so", "n_events", count),
            Column("Censored", "n_censored", count),
            Column("Left out", "n_left_out", count),
            *(
                column
                for hours in _HOURS
                for column in (
                    Column(f"Within {hours} h", f"incidence {hours}", share),
                    Column("95 % interval", (f"ci_low {hours}", f"ci_high {hours}"), share_range),
                )
            ),
            Column("At the last", "incidence", share),
            Column("95 % interval", ("ci_low", "ci_high"), share_range),
            Column("Last time (s)", "last_s", seconds),
        ],
        caption=f"Cumulative incidence of each end of {population.things} by {heading}. "
        f"{population.name}",
    )


def _at(ends: EndCurves, by: str, time_s: float) -> pl.DataFrame:
    """Return the last step of each curve up to a time, 0 where there is none yet."""
    last = (
        ends.curves.filter(pl.col("time_s") <= time_s)
        .group_by(by, "event", maintain_order=True)
        .last()
    )
    seen = ends.groups.filter(pl.col("n_events") > 0).select(by, "event")
    return seen.join(last, on=[by, "event"], how="left", nulls_equal=True).with_columns(
        pl.col("incidence").fill_null(0.0)
    )


def _medians(groups: pl.DataFrame, population: Population, by: str, heading: str) -> Table:
    return make_table(
        groups,
        [
            words(heading, by),
            Column("Rows", "n", count),
            Column("Ended", "n_events", count),
            Column("Censored", "n_censored", count),
            Column("Median (s)", "median_s", seconds),
            Column("95 % interval (s)", ("ci_low", "ci_high"), seconds_range),
            *notes(groups),
        ],
        caption=f"Median time to any end of {population.things} by {heading} (Kaplan and Meier). "
        f"{population.name}",
    )


def _pictures(ends: EndCurves, population: Population, by: str, heading: str) -> list[Drawing]:
    pictures = []
    at_risk = rows_at_risk(population.rows, _decades(ends.curves), by=by)
    for (event,), groups in ends.groups.group_by("event", maintain_order=True):
        curve = ends.curves.filter(event=event)
        if not (curve["time_s"] > 0).any():
            continue
        pictures.append(
            drawing(
                "cumulative-incidence",
                groups,
                trace=population.trace,
                title=population.name,
                key=f"ends-{event}-{population.trace}",
                about=f"Share of {population.things} that ended {event}, by {heading}",
                curves=ends.curves,
                at_risk=at_risk,
            )
        )
    return pictures


def _decades(curves: pl.DataFrame) -> list[float]:
    """Return powers of ten within the times of the curves, four at most."""
    times = curves.filter(pl.col("time_s") > 0)["time_s"]
    if times.is_empty():
        return []
    low, high = (math.log10(end) for end in (min(times), max(times)))
    first, last = math.ceil(low), math.floor(high)
    step = max(1, math.ceil((last - first + 1) / 4))
    return [10.0**power for power in range(first, last + 1, step)]


def _findings(ends: EndCurves, population: Population, by: str, heading: str) -> list[str]:
    hours = _HOURS[-1]
    failed = (
        _at(ends, by, hours * _HOUR_S)
        .filter(pl.col(by).is_not_null(), event="failed")
        .drop_nulls(["incidence", "ci_low"])
        .sort("incidence")
    )
    if failed.height < 2:
        return []
    low, high = failed.row(0, named=True), failed.row(-1, named=True)
    told = (
        f"{population.name}: within {hours} h of running, {_told(high, by)} and {_told(low, by)} "
        f"have failed, the most and the least by {heading}, of {population.things} whose end or "
        "last sight is known."
    )
    return [told]


def _told(row: dict[str, Any], by: str) -> str:
    return f"{share(row['incidence'])} ({share_range(row['ci_low'], row['ci_high'])}) of {row[by]}"


SECTION = Section(
    "competing-ends",
    "How much has ended, and how",
    90,
    build,
    figures=("cumulative-incidence",),
    of_tasks=True,
)
