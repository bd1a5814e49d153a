"""Figures of the papers, and the command that draws each of them from a trace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from traceana.claims.papers import PAPERS, find_papers
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
        for job in ("AR", "ST")
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
        PublishedFigure(
            "network input and output of instances", "empirical-distribution", "--feature network"
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
        PublishedFigure("fragment versus requested GPUs", "placement-fragment", number="7"),
        PublishedFigure("allocated versus requested GPUs", "placement-allocated", number="9"),
        PublishedFigure(
            "allocated GPUs of lists with more jobs that share GPUs, use several, or use none",
            note="of other lists of jobs; ingest one of them with --trace, and draw "
            "placement-allocated of that trace",
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
            number="2a",
        ),
        *(
            PublishedFigure(
                f"{what} of Zeus and the default over six data sets",
                "energy-saved",
                f"--feature {what}",
                number="6",
                note="simulated recurrences; grid search is in the figures of regret",
            )
            for what in ("energy", "time")
        ),
        *(
            PublishedFigure(
                f"regret of a recurring job, {dataset}",
                "regret",
                f"--gpu v100 --dataset {dataset}",
                number=number,
            )
            for number, dataset in (
                *(("7a", "librispeech"), ("7b", "imagenet")),
                *(("", name) for name in ("cifar100", "movielens-1m", "sentiment140", "squad")),
            )
        ),
        PublishedFigure(
            "search path of a recurring job on the map of regret, librispeech",
            "search-path",
            "--gpu v100 --dataset librispeech",
            number="8",
            note="cost instead of regret, which differ by a constant",
        ),
        PublishedFigure(
            "batch sizes over recurrences, librispeech",
            "recurring-choices",
            "--gpu v100 --dataset librispeech",
        ),
        PublishedFigure(
            "energy and time of the Alibaba groups",
            number="9",
            note="it needs alibaba_groups.csv.xz; `traceana simulate recurring --groups` has the "
            "numbers",
        ),
        PublishedFigure(
            "optima of the weight of energy on the front",
            "energy-optima",
            "--gpu v100 --dataset librispeech",
            number="11",
        ),
        *(
            PublishedFigure(what, "policy-variants", f"--feature {part}", number=number, note=note)
            for number, part, what, note in (
                ("12", "beta", "geometric mean of energy by beta", "energy of all recurrences"),
                ("13", "part", "ablation of the policy", "energy of all recurrences"),
                ("14", "gpu", "geometric mean of energy on four GPUs", "last five recurrences"),
            )
        ),
        *(
            PublishedFigure(
                f"energy by batch size, power limit and both on {gpu.upper()}",
                "energy-savings",
                f"--gpu {gpu}",
                number="15",
            )
            for gpu in ("a40", "rtx6000", "p100")
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
            note="no catalog entry has its trace; `simulate_schedule` with it and the T4 profiles "
            "has the printed fractions of EDF, Tiresias and ElasticFlow",
        ),
        PublishedFigure("deadlines missed by simple policies", "missed-deadlines"),
    ),
    "dynamic-batching": (
        PublishedFigure(
            "time on heterogeneous workers relative to equal ones", "batching-clusters", number="1"
        ),
        PublishedFigure(
            "iteration times of workers with 3, 5 and 12 cores",
            "batching-iterations",
            "--feature figure-3",
            number="3",
        ),
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


def traces_of(paper: str, /) -> tuple[str, ...]:
    """Return the traces that the claims of a paper need; none for a model alone."""
    claims = [one for name in find_papers(paper, PUBLISHED) for one in PAPERS[name].claims]
    return tuple(dict.fromkeys(trace for claim in claims for trace, _ in claim.tables))


def options_of(one: PublishedFigure, /) -> dict[str, str]:
    """Return the options of ``traceana figures`` that choose a figure, by name."""
    words = one.options.split()
    return {
        name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }


def claims_of(paper: str, number: str, /) -> list[str]:
    """Return the ids of a paper's claims that name the number of a figure, or a part of it."""
    figure = re.compile(rf"figure {re.escape(number)}(?![0-9])")
    return [
        claim.id
        for claim in (PAPERS[paper].claims if number and paper in PAPERS else ())
        if figure.search(f"{claim.section} {claim.reference}".casefold())
    ]


def numbered(paper: str, number: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figure of a paper with a number, or its parts: 7 is 7a and 7b."""
    published = figures_of(paper)
    found = tuple(
        one
        for one in published
        if one.number == number or (number.isdigit() and one.number.rstrip("abcdef") == number)
    )
    if not found:
        known = dict.fromkeys(one.number for one in published if one.number)
        numbers = ", ".join(known) or "none"
        raise DataError(f"{paper} has no figure {number!r} here; its numbers are {numbers}")
    return found


def figures_of(paper: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figures of a paper, those with a number first."""
    found = find_papers(paper, PUBLISHED)
    return tuple(sorted((one for name in found for one in PUBLISHED[name]), key=_order))


def _order(one: PublishedFigure) -> tuple[bool, int, str]:
    digits = "".join(filter(str.isdigit, one.number))
    return not one.number, int(digits or 0), one.number
