"""ElasticFlow's figures 8 to 11: simulated, from 9 on with traces drawn as the publisher's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final

import numpy as np
import polars as pl

from traceana.claims.claim import Claim, Judgement, decide
from traceana.claims.itp_elasticflow import APART, fraction_met, generated, only_fraction
from traceana.errors import DataError
from traceana.page.blocks import Drawing, drawing
from traceana.questions.scheduling.what_if import deadlines_met
from traceana.simulate.deadlines.simulate import published_rates
from traceana.simulate.schedule.policy import ScheduleState
from traceana.simulate.schedule.simulate import (
    POLICIES,
    ScheduleResult,
    read_schedule_jobs,
    simulate_schedule,
)
from traceana.store import Store, Trace
from traceana.store.manifest import Capacity

_TRACE: Final = "elasticflow-2023"
_SLOT_S: Final = 240.0
_NODE: Final = 8
_DRAWS: Final = 2
_RIVALS: Final = ("edf", "gandiva", "tiresias", "themis", "elasticflow")
_PARTS: Final = ("edf", "edf_admission", "edf_elastic", "elasticflow")
_BEST_EFFORT: Final = (10, 20, 30, 40, 50, 60, 70, 80, 90)
_SAMPLED_S: Final = 2400
_BERT_GPUS: Final = 16
_CLOSE: Final = 0.02


def draw_jobs(
    n: int, gap_s: float, *, rng: int, tightness: float = 0.5, best_effort: float = 0.0
) -> pl.DataFrame:
    """Draw jobs by the rules of the published generator, some without a deadline."""
    generator = np.random.default_rng(rng)
    submit = np.append(0, np.cumsum(generator.exponential(gap_s, n - 1))).astype(int)
    gpus = generator.choice([1, 2, 4, 8, 16], n, p=[0.83, 0.03, 0.03, 0.1, 0.01])
    powers = generator.uniform(1, 2.5, n) + 1.5 * (generator.random(n) >= 0.8)
    runtime = 60 * 10**powers
    pairs = _profiles().select("model", "batch_size").unique(maintain_order=True)
    deadline = submit + (generator.uniform(tightness, 1.5, n) * runtime).astype(int)
    jobs = pairs[generator.integers(pairs.height, size=n)].with_columns(
        job_id=pl.Series(range(n)),
        submit_s=pl.Series(submit),
        runtime_s=pl.Series(runtime.astype(int)),
        gpus=pl.Series(gpus),
        deadline_s=pl.Series(np.where(generator.random(n) < best_effort, np.nan, deadline)),
    )
    rate = ["model", "batch_size", "gpus"]
    return jobs.join(_profiles(), on=rate, maintain_order="left").select(
        pl.exclude("iterations_per_s", "deadline_s"),
        pl.col("deadline_s").fill_nan(None),
        iterations=(pl.col("iterations_per_s") * pl.Series(runtime)).cast(pl.Int64),
    )


@cache
def _profiles() -> pl.DataFrame:
    return published_rates().cast({"gpus": pl.Int64})


def _schedule(jobs: pl.DataFrame, policy: str, gpus: int) -> ScheduleResult:
    cluster = {"all": Capacity(nodes=gpus // _NODE, gpus_per_node=_NODE, slot_s=_SLOT_S)}
    return simulate_schedule(jobs, policy=policy, profiles=_profiles(), capacity=cluster)


def _fractions(rows: Sequence[tuple[str, str, float]]) -> pl.DataFrame:
    """Average fractions of deadlines met over the drawn traces, by policy and group."""
    table = pl.DataFrame(rows, schema=["policy", "group", "fraction_met"], orient="row")
    return table.group_by("policy", "group", maintain_order=True).mean()


def figure_8a(policies: Sequence[str] = _RIVALS) -> pl.DataFrame:
    """Simulate the published trace on 16 nodes of 4 T4."""
    folder = files(__package__)
    jobs, rates = (
        pl.read_csv(folder.joinpath(f"elasticflow-{name}.csv").read_bytes(), comment_prefix="#")
        for name in ("8a", "t4")
    )
    # the publisher's code gives BERT no more GPUs under ElasticFlow
    fewer = rates.filter((pl.col("model") != "bert") | (pl.col("gpus") <= _BERT_GPUS))
    rows = []
    for policy in policies:
        profiles = fewer if policy == "elasticflow" else rates
        groups = simulate_schedule(jobs, policy=policy, gpus=64, profiles=profiles).groups
        rows.append((policy, "64 T4", float(groups["fraction_met"].item())))
    return _fractions(rows)


def figure_8b(trace: Trace) -> pl.DataFrame:
    """Simulate the ten clusters."""
    clusters = trace.scan("jobs").select(pl.col("cluster").unique().sort()).collect()["cluster"]
    names = [name for name in clusters if name.startswith("cluster")]
    met = [trace.once(deadlines_met, policy, name) for name in names for policy in _RIVALS]
    return pl.concat(met).select("policy", "group", "fraction_met")


def figure_9(
    policies: Sequence[str] = _PARTS, sizes: Sequence[int] = (64, 128, 256), draws: int = _DRAWS
) -> list[tuple[str, str, float]]:
    """Simulate traces of 1,000 jobs under parts of ElasticFlow; one row per draw."""
    logs = [draw_jobs(1000, 1500, rng=seed) for seed in range(1, draws + 1)]
    return [
        (policy, f"{gpus} GPUs", float(_schedule(jobs, policy, gpus).groups["fraction_met"].item()))
        for policy in policies
        for gpus in sizes
        for jobs in logs
    ]


def figure_10() -> pl.DataFrame:
    """Simulate the efficiency of 128 GPUs over time: speedup over one GPU, summed, by GPU."""
    jobs, gpus = draw_jobs(100, 1500, rng=1, tightness=1.5), 128
    return pl.concat(_efficiency(jobs, policy, gpus) for policy in _RIVALS)


def _efficiency(jobs: pl.DataFrame, policy: str, gpus: int) -> pl.DataFrame:
    rates = {(row[0], row[1], row[2]): row[3] for row in _profiles().rows()}
    kinds, seen = jobs.select("model", "batch_size").rows(), {0.0: 0.0}

    made: Any = POLICIES[policy]

    class _Watched(made):  # type: ignore[misc]
        """The policy, whose running jobs are noted at each decision."""

        def place(self, state: ScheduleState, changes: Mapping[int, int], /) -> Any:  # noqa: ANN401
            speedups = (
                rates[*kinds[job], given] / rates[*kinds[job], 1]
                for job, given in state.running.items()
            )
            seen[state.now] = sum(speedups) / gpus
            return super().place(state, changes)

    watch = partial(_Watched, slot_s=_SLOT_S)
    simulate_schedule(jobs, policy=watch, profiles=_profiles(), gpus=gpus)
    kept = [0.0]  # as the publisher draws it: points 40 minutes apart
    for time in seen:
        if time - kept[-1] >= _SAMPLED_S:
            kept.append(time)
    return pl.DataFrame(
        {
            "policy": [policy] * len(kept),
            "Time (h)": [time / 3600 for time in kept],
            "Cluster efficiency": [seen[time] for time in kept],
        }
    )


def figure_11(
    policies: Sequence[str] = _RIVALS,
    percents: Sequence[int] = _BEST_EFFORT,
    draws: int = _DRAWS,
) -> pl.DataFrame:
    """Simulate 200 jobs on 64 GPUs, some without a deadline: deadlines met, mean end."""
    rows = []
    for percent in percents:
        for seed in range(1, draws + 1):
            jobs = draw_jobs(200, 900, rng=seed, best_effort=percent / 100)
            for policy in policies:
                groups = _schedule(jobs, policy, 64)
                took = groups.jobs["end_s"] - jobs["submit_s"]
                mean = took.filter(jobs["deadline_s"].is_null()).mean()
                rows.append(
                    (policy, percent, seed, float(groups.groups["fraction_met"].item()), mean)
                )
    names = ["policy", "percent", "draw", "fraction_met", "completion_s"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _best_effort_lines() -> pl.DataFrame:
    """Return completion times of jobs without a deadline as ratios, Gandiva's over a policy's."""
    runs = figure_11()
    gandiva = runs.filter(policy="gandiva").select("percent", "draw", of_gandiva="completion_s")
    ratio = (pl.col("of_gandiva") / pl.col("completion_s")).mean()
    means = runs.join(gandiva, on=["percent", "draw"]).group_by(
        "policy", "percent", maintain_order=True
    )
    return means.agg(ratio.alias("Completion time: Gandiva's / policy's")).rename(
        {"percent": "Jobs without a deadline (%)"}
    )


def _met_by_best_effort() -> pl.DataFrame:
    rows = figure_11().select("policy", pl.format("{} %", "percent"), "fraction_met").rows()
    return _fractions(rows)


_DRAWN: Final = f"mean of {_DRAWS} traces drawn by the published rules, which are random"
_FIGURES: Final[dict[str, tuple[str, Callable[[Trace], pl.DataFrame], str]]] = {
    "figure-8a": (
        "deadlines-met",
        lambda _trace: figure_8a(),
        "195 jobs on 64 T4 GPUs (figure 8a)",
    ),
    "figure-8b": ("deadlines-met", figure_8b, "ten clusters of A100 GPUs (figure 8b)"),
    "figure-9": (
        "deadlines-met",
        lambda _trace: _fractions(figure_9()),
        f"1,000 jobs under parts of ElasticFlow (figure 9): {_DRAWN}",
    ),
    "figure-10": (
        "policy-lines",
        lambda _trace: figure_10(),
        "efficiency of 128 GPUs over time (figure 10): one trace drawn by the published rules",
    ),
    "figure-11a": (
        "deadlines-met",
        lambda _trace: _met_by_best_effort(),
        f"deadlines met by fraction of jobs without one (figure 11a): {_DRAWN}",
    ),
    "figure-11b": (
        "policy-lines",
        lambda _trace: _best_effort_lines(),
        f"completion time of jobs without a deadline (figure 11b): {_DRAWN}",
    ),
}


def draw_figure(trace: Trace, feature: str | None, /) -> list[Drawing]:
    """Simulate and draw a figure of the paper; its own traces are part of the package or drawn."""
    if trace.id != _TRACE or feature not in _FIGURES:
        raise DataError(f"{trace.id} has no figure {feature!r}; {_TRACE} has {', '.join(_FIGURES)}")
    figure, simulate, about = _FIGURES[feature]
    return [
        drawing(
            figure,
            simulate(trace),
            trace=trace,
            key=f"{figure}-{feature}",
            about=f"ElasticFlow: {about}",
            title=f"ElasticFlow, {feature.replace('-', ' ')}",
            subject=about[0].upper() + about.partition(" (")[0][1:],
        )
    ]


def met_on_t4(_store: Store, claim: Claim) -> Judgement:
    """Compare the simulated fraction of deadlines met on T4 GPUs with the printed one."""
    return _beside(only_fraction(figure_8a((claim.values["policy"],))), claim)


def met_on_cluster(store: Store, claim: Claim) -> Judgement:
    """Compare the simulated fraction of deadlines met on a cluster with the printed one."""
    trace, values = store.trace(_TRACE), claim.values
    trace.once(generated)
    return _beside(fraction_met(trace, values["policy"], int(values["cluster"])), claim)


def met_on_philly(store: Store, claim: Claim) -> Judgement:
    """Compare the simulated fraction of deadlines met on the trace of Philly with the printed."""
    trace = store.trace(claim.tables[0][0])
    options: dict[str, Any] = {"profiles": _profiles(), "capacity": trace.manifest.capacity}
    jobs = read_schedule_jobs(trace.jobs, plans=trace.table("training_plans")).drop("row", "known")
    result = simulate_schedule(jobs, policy=claim.values["policy"], group="group", **options)
    return _beside(only_fraction(result.groups), claim)


def _beside(met: float, claim: Claim) -> Judgement:
    printed = float(claim.published)
    return decide(
        holds=abs(met - printed) <= APART,
        measured=f"{met:.3f} (simulated)",
        evidence=pl.DataFrame({"printed": [printed], "simulated": [met]}),
    )


def _within(drawn: Sequence[float], claim: Claim) -> Judgement:
    """Compare a printed fraction with the range over drawn traces."""
    low, high, printed = min(drawn), max(drawn), float(claim.published)
    return decide(
        holds=low - _CLOSE <= printed <= high + _CLOSE,
        measured=f"{low:.3f} to {high:.3f} (lowest to highest of {len(drawn)} drawn traces)",
        evidence=pl.DataFrame({"printed": printed, "drawn": drawn}),
    )


def met_by_drawn(_store: Store, claim: Claim) -> Judgement:
    """Compare the printed fraction of figure 9 with those of drawn traces."""
    sizes, draws = (int(claim.values["gpus"]),), claim.values["draws"]
    rows = figure_9((claim.values["policy"],), sizes, draws)
    return _within([fraction for *_, fraction in rows], claim)


def figure_10_efficiency(_store: Store, claim: Claim) -> Judgement:
    """Compare the highest efficiency with the end of the printed axis."""
    most = figure_10().group_by("policy", maintain_order=True).max()
    rows = dict(most.select("policy", "Cluster efficiency").iter_rows())
    return decide(
        holds=max(rows.values()) <= claim.values["most"],
        measured=", ".join(f"{policy} {value:.2f}" for policy, value in rows.items())
        + " (highest, of one drawn trace)",
    )


def met_beside_best_effort(_store: Store, claim: Claim) -> Judgement:
    """Compare the printed fraction beside best-effort jobs with those of drawn traces."""
    runs = figure_11((claim.values["policy"],), (int(claim.values["percent"]),))
    return _within(runs["fraction_met"].to_list(), claim)
