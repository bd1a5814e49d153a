"""Section on what monitors of GPUs measured: idle GPU-hours by user, utilization by job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from traceana.page.blocks import Block, Content, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.utilization.gpu_samples import SHOWN_GROUPS, analyze_gpu_samples
from traceana.questions.utilization.tables import SampledUsage
from traceana.store import Trace
from traceana.tables.formatting import hours, share

_OWNERS: Final = {"user": "user", "job_id": "job"}
_MOSTLY: Final = 0.5


def build(traces: Sequence[Trace]) -> Content:
    """Show the sampled usage of the GPUs of each trace."""
    findings, blocks = list[str](), list[Block]()
    for trace in traces:
        result = trace.once(analyze_gpu_samples)
        row = result[""].row(0, named=True)
        if row["utilization_mean"] is None:
            continue
        sentence = (
            f"{trace.label}: {share(row['fraction_idle'])} of {hours(row['gpu_hours'])} sampled "
            f"GPU-hours were idle (utilization below 1 %); the mean utilization was "
            f"{share(row['utilization_mean'])} (n = {row['n']:,} samples of {row['gpus']:,} GPUs)."
        )
        heading = f"{trace.label}: {share(row['fraction_idle'])} of the sampled GPU-hours were idle"
        findings.append(Finding(sentence, heading=heading))
        for by in [by for by in _OWNERS if by in result][:1]:
            findings += _idlest(trace.label, _OWNERS[by], by, result[by].drop_nulls(by).head(1))
        blocks.append(
            result_table(result[""], SampledUsage, caption=f"Sampled use of GPUs. {trace.label}")
        )
        names: dict[str, Any] = {"headings": {"user": "User", "job_id": "Job"}}
        names["null"] = {"user": "no job, or several", "job_id": ""}
        for by, owner in _OWNERS.items():
            if by in result:
                about = (
                    f"Sampled use of GPUs by {owner} ({SHOWN_GROUPS} with the most idle GPU-hours"
                )
                options = names | {"caption": f"{about} at most). {trace.label}"}
                blocks.append(
                    result_table(result[by], SampledUsage, folded=by == "job_id", **options)
                )
    return Content(
        tuple(findings),
        tuple(blocks),
        limitations="A GPU is idle if no kernel ran; one kernel that uses a part of it counts as "
        "in use. A sample of a machine with several jobs at once is assigned to none of them, "
        "unless the monitor records the job.",
    )


def _idlest(title: str, owner: str, by: str, first: pl.DataFrame) -> Iterator[Finding]:
    """State whose GPUs were idle longest, as an alert where they mostly were."""
    for row in first.filter(pl.col("idle_gpu_hours") > 0).rows(named=True):
        part, held = share(row["fraction_idle"]), hours(row["gpu_hours"])
        alert = f"{title}: {owner} {row[by]} left {part} of {held} GPU-hours idle"
        yield Finding(
            f"{title}: {owner} {row[by]} had the most idle GPU-hours, "
            f"{hours(row['idle_gpu_hours'])} of {held} ({part}).",
            cost_gpu_h=row["idle_gpu_hours"],
            alert=alert if row["fraction_idle"] > _MOSTLY else "",
        )


SECTION = Section(
    "gpu-samples",
    "Sampled use of GPUs",
    70,
    build,
    needs=({"gpu_samples": ("utilization",)},),
    part="Utilization",
    question="How much of the GPU time was idle, and whose was it?",
)
