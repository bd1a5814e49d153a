"""Figures of a workload, with the traces side by side: arrivals, demand, waits, concentration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.page.blocks import Drawing, drawing
from traceana.questions.workload.analyze import clock_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.questions.workload.analyze import Workload
    from traceana.store import Trace

Found = dict["Trace", "Workload"]
_HOUR_S: Final = 3600


def draw_shared(frames: Mapping[str, pl.DataFrame | None], /, figure: str, about: str,
                key: str = "", **options: object) -> list[Drawing]:  # fmt: skip
    """Draw the frames of several traces, by title, as lines on the same axes."""
    known = {title: frame for title, frame in frames.items() if frame is not None}
    if not known:
        return []
    lines = [frame.select(pl.lit(title).alias("trace"), pl.all()) for title, frame in known.items()]
    titles = "; ".join(known)
    return [drawing(figure, pl.concat(lines), trace=None, key=key or figure,
                    about=about, title=titles, **options)]  # fmt: skip


def draw_hours(found: Found, titles: dict[Trace, str], /) -> list[Drawing]:
    """Draw submissions by hour of the day; the clock is in the name if traces differ in it."""
    clocks = {trace: clock_name(trace.manifest) for trace in found}
    same = len(set(clocks.values())) == 1
    names = {
        trace: title if same else f"{title}, {clocks[trace] or 'own clock'}"
        for trace, title in titles.items()
    }
    clock = next(iter(clocks.values())) if same else "clock of each trace"
    return draw_shared(
        {names[trace]: one.hours for trace, one in found.items()},
        "arrivals",
        f"Jobs submitted by hour of the day, {clock}"
        if clock
        else "Jobs submitted by hour, modulo 24, on a clock whose time of day is unknown",
        clock=clock,
    )


def draw_demand(trace: Trace, title: str, found: Workload, /) -> list[Drawing]:
    """Draw the GPU demand of one trace with its window and capacity."""
    if found.demand is None:
        return []
    manifest, seen = trace.manifest, found.observation
    what = "GPUs requested by hour"
    if (found.demand["bin_start_s"].diff() > _HOUR_S).any():
        what = "GPUs requested by year"
    if found.starts_assumed:
        what += ", if every job had started when submitted (the trace has no start times)"
    return [
        drawing(
            "gpu-demand",
            found.demand,
            trace=trace,
            title=title,
            key=f"demand-{trace.id}",
            about=what,
            starts_assumed=found.starts_assumed,
            timezone=(manifest.timezone or "UTC") if manifest.absolute_times else None,
            window=(seen.start_s, seen.end_s) if seen else (None, None),
            capacity=found.capacity,
        )
    ]
