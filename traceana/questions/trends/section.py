"""Section on trends: what ran by period, outages, and changes of level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceana.page.blocks import (
    Block,
    Content,
    drawing,
    join_parts,
    picture_key,
    result_table,
    small_multiples,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.trends.analyze import NEEDS, Found, trends_of
from traceana.questions.trends.tables import ClusterUtilization, LevelChanges, Outages, Trends
from traceana.store import distinct_traces
from traceana.tables.formatting import duration, plural, share, share_range, three_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.store import Trace

_OPENING: Final = (
    "Use is by overlap with the period. A job counts where it is submitted, its wait where it "
    "starts, its runtime and status where it ends."
)
_LIMITATIONS: Final = (
    "Outages and changes of level are tested at 1 % each; 3 of 100 simulated logs without one had "
    "a false one. Changes shorter than three days, or of waits and demand, are not tested."
)
_PANELS: Final = (
    *("jobs", "users", "gpu_hours", "cpu_hours", "utilization", "wait_s_median"),
    *("runtime_s_median", "failure_rate"),
)
_MOST_PANELS: Final = 8
_NOTICED: Final = 0.05


def build(traces: Sequence[Trace]) -> Content:
    """Show the trends of each trace, its outages and changes of level."""
    return join_parts(_OPENING, ((one.label, _trace(one)) for one in distinct_traces(traces)))


def _trace(trace: Trace) -> Content:
    found, title = trace.once(trends_of), trace.label
    panels = [
        drawing(
            "trends", found.trends, trace=trace, key=picture_key(f"trends-{name}", trace),
            about="Trends", measure=name, timezone=found.timezone,
        )
        for name in _PANELS
        if found.trends[name].count()
    ][:_MOST_PANELS]  # fmt: skip
    gallery = small_multiples(
        panels, key=picture_key("trends", trace), about="Trends by period", columns=2, share_x=True,
        heights_in=(1.5,) * -(-len(panels) // 2),
    )  # fmt: skip
    columns = [
        name for name in found.trends.columns
        if name not in ("start_s", "end_s") and found.trends[name].count()
    ]  # fmt: skip
    table = result_table(
        found.trends, Trends, caption=f"Trends by period. {title}", columns=columns,
        folded=found.trends.height > 12,
    )  # fmt: skip
    blocks: list[Block] = [table]
    if found.capacity is not None:
        shown = [name for name in ("period", "gpus", "gpu_hours", "allocated", "down", "idle")
                 if found.capacity[name].count()]  # fmt: skip
        caption = f"GPUs allocated, down and idle. {title}"
        blocks.append(
            result_table(
                found.capacity, ClusterUtilization, caption=caption, columns=shown, folded=True
            )
        )
    if found.outages.height:
        blocks.append(result_table(found.outages, Outages, caption=f"Outages. {title}"))
    if found.changes.height:
        caption = f"Changes of level of comparable jobs. {title}"
        blocks.append(result_table(found.changes, LevelChanges, caption=caption))
    findings = (
        *(_outage(row, title) for row in found.outages.iter_rows(named=True)),
        *(_change(row, title) for row in found.changes.iter_rows(named=True)),
    )
    if not findings:
        findings = (
            Finding(
                _none(found, title),
                certainty="cannot tell",
                heading=f"{title}: no outage and no change of runtimes or failures",
            ),
        )
    return Content(findings, tuple(blocks), findings[0], (gallery,), _LIMITATIONS)


def _none(found: Found, title: str) -> str:
    rows = found.trends
    return (
        f"{title}: no outage and no change of level of runtimes or failure rates is found in "
        f"{plural(rows.height, 'period')} ({rows['period'][0]} to {rows['period'][-1]}; "
        f"{int(rows['jobs'].sum()):,} jobs)."
    )


def _outage(row: dict[str, Any], title: str) -> Finding:
    lasted = row["duration_s"] / 3600
    hours = f"{lasted:.0f} h" if lasted >= 10 else duration(row["duration_s"])
    text = f"no job ran from {row['begin']} for {hours}"
    lost = row["gpu_hours_lost"] or 0.0
    cost = f", {three_digits(lost)} GPU-hours at the usual demand" if lost else ""
    return Finding(
        f"{title}: {text}{cost}.",
        effect=row["duration_s"],
        cost_gpu_h=lost,
        cost_jobs=row["jobs_lost"],
        alert=f"Outage: {text}",
        heading=f"{title}: {text}",
    )


def _change(row: dict[str, Any], title: str) -> Finding:
    worse, size = row["effect"] > 0, abs(row["effect"])
    low, high = sorted((abs(row["ci_low"]), abs(row["ci_high"])))
    if row["ci_low"] * row["ci_high"] < 0:
        low, high = row["ci_low"], row["ci_high"]
    until = "on" if row["end_s"] is None else f"for {duration(row['end_s'] - row['start_s'])}"
    if row["measure"] == "runtime":
        what = f"median runtime of comparable jobs {share(size)} {'longer' if worse else 'shorter'}"
    else:
        points = "higher" if worse else "lower"
        what = f"failure rate of comparable jobs {100 * size:.2g} percentage points {points}"
    interval = share_range(low, high)
    text = f"{what} (95 % CI {interval}) from {row['begin']} {until}"
    # fraction of the jobs' hours that the change added
    part = size / (1 + size) if row["measure"] == "runtime" else size
    certain = worse and size >= _NOTICED
    return Finding(
        f"{title}: {text} (n = {row['n']:,} and {row['n_rest']:,} jobs in "
        f"{row['strata']:,} strata of user, name and size).",
        effect=row["effect"],
        interval=(row["ci_low"], row["ci_high"]),
        n=row["n"],
        cost_gpu_h=row["gpu_hours"] * part if worse else 0.0,
        cost_jobs=row["n"] * part if worse else 0.0,
        certainty="estimated",
        alert=f"{what[:1].upper()}{what[1:]} from {row['begin']} {until}" if certain else "",
        heading=f"{title}: {what} from {row['begin']}",
    )


SECTION = Section(
    "trends",
    "Trends",
    15,
    build,
    needs=NEEDS,
    figures=("trends", "small-multiples"),
    part="Workload",
    question="How did use, waits, runtimes and failures change, and since when?",
)
