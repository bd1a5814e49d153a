"""Figures of a workload: arrivals, interarrival times, GPU demand and concentration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.derived.workload import clock_name
from traceana.report.blocks import Block, Drawing, Gallery, Text, drawing
from traceana.results.display import key_heading
from traceana.results.formatting import in_sentence

if TYPE_CHECKING:
    from traceana.derived.workload import Workload
    from traceana.report.context import Context

_OWN_CLOCK: Final = (
    "Times are seconds since the beginning of the data collection. The local time of that "
    "beginning is not known, so hours are those of the trace's own days and weekdays have no names."
)


def draw_shape(session: Context, trace: str, found: Workload, /) -> list[Block]:
    """Draw what the columns of the trace allow."""
    manifest = session.manifest(trace)
    clock = clock_name(manifest)
    about = clock or "on the trace's own clock"
    pictures = [
        drawing(
            "arrivals",
            rhythm,
            trace=trace,
            key=f"arrivals-{per}-{trace}",
            about=f"Jobs submitted by {per}, {about}",
            clock=clock,
        )
        for per, rhythm in zip(("hour", "weekday"), found.rhythms, strict=False)
    ]
    if found.curve is not None:
        pictures.append(
            drawing(
                "interarrivals",
                found.curve,
                trace=trace,
                key=f"interarrivals-{trace}",
                about="Times between submissions",
            )
        )
    pictures += _sized(session, trace, found)
    for name, curve, about in (
        ("runtime", found.runtimes, "Runtime"),
        ("wait", found.waits, "Time from submission to start"),
    ):
        if curve is not None:
            by = f" by {in_sentence(key_heading(found.by))}" if found.by else ""
            pictures.append(
                drawing(
                    "empirical-distribution",
                    curve,
                    trace=trace,
                    key=f"{name}-distribution-{trace}",
                    about=f"Distribution of jobs: {in_sentence(about)}{by}",
                    x_label=f"{about} (s)",
                    heading=f"{about}{by}",
                )
            )
    if not pictures:
        return []
    note = manifest.clock_note or ("" if clock else _OWN_CLOCK)
    return [*([Text(note)] if note else []), Gallery(tuple(pictures))]


def _sized(session: Context, trace: str, found: Workload) -> list[Drawing]:
    pictures = []
    if found.demand is not None:
        manifest = session.manifest(trace)
        assumed = ", if every job had started when submitted (the trace has no start times)"
        pictures.append(
            drawing(
                "gpu-demand",
                found.demand,
                trace=trace,
                key=f"demand-{trace}",
                about=f"GPUs requested by hour{assumed if found.starts_assumed else ''}",
                starts_assumed=found.starts_assumed,
                timezone=(manifest.timezone or "UTC") if manifest.absolute_times else None,
            )
        )
    if found.lorenz is not None and found.concentration is not None:
        sizes = found.concentration.total.row(0, named=True)
        pictures.append(
            drawing(
                "concentration",
                found.lorenz.total,
                trace=trace,
                key=f"concentration-{trace}",
                about=f"GPU-hours over jobs, n = {sizes['n']:,} of {sizes['jobs']:,} jobs with "
                "GPU-hours",
                groups=found.lorenz.groups,
            )
        )
    return pictures
