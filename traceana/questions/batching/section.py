"""Dynamic batching: recorded workers, simulated workers, and published speedups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from traceana import simulate
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.stragglers import analyze as workers
from traceana.simulate.batching import tables
from traceana.simulate.batching.workers import SPLITS
from traceana.store import Trace
from traceana.tables.declare import with_columns
from traceana.tables.formatting import plural, three_digits

_MAX_DRAWN: Final = 2
_MAX_FILES: Final = 8
_LIMITATIONS: Final = (
    "Speedups are simulated on recorded times and hold if every step waits for its slowest worker. "
    "A worker's time is taken as proportional to its batch size, without overhead."
)
_CONTROLLERS: Final = (
    "A synchronous step takes as long as its slowest worker. With equal batch sizes fast "
    "workers wait; with batch sizes in proportion to throughput they do not. Worker k "
    "takes a + b / x seconds for b samples, with overhead a and throughput x. Controllers: "
    "uniform (equal batch sizes), static (in proportion to an estimate, here cores), "
    "measured once (after ten steps), proportional (moved towards the mean time at each "
    "step), smoothed (the controller of the paper: smoothed times, a dead-band of 5 % and "
    "a learned upper bound), with dead-band (unless no batch size would change by a "
    "fifth), OmniLearn (the authors' later code), and the oracle, which knows each step in "
    "advance."
)
_SPEEDUPS: Final = (
    "Without overhead the maximum speedup over uniform batch sizes is mean(x) / min(x). "
    "Each published speedup therefore implies a throughput ratio of fast to slow workers; "
    "with overhead the ratio is larger. A published factor is plausible if it is at most "
    "the maximum speedup of its workers, by CPU cores or half-precision FLOPS. Overhead at "
    "FLOPS: the fraction of the uniform step that must be overhead for the cores or FLOPS "
    "to give exactly this factor."
)
_DRAWN: Final = ("uniform", "proportional", "oracle")
_OVERHEAD_S: Final = 0.1
_CV: Final = 0.1
_NOISE_CV: Final = 0.05
_NAMES: Final = {
    "uniform": "Uniform",
    "static": "Static",
    "measured": "Measured once",
    "proportional": "Proportional",
    "smoothed": "Smoothed",
    "damped": "With dead-band",
    "omnilearn": "OmniLearn",
    "oracle": "Oracle",
}
_GAINS: Final = (
    "id",
    "published",
    "devices",
    "ratio",
    "ratio_overhead_10",
    "ratio_overhead_20",
    "flops_ratio",
    "largest_gain",
    "overhead_at_flops",
    "is_plausible",
    "reached_by",
)
_CLUSTERS: Final = "Uniform, static and dynamic batching by cluster, without overhead"


def build(traces: Sequence[Trace]) -> Content:
    """Recorded workers under each controller, the sweep over heterogeneity, published gains."""
    recorded = [_recorded(trace) for trace in traces]
    # the steps of the job with the largest possible speedup
    replays = _replays(traces)
    pictures = [_draw_steps(trace, result, _most(result)) for trace, result in replays[:_MAX_DRAWN]]
    all_synthetic = all(trace.synthetic for trace in traces)
    synthetic = " SYNTHETIC data: no real system is shown." if all_synthetic else ""
    comparison = simulate.compare_clusters()
    clusters = drawing("batching-clusters", comparison, None, "batching-clusters", _CLUSTERS)
    blocks: tuple[Block, ...] = (
        Text(_CONTROLLERS),
        *(block for part in recorded for block in part.blocks),
        Heading("Simulated workers"),
        *_levels(synthetic),
        Heading("Published speedups"),
        Text(_SPEEDUPS),
        Gallery((clusters,)),
        result_table(
            simulate.published_gains(),
            tables.PublishedGains,
            columns=_GAINS,
            null={"ratio_overhead_10": "impossible", "ratio_overhead_20": "impossible"},
            caption="Throughput ratios that the published speedups imply. Computed from the claims "
            f"and data sheets, from no trace.{synthetic}",
        ),
    )
    findings = tuple(line for part in recorded for line in part.findings)
    lead = (*([Gallery(tuple(pictures))] if pictures else []), *_compare(replays))
    return Content(findings, blocks, lead, _LIMITATIONS if pictures else "")


def _replays(traces: Sequence[Trace]) -> list[tuple[Trace, tables.BatchingReplay]]:
    """Return the traces with a replayed job, and the replay."""
    results = ((trace, trace.once(workers.batching_replay)) for trace in traces)
    return [(trace, result) for trace, result in results if not isinstance(result, str)]


def _compare(replays: Sequence[tuple[Trace, tables.BatchingReplay]]) -> list[Block]:
    """Return the table of the jobs of all traces, the largest speedup first."""
    frames = [
        _weighted(trace, result).drop_nulls("speedup").with_columns(trace=pl.lit(trace.label))
        for trace, result in replays
    ]
    jobs = pl.concat(frames) if frames else pl.DataFrame()
    if jobs.is_empty():
        return []
    titles = "; ".join(jobs["trace"].unique(maintain_order=True))
    names = jobs["controller"].unique(maintain_order=True).to_list()
    values = ("speedup", "idle_fraction", "of_possible")
    headings = {f"speedup_{each}": _NAMES[each] for each in names[1:]} | {
        "of_possible_proportional": "Of possible",
        "idle_fraction_uniform": "Idle, uniform",
        "idle_fraction_proportional": "Idle, proportional",
    }
    index = ["trace", "job_id", "n_steps", "n_excluded"]
    wide = jobs.pivot("controller", index=index, values=values)
    table = result_table(
        wide.sort("speedup_oracle", descending=True),
        with_columns(
            tables.ReplayJobs, {f"{value}_{each}": value for value in values for each in names}
        ),
        columns=[*index[len(frames) < 2 :], *headings],
        headings=headings,
        caption="Speedup over uniform batch sizes of recorded jobs (simulated). Of possible: "
        f"saving of the proportional controller relative to the oracle's. {titles}",
    )
    return [table]


def _weighted(trace: Trace, result: tables.BatchingReplay) -> pl.DataFrame:
    """Return the jobs with their speedup weighted by iterations if samples are spans of time."""
    if workers.clock(trace) == "step":
        return result.jobs
    return result.jobs.with_columns(speedup=pl.col("speedup_iterations"))


def _recorded(trace: Trace) -> Content:
    name, result = trace.label, trace.once(workers.batching_replay)
    heading = Heading(f"Recorded workers: {name}")
    if isinstance(result, str):
        return Content((), (heading, Text(f"No job was replayed: {result}.")))
    jobs = _weighted(trace, result).sort(*workers.JOB_ORDER, maintain_order=True)
    text = Text(
        "Each time at which all workers of a job have a sample is a step, and a worker's "
        "recorded time is its throughput then, without overhead. A controller sees a step only "
        "after it. Samples that are spans of time are weighted by the iterations in them, and "
        "are coarser than training steps, so a real controller would react sooner."
    )
    finding = _finding(jobs.drop_nulls("speedup"), name, trace.once(workers.oracle_by_noise))
    return Content((finding,), (heading, text, _episodes(result, name, workers.clock(trace))))


def _episodes(result: tables.BatchingReplay, name: str, time: str) -> Block:
    if result.episodes.is_empty():
        return Text("No straggler episode was found.")
    names = result.episodes["controller"].unique(maintain_order=True).to_list()
    rows = result.episodes.sort(*workers.JOB_ORDER, "onset_s", "worker_id", maintain_order=True)
    values = ("cost_fraction", "recovery_steps", "fraction_within")
    costs = {f"cost_fraction_{each}": _NAMES[each] for each in names}
    others = {
        "recovery_steps_proportional": "Recovery (steps)",
        "fraction_within_proportional": "Near the oracle",
    }
    onset = {} if time == "time_s" else {"onset_s": f"Onset ({time})"}
    index = ["job_id", "worker_id", "onset_s", "n_steps"]
    return result_table(
        rows.pivot("controller", index=index, values=values),
        with_columns(tables.ReplayEpisodes, {f"{v}_{each}": v for v in values for each in names}),
        columns=[*index, *costs, *others],
        headings=costs | others | onset,
        null={"recovery_steps_proportional": "none"},
        caption="Relative cost of straggler episodes: additional time of the steps of the episode "
        "compared with the worker at its usual time. Recovery: steps until the first of three in a "
        f"row that the proportional controller has within {100 * result.within:g} % of the "
        f"oracle's. Near the oracle: fraction of the steps of the episode that are. {name}",
    )


def _most(result: tables.BatchingReplay) -> str:
    oracle = result.jobs.drop_nulls("speedup").filter(controller="oracle")
    return str(oracle.sort("speedup")["job_id"][-1])


def _draw_steps(trace: Trace, result: tables.BatchingReplay, job: str) -> Drawing:
    episodes = result.episodes.unique(["job_id", "worker_id", "onset_s"], maintain_order=True)
    return drawing(
        "batching-replay",
        result.steps.filter(pl.col("controller").is_in(_DRAWN), job_id=job),
        trace,
        picture_key("batching", trace, job),
        f"Steps of {job} under three controllers",
        episodes=episodes.filter(job_id=job),
        time=workers.clock(trace),
        unit=workers.batch_time_unit(trace),
    )


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the steps of the first jobs, iteration times, and batch sizes of simulated workers."""
    pictures = [*_clusters(), *_trajectories(), *_oscillations(), _iterations_of_split()]
    for trace, result in _replays(traces):
        jobs = result.jobs.drop_nulls("speedup").sort(*workers.JOB_ORDER, maintain_order=True)
        first = jobs["job_id"].unique(maintain_order=True).head(_MAX_FILES)
        pictures += [_draw_steps(trace, result, job) for job in first]
        most, unit = _most(result), workers.batch_time_unit(trace)
        rows = result.workers.filter(pl.col("controller").is_in(_DRAWN[:2]), job_id=most)
        about = f"Iteration times of the workers of {most} under two controllers"
        key = picture_key("iterations", trace, most)
        pictures.append(drawing("batching-iterations", rows, trace, key, about, unit=unit))
    return pictures


