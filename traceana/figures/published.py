"""Figures of the papers, and the command that draws each of them from a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from traceana.errors import DataError


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a paper.

    Attributes
    ----------
    name
        Its number, where the source numbers its figures, and what it shows.
    figure
        Id of ours.
    options
        Options of ``traceana figures`` that choose it.
    """

    name: str
    figure: str
    options: str = ""

    @property
    def command(self) -> str:
        """The command that draws it."""
        return f"traceana figures {self.figure} {self.options}".rstrip()


_RUNTIME: Final = "runtime-against"
_FEATURES: Final = {
    "GPU request (%)": "gpu_percent",
    "CPU request (%)": "cpu_percent",
    "memory request": "memory_gib",
    "task size": "task_size",
}
PUBLISHED: Final[dict[str, tuple[PublishedFigure, ...]]] = {
    "antman-minibatch": (
        PublishedFigure("Fig. 5b: distribution of mini-batch time", "batch-time-ecdf"),
        PublishedFigure("CoV of five sampled jobs", "cov"),
        PublishedFigure("distribution of CoV by job", "cov-ecdf"),
        *(
            PublishedFigure(
                f"mini-batch time of the ten workers of {job}", "worker-times", f"--job {job}"
            )
            for job in ("job_1", "job_2", "job_3", "job_4")
        ),
    ),
    "bytedance-stragglers": tuple(
        PublishedFigure(
            f"fraction of the slowdown explained by {group}, job {job}",
            "straggler-attributes",
            f"--job {job}",
        )
        for job, group in {"AR": "the slowest workers", "ST": "the last stage"}.items()
    ),
    "pai": (
        *(
            PublishedFigure(
                f"mean runtime versus {name}, {outcome}",
                _RUNTIME,
                f"--feature {feature} --outcome {outcome}",
            )
            for name, feature in _FEATURES.items()
            for outcome in ("success", "failure")
        ),
        PublishedFigure("mean runtime by GPU type", "runtime-by", "--feature gpu_type"),
        *(
            PublishedFigure(f"failure rate by {name}", "outcome-rates", f"--feature {feature}")
            for name, feature in {"GPU type": "gpu_type", **_FEATURES}.items()
        ),
    ),
    "zeus": (
        PublishedFigure(
            "energy versus time of librispeech on V100, with the Pareto front",
            "energy-front",
            "--gpu v100 --dataset librispeech",
        ),
        PublishedFigure(
            "energy by batch size, power limit and both on V100", "energy-savings", "--gpu v100"
        ),
        PublishedFigure("energy and time by batch size on V100", "batch-sweep", "--gpu v100"),
        PublishedFigure("regret of a recurring job", "regret"),
        PublishedFigure("choices of a recurring job", "recurring-choices"),
        PublishedFigure("runtime ratios by data set", "runtime-ratio"),
    ),
    "itp-elasticflow": (
        PublishedFigure("throughput by number of GPUs", "throughput"),
        PublishedFigure("tightness of deadlines", "deadline-tightness"),
    ),
    "dynamic-batching": (
        PublishedFigure("uniform, static and dynamic batching by cluster", "batching-clusters"),
        PublishedFigure("speedup by heterogeneity", "batching-speedup"),
        PublishedFigure("batch sizes over steps", "batching-trajectory"),
        PublishedFigure("iteration times of the workers", "batching-iterations"),
    ),
}
"""By the name of the paper, as ``traceana claims --paper`` takes it."""


def figures_of(paper: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figures of a paper.

    Raises
    ------
    DataError
        If there is no such paper; the message lists the papers.
    """
    if paper not in PUBLISHED:
        raise DataError(f"no paper is called {paper!r}; the papers are {', '.join(PUBLISHED)}")
    return PUBLISHED[paper]
