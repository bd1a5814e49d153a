"""The report's sections, in order. A new one is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.report.blocks import Content
    from traceana.report.material import Material


@dataclass(frozen=True)
class Section:
    """A section: its name in addresses, its title, what builds it, and which figures it draws.

    Those that ask for PAI's tasks, a row each, share them in one process: several would hold and
    reduce them several times.
    """

    id: str
    title: str
    build: Callable[[Material], Content]
    figures: tuple[str, ...] = ()
    of_tasks: bool = False


def later(module: str, /) -> Callable[[Material], Content]:
    """Return the `build` of a file of this folder, which is imported when a section is built.

    A report whose sections are all kept from an earlier run needs none of what they import.
    """

    def build(material: Material) -> Content:
        content: Content = import_module(f"{__name__}.{module}").build(material)
        return content

    return build


SECTIONS: Final = (
    Section("reading", "What was read, and what was rejected", later("reading")),
    Section("traces", "The traces", later("traces")),
    Section(
        "variation",
        "Variation between workers",
        later("variation"),
        ("worker-times", "cov", "batch-time-ecdf", "cov-ecdf"),
    ),
    Section("stragglers", "Stragglers", later("stragglers"), ("straggler-map",)),
    Section(
        "workload",
        "Workload",
        later("workload"),
        ("arrivals", "interarrivals", "gpu-demand", "concentration"),
    ),
    Section("task-runtimes", "Task runtimes", later("task_runtimes"), of_tasks=True),
    Section(
        "outcomes",
        "Runtime and outcomes",
        later("outcomes"),
        ("runtime-by", "outcome-rates"),
        of_tasks=True,
    ),
    Section(
        "failure-model",
        "Failure against several features",
        later("failure_model"),
        ("failure-odds", "failure-calibration"),
        of_tasks=True,
    ),
    Section(
        "competing-ends",
        "How much has ended, and how",
        later("competing_ends"),
        ("cumulative-incidence",),
        of_tasks=True,
    ),
    Section(
        "correlations",
        "Runtime against what was asked for",
        later("correlations"),
        ("runtime-against", "group-means"),
        of_tasks=True,
    ),
    Section(
        "distributions", "Distributions of runtimes", later("distributions"), ("distribution-fit",)
    ),
    Section(
        "runtime-ratio", "Runtime ratios", later("runtime_ratio"), ("runtime-ratio",), of_tasks=True
    ),
    Section(
        "energy",
        "Energy to accuracy",
        later("energy"),
        ("energy-savings", "energy-front", "batch-sweep"),
    ),
    Section(
        "recurring",
        "Recurring jobs",
        later("recurring"),
        ("regret", "recurring-choices", "recurring-savings"),
    ),
    Section(
        "batching",
        "Dynamic batching",
        later("batching"),
        ("batching-replay", "batching-iterations", "batching-trajectory", "batching-speedup"),
    ),
    Section("deadlines", "Deadlines", later("deadlines"), ("deadline-tightness", "throughput")),
    Section("claims", "Published statements, judged", later("claims"), of_tasks=True),
    Section("provenance", "Definitions and provenance", later("provenance")),
)