def _finding(jobs: pl.DataFrame, name: str, alone: dict[str, float]) -> str:
    wide = jobs.pivot("controller", index="job_id", values="speedup").sort("oracle")
    gains = wide["proportional"].to_numpy()
    span = " to ".join(dict.fromkeys((three_digits(gains.min()), three_digits(gains.max()))))
    text = (
        f"{name}: batch sizes that follow the workers' speed would make "
        f"{plural(wide.height, 'job')} {span} times as fast as equal batch sizes "
        "(simulated on recorded workers)."
    )
    if wide.height > 1:
        ends = " and ".join(
            f"{three_digits(row['oracle'])} in {row['job_id']}"
            f" ({three_digits(alone[row['job_id']])} by random variation alone)"
            for row in (wide.row(0, named=True), wide.row(-1, named=True))
        )
        text += f" With the oracle it is {ends}."
    if idle := int((wide["damped"] <= 1).sum()):
        text += f" With a dead-band of a fifth, {idle} of them would not be faster."
    heading = f"{name}: batches that follow the workers make jobs {span} times as fast (simulated)"
    return Finding(text, heading=heading)


def _clusters() -> list[Drawing]:
    """The clusters of figures 1 and 7, without the others."""
    comparison = simulate.compare_clusters()
    return [
        drawing(
            "batching-clusters",
            comparison.filter(pl.col("cluster").str.contains(names)),
            None,
            f"clusters-{figure}",
            f"{_CLUSTERS} ({figure.replace('-', ' ')})",
            subject=subject,
        )
        for figure, names, subject in (
            ("figure-1", "11/4/24", "Workers with 11, 4 and 24 cores"),
            ("figure-7", "P100|P4", "Workers with GPUs"),
        )
    ]


