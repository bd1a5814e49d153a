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
    """A section: its name in addresses, its title, and what builds it."""

    id: str
    title: str
    build: Callable[[Material], Content]


SECTIONS: Final = (
    Section("reading", "What was read, and what was rejected", reading.build),
    Section("traces", "The traces", traces.build),
    Section("variation", "Variation between workers", variation.build),
    Section("stragglers", "Stragglers", stragglers.build),
    Section("workload", "Workload", workload.build),
    Section("task-runtimes", "Task runtimes", task_runtimes.build),
    Section("outcomes", "Runtime and outcomes", outcomes.build),
    Section("failure-model", "Failure against several features", failure_model.build),
    Section("competing-ends", "How much has ended, and how", competing_ends.build),
    Section("correlations", "Runtime against what was asked for", correlations.build),
    Section("distributions", "Distributions of runtimes", distributions.build),
    Section("runtime-ratio", "Runtime ratios", runtime_ratio.build),
    Section("deadlines", "Deadlines", deadlines.build),
    Section("energy", "Energy to accuracy", energy.build),
    Section("recurring", "Recurring jobs", recurring.build),
    Section("batching", "Dynamic batching", batching.build),
    Section("claims", "Published statements, judged", claims.build),
    Section("provenance", "Definitions and provenance", provenance.build),
)
