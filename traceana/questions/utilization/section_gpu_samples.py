"""Section on what monitors of GPUs measured: idle GPU-hours by user, utilization by job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from traceana.page.blocks import Block, Content, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.utilization.gpu_samples import SHOWN_GROUPS, analyze_gpu_samples
from traceana.questions.utilization.tables import SampledUsage
from traceana.store import Trace
from traceana.tables.formatting import hours, share


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
        if "user" in result:
            first = result["user"].drop_nulls("user").row(0, named=True)
            findings.append(
                f"{trace.label}: user {first['user']} had the most idle GPU-hours, "
                f"{hours(first['idle_gpu_hours'])} of {hours(first['gpu_hours'])}."
            )
        blocks.append(
            result_table(result[""], SampledUsage, caption=f"Sampled use of GPUs. {trace.label}")
        )
        names: dict[str, Any] = {"headings": {"user": "User", "job_id": "Job"}}
        names["null"] = {"user": "no job, or several", "job_id": ""}
        for by, order in (("user", "most idle GPU-hours"), ("job", "most GPU-hours")):
            if by in result:
                about = f"Sampled use of GPUs by {by} ({SHOWN_GROUPS} with the {order} at most)"
                options = names | {"caption": f"{about}. {trace.label}", "folded": by == "job"}
                blocks.append(result_table(result[by], SampledUsage, **options))
    return Content(
        tuple(findings),
        tuple(blocks),
        limitations="A GPU is idle if no kernel ran; one kernel that uses a part of it counts as "
        "in use. A sample of a machine with several jobs at once is assigned to none of them, "
        "unless the monitor records the job.",
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