def _trajectories() -> list[Drawing]:
    """Four workers, the fastest of which has half of its throughput for a third of the time."""
    samples_per_s = np.tile([48.0, 48.0, 32.0, 64.0], (60, 1))
    samples_per_s[20:40, 3] /= 2
    crew = simulate.Workers(np.full(4, _OVERHEAD_S), samples_per_s)
    pictures = []
    for name in ("proportional", "damped"):
        result = simulate.simulate_batching(crew, controller=name, global_batch=192)
        about = (
            f"Batch sizes of workers with 12, 12, 8 and 16 cores, {_NAMES[name].lower()}; worker 3 "
            "has half of its throughput from step 20 to 39: speedup over uniform "
            f"{result.speedup:.2f}"
        )
        subject = f"{_NAMES[name]}, 12, 12, 8 and 16 cores"
        pictures.append(_trajectory(result, f"trajectory-{name}", about, subject))
    return pictures


def _trajectory(result: simulate.BatchingResult, key: str, about: str, subject: str) -> Drawing:
    figure = "batching-trajectory"
    return drawing(figure, result.batches, None, key, about, subject=subject, steps=60)


def _oscillations() -> list[Drawing]:
    """Workers with 3, 5 and 12 cores whose times vary, with and without a dead-band."""
    sigma = np.sqrt(np.log1p(_NOISE_CV**2))
    noise = np.random.default_rng(1).lognormal(-(sigma**2) / 2, sigma, (60, 3))
    crew = simulate.Workers(np.zeros(3), np.array(SPLITS["figure-3"]) / noise)
    pictures = []
    for part, dead_band, name in (("a", 0.05, "With a dead-band of 5 %"), ("b", 0, "No dead-band")):
        controller = simulate.Proportional(dead_band=dead_band, averages=dead_band > 0)
        result = simulate.simulate_batching(crew, controller=controller, global_batch=192)
        about = (
            "Batch sizes of workers with 3, 5 and 12 cores whose iteration times vary by 5 % "
            f"(figure 4{part}): {name.lower()}"
        )
        subject = f"{name}, 3, 5 and 12 cores"
        pictures.append(_trajectory(result, f"trajectory-figure-4{part}", about, subject))
    return pictures


