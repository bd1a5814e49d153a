"""Figures of the papers, and the command that draws each of them from a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from traceana.errors import DataError


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a paper."""

    shows: str
    """What it shows."""
    figure: str = ""
    """Id of ours; empty if the published data cannot show it."""
    options: str = ""
    """Options of ``traceana figures`` that choose it."""
    number: str = ""
    """Its number in the paper; empty where the source does not number its figures."""
    note: str = ""
    """How ours differs, or why there is none."""

    @property
    def command(self) -> str:
        """The command that draws it; empty if there is none."""
        return f"traceana figures {self.figure} {self.options}".rstrip() if self.figure else ""

    @property
    def answer(self) -> str:
        """The command and how its picture differs, or why there is none."""
        note = self.note if self.figure else f"not reproducible: {self.note}"
        return f"{self.command} ({note})" if self.figure and note else self.command or note


def _runtimes(feature: str, name: str, outcome: str, views: str = "") -> PublishedFigure:
    return PublishedFigure(
        f"mean runtime versus {name}, {outcome}",
        "runtime-against",
        f"--feature {feature} --outcome {outcome}",
        note=views,
    )


_VIEWS: Final = "all tasks and those below {:,} s, each on a linear and a logarithmic axis"
_FEATURES: Final = {
    "GPU type": "gpu_type",
    "GPU request (%)": "gpu_percent",
    "CPU request (%)": "cpu_percent",
    "memory request": "memory_gib",
    "task size": "n_instances",
}
_BY_TYPE: Final = "--feature gpu_type"
PUBLISHED: Final[dict[str, tuple[PublishedFigure, ...]]] = {
    "antman-minibatch": (
        PublishedFigure(
            "distribution of mini-batch time",
            "batch-time-ecdf",
            number="5b",
            note="each of the four published jobs is scaled to a maximum of 1,000",
        ),
        PublishedFigure("CoV of five sampled jobs", "cov"),
        PublishedFigure("distribution of CoV by job", "cov-ecdf"),
        *(
            PublishedFigure(
                f"mini-batch time of the ten workers of {job}", "worker-times", f"--job {job}"
            )
            for job in ("job_1", "job_2", "job_3", "job_4")
        ),
        PublishedFigure(
            "utilization and scheduling on the cluster, all figures but 5b",
            note="only mini-batch times of workers are published",
        ),
    ),
    "bytedance-stragglers": tuple(
        figure
        for job, group in {"AR": "the slowest workers", "ST": "the last stage"}.items()
        for figure in (
            PublishedFigure(
                f"slowdown of each worker, job {job}", "worker-slowdown", f"--job {job}"
            ),
            PublishedFigure(
                f"timeline, measured and ideal, job {job}",
                "step-timeline",
                f"--job {job}",
                note="the slowest step of one data-parallel rank; `traceana simulate operations "
                "--timeline` writes all",
            ),
            PublishedFigure(
                f"fraction of the slowdown explained by {group}, job {job}",
                "straggler-attributes",
                f"--job {job}",
                note="by compute time",
            ),
        )
    ),
    "pai": (
        _runtimes("gpu_percent", "GPU request (%)", "success"),
        _runtimes("gpu_percent", "GPU request (%)", "failure"),
        _runtimes("cpu_percent", "CPU request (%)", "success", _VIEWS.format(20_000)),
        _runtimes("cpu_percent", "CPU request (%)", "failure", _VIEWS.format(50_000)),
        _runtimes("memory_gib", "memory request", "success", _VIEWS.format(100_000)),
        _runtimes("memory_gib", "memory request", "failure", _VIEWS.format(20_000)),
        _runtimes("n_instances", "task size", "success"),
        _runtimes("n_instances", "task size", "failure"),
        *(
            PublishedFigure(
                f"mean runtime by GPU type, {outcome}",
                "runtime-by",
                f"{_BY_TYPE} --outcome {outcome}",
            )
            for outcome in ("success", "failure")
        ),
        *(
            PublishedFigure(f"failure rate by {name}", "outcome-rates", f"--feature {feature}")
            for name, feature in _FEATURES.items()
        ),
        PublishedFigure("distribution of runtime by GPU type", "empirical-distribution", _BY_TYPE),
        PublishedFigure(
            "distribution of the wait before launch by GPU type",
            "empirical-distribution",
            _BY_TYPE,
            note="the same command",
        ),
        PublishedFigure("submissions by hour of the day and by weekday", "arrivals"),
        PublishedFigure(
            "requested and used GPU, CPU and memory", "empirical-distribution", "--feature used"
        ),
        PublishedFigure("allocation of GPUs over time", "allocation-rate"),
        PublishedFigure("instances and GPU-hours over users and jobs", "concentration"),
        PublishedFigure(
            "waits under other scheduling policies",
            note="it needs the publisher's scheduler and predictions of runtimes; `traceana "
            "simulate deadlines` schedules jobs under simple policies",
        ),
    ),
    "fgd": (
        PublishedFigure("fragment versus requested GPUs", "placement-fragment", number="7a"),
        PublishedFigure(
            "fragment over free GPUs versus requested GPUs",
            "placement-fragment",
            number="7b",
            note="in percent of all GPUs, not of the free ones",
        ),
        PublishedFigure("allocated versus requested GPUs", "placement-allocated", number="9a"),
        *(
            PublishedFigure(
                f"allocated GPUs of lists with more {what}",
                "placement-allocated",
                number=number,
                note="of a list of the publisher, ingested as a trace of its own",
            )
            for number, what in (
                ("11", "jobs that share GPUs"),
                ("12", "jobs with several GPUs"),
                ("13", "jobs bound to a GPU type"),
                ("14", "jobs without GPUs"),
            )
        ),
    ),
    "zeus": (
        PublishedFigure(
            "energy by batch size, power limit and both on V100",
            "energy-savings",
            "--gpu v100",
        ),
        PublishedFigure(
            "energy versus time of librispeech on V100, with the Pareto front",
            "energy-front",
            "--gpu v100 --dataset librispeech",
        ),
        PublishedFigure("regret of a recurring job", "regret"),
        PublishedFigure("choices of a recurring job", "recurring-choices"),
        PublishedFigure("energy and time by batch size on V100", "batch-sweep", "--gpu v100"),
        PublishedFigure("energy by power limit on V100", "power-sweep", "--gpu v100"),
        PublishedFigure("runtime ratios by data set", "runtime-ratio"),
        PublishedFigure(
            "runtime ratios before and after the mapping",
            "ratio-distribution",
            note="of a trace with groups of jobs",
        ),
        PublishedFigure(
            "energy saved by data set and GPU",
            "energy-saved",
            note="simulated recurrences instead of measured ones",
        ),
        PublishedFigure(
            "drifting data (Capriccio), several GPUs per job, and profiling overhead",
            note="no run of these experiments is in the published traces",
        ),
    ),
    "itp-elasticflow": (
        PublishedFigure("throughput by number of GPUs", "throughput"),
        PublishedFigure("tightness of deadlines", "deadline-tightness"),
        PublishedFigure(
            "deadlines met by each scheduler",
            "deadlines-met",
            number="8b",
            note="groups with few jobs; `traceana simulate schedule` runs all; Chronus is left out",
        ),
        PublishedFigure(
            "deadlines met by each scheduler on T4 GPUs",
            number="8a",
            note="its trace is no public trace; `simulate_schedule` runs it with the T4 profiles",
        ),
        PublishedFigure("deadlines missed by simple policies", "missed-deadlines"),
    ),
    "dynamic-batching": (
        PublishedFigure("uniform, static and dynamic batching by cluster", "batching-clusters"),
        PublishedFigure("speedup by heterogeneity", "batching-speedup"),
        PublishedFigure("batch sizes over steps", "batching-trajectory"),
        PublishedFigure("iteration times of the workers", "batching-iterations"),
        PublishedFigure(
            "loss and accuracy over time",
            note="no measurement is published; the model has relative times only",
        ),
    ),
}
"""By the name of the paper, as ``traceana claims --paper`` takes it."""


def figures_of(paper: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figures of a paper, those with a number first.

    Raises a DataError if there is no such paper; the message lists the papers.
    """
    if paper not in PUBLISHED:
        raise DataError(f"no paper is called {paper!r}; the papers are {', '.join(PUBLISHED)}")
    return PUBLISHED[paper]
