"""The report's sections, in order. A new one is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceana.report.sections import (
    batching,
    claims,
    competing_ends,
    correlations,
    deadlines,
    distributions,
    energy,
    failure_model,
    outcomes,
    provenance,
    reading,
    recurring,
    runtime_ratio,
    stragglers,
    task_runtimes,
    traces,
    variation,
    workload,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.report.blocks import Content
    from traceana.report.material import Material


@dataclass(frozen=True)
class Section:
    """A section: its name in addresses, its title, what builds it, and which figures it draws."""

    id: str
    title: str
    build: Callable[[Material], Content]
    figures: tuple[str, ...] = ()


SECTIONS: Final = (
    Section("reading", "What was read, and what was rejected", reading.build),
    Section("traces", "The traces", traces.build),
    Section(
        "variation",
        "Variation between workers",
        variation.build,
        ("worker-times", "cov", "batch-time-ecdf", "cov-ecdf"),
    ),
    Section("stragglers", "Stragglers", stragglers.build, ("straggler-map",)),
    Section("workload", "Workload", workload.build, ("arrivals", "gpu-demand", "concentration")),
    Section("task-runtimes", "Task runtimes", task_runtimes.build),
    Section("outcomes", "Runtime and outcomes", outcomes.build, ("runtime-by", "outcome-rates")),
    Section(
        "failure-model",
        "Failure against several features",
        failure_model.build,
        ("failure-odds", "failure-calibration"),
    ),
    Section(
        "competing-ends",
        "How much has ended, and how",
        competing_ends.build,
        ("cumulative-incidence",),
    ),
    Section(
        "correlations",
        "Runtime against what was asked for",
        correlations.build,
        ("runtime-against", "group-means"),
    ),
    Section(
        "distributions", "Distributions of runtimes", distributions.build, ("distribution-fit",)
    ),
    Section("runtime-ratio", "Runtime ratios", runtime_ratio.build, ("runtime-ratio",)),
    Section(
        "energy",
        "Energy to accuracy",
        energy.build,
        ("energy-savings", "energy-front", "batch-sweep"),
    ),
    Section(
        "recurring",
        "Recurring jobs",
        recurring.build,
        ("regret", "recurring-choices", "recurring-savings"),
    ),
    Section(
        "batching",
        "Dynamic batching",
        batching.build,
        ("batching-replay", "batching-iterations", "batching-trajectory", "batching-speedup"),
    ),
    Section("deadlines", "Deadlines", deadlines.build, ("deadline-tightness", "throughput")),
    Section("claims", "Published statements, judged", claims.build),
    Section("provenance", "Definitions and provenance", provenance.build),
)