def _iterations_of_split() -> Drawing:
    """Iteration times of workers with 3, 5 and 12 cores, as if they were recorded."""
    cores = pl.DataFrame({"cores": SPLITS["figure-3"]})
    crew = cores.select(worker_id=pl.format("{} cores", "cores"), batch_time=1 / pl.col("cores"))
    steps = pl.DataFrame({"job_id": "3, 5 and 12 cores", "time_s": np.arange(100.0)})
    samples = steps.join(crew, how="cross")
    rows = simulate.replay_batching(samples, controllers=["uniform", "proportional"]).workers
    about = "Iteration times of workers with 3, 5 and 12 cores under two controllers"
    unit = "relative to a batch on one core"
    return drawing("batching-iterations", rows, None, "iterations-figure-3", about, unit=unit)


def _levels(synthetic: str) -> list[Block]:
    sweep = simulate.sweep_batching(overheads_s=[0.0, _OVERHEAD_S], noise_cvs=[0.0, _CV])
    summary = simulate.summarize_batching(sweep)
    shown = summary.filter(overhead_s=_OVERHEAD_S, noise_cv=_CV, n_workers=3)
    about = (
        "Speedup by heterogeneity of three workers with 39 cores in all, with an overhead of "
        f"{_OVERHEAD_S:g} s and noise of CoV {_CV:g}"
    )
    subject = "Three workers with 39 cores in all"
    picture = drawing("batching-speedup", shown, None, "batching-levels", about, subject=subject)
    setting = ["level", "overhead_s", "noise_cv", "mean_over_min"]
    wide = summary.pivot("controller", index=setting, values="speedup")
    names = {name: _NAMES[name] for name in wide.columns if name in _NAMES and name != "uniform"}
    table = result_table(
        wide,
        with_columns(tables.BatchingSummary, dict.fromkeys(names, "speedup")),
        columns=[*setting, *names],
        headings=names,
        folded=True,
        caption=f"Speedup over uniform batch sizes, mean of {plural(summary['n'].max(), 'seed')} "  # type: ignore[arg-type]
        "of the noise. A step of equal workers takes 1 s plus the overhead with 48 cores and 1.2 s "
        f"with 39. Simulated, from no trace.{synthetic}",
    )
    return [Gallery((picture,)), table]


SECTION = Section(
    "batching",
    "Dynamic batching",
    20,
    build,
    needs=({"worker_samples": ("batch_time",)},),
    unless=workers.PIPELINE,
    figures=(
        "batching-replay",
        "batching-iterations",
        "batching-trajectory",
        "batching-speedup",
        "batching-clusters",
    ),
    more=draw_more,
    part="Simulations",
    question="How much faster would jobs run if batch sizes followed the speed of workers?",
)
