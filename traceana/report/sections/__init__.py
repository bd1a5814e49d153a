"""The report's sections, in order. A new one is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceana.report.sections import (
    energy,
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
        ("worker-times", "cov", "cov-ecdf"),
    ),
    Section("stragglers", "Stragglers", stragglers.build, ("straggler-map",)),
    Section("workload", "Workload", workload.build, ("arrivals", "gpu-demand")),
    Section("task-runtimes", "Task runtimes", task_runtimes.build),
    Section("outcomes", "Runtime and outcomes", outcomes.build, ("runtime-by", "outcome-rates")),
    Section("runtime-ratio", "Runtime ratios", runtime_ratio.build, ("runtime-ratio",)),
    Section("energy", "Energy to accuracy", energy.build, ("energy-savings", "energy-front")),
    Section("recurring", "Recurring jobs", recurring.build, ("regret", "recurring-choices")),
    Section("provenance", "Definitions and provenance", provenance.build),
)
