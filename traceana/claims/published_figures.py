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
    "alibaba-minibatch-2020": (
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
            number="1",
        ),
        PublishedFigure(
            "energy versus time of librispeech on V100, with the Pareto front",
            "energy-front",
            "--gpu v100 --dataset librispeech",
            number="2a",
        ),
        PublishedFigure(
            "energy and time of Zeus, grid search and the default over six data sets",
            "energy-saved",
            number="6",
            note="simulated recurrences; the energy only",
        ),
        PublishedFigure(
            "regret of a recurring job, librispeech",
            "regret",
            note="of the data set that the report shows",
            number="7a",
        ),
        PublishedFigure(
            "regret of a recurring job, imagenet",
            "regret",
            note="of the data set that the report shows",
            number="7b",
        ),
        PublishedFigure(
            "search path of a recurring job, librispeech",
            "recurring-choices",
            number="8",
            note="of the data set of the report; choices over recurrences, no map of regret",
        ),
        PublishedFigure(
            "energy and time of the Alibaba groups",
            number="9",
            note="it needs alibaba_groups.csv.xz; `traceana simulate recurring --groups` has the "
            "numbers",
        ),
        PublishedFigure(
            "optima of the weight of energy on the front",
            "energy-front",
            "--gpu v100 --dataset librispeech",
            number="11",
            note="the front alone, without the optima",
        ),
        PublishedFigure(
            "geometric mean of energy by beta",
            number="12",
            note="no figure; `sweep_recurring` takes beta",
        ),
        PublishedFigure(
            "ablation of the policy",
            number="13",
            note="the policy has no option that leaves a part of it out",
        ),
        PublishedFigure(
            "energy of Zeus on four GPUs",
            "energy-saved",
            number="14",
            note="by data set; the published one has geometric means",
        ),
        *(
            PublishedFigure(
                f"energy by batch size, power limit and both on {gpu.upper()}",
                "energy-savings",
                f"--gpu {gpu}",
                number=f"15{part}",
            )
            for part, gpu in zip("abc", ("a40", "rtx6000", "p100"), strict=True)
        ),
        PublishedFigure("energy and time by batch size on V100", "batch-sweep", "--gpu v100"),
        PublishedFigure("energy by power limit on V100", "power-sweep", "--gpu v100"),
        PublishedFigure("runtime ratios by data set", "runtime-ratio"),
        PublishedFigure(
            "runtime ratios before and after the mapping",
            "ratio-distribution",
            note="of a trace with groups of jobs",
        ),
        PublishedFigure(
            "drifting data (Capriccio), several GPUs per job, and profiling overhead",
            number="10",
            note="no run of these experiments is in the published traces",
        ),
    ),
    "itp-elasticflow": (
        PublishedFigure("throughput by number of GPUs", "throughput", number="2a"),
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
            note="`simulate_schedule` with the files of the artifact has the printed fractions of "
            "EDF, Tiresias and ElasticFlow",
        ),
        PublishedFigure("deadlines missed by simple policies", "missed-deadlines"),
    ),
    "dynamic-batching": (
        PublishedFigure(
            "time on heterogeneous workers relative to equal ones", "batching-clusters", number="1"
        ),
        PublishedFigure("iteration times of the workers", "batching-iterations", number="3"),
        PublishedFigure("batch sizes over steps", "batching-trajectory", number="4"),
        PublishedFigure("speedup by heterogeneity", "batching-speedup", number="6"),
        PublishedFigure(
            "uniform, static and dynamic batching by cluster",
            "batching-clusters",
            number="7",
            note="relative times of the model",
        ),
        PublishedFigure(
            "loss and accuracy over time",
            note="no measurement is published; the model has relative times only",
        ),
    ),
}
"""By the name of the paper, as ``traceana claims --paper`` takes it."""


def numbered(paper: str, number: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figure of a paper with a number, or its parts: 7 is 7a and 7b.

    Raises a DataError if there is none; the message lists the numbers.
    """
    published = figures_of(paper)
    found = tuple(
        one
        for one in published
        if one.number == number or (number.isdigit() and one.number.rstrip("abcdef") == number)
    )
    if not found:
        numbers = ", ".join(one.number for one in published if one.number) or "none"
        raise DataError(f"{paper} has no figure {number!r} here; its numbers are {numbers}")
    return found


def figures_of(paper: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figures of a paper, those with a number first.

    Raises a DataError if there is no such paper; the message lists the papers.
    """
    if paper not in PUBLISHED:
        raise DataError(f"no paper is called {paper!r}; the papers are {', '.join(PUBLISHED)}")
    return tuple(sorted(PUBLISHED[paper], key=_order))


def _order(one: PublishedFigure) -> tuple[bool, int, str]:
    digits = "".join(filter(str.isdigit, one.number))
    return not one.number, int(digits or 0), one.number
