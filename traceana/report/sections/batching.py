"""Batches that follow how fast the workers are: replayed, simulated, and as published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.derived.workers import stragglers
from traceana.errors import DataError
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Gallery,
    Heading,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.straggler_maps import IN_ORDER, TRACE
from traceana.results.formatting import count, plain, plural, ratio, share
from traceana.simulate import (
    Workers,
    published_gains,
    replay_batching,
    simulate_batching,
    summarize_batching,
    sweep_batching,
)

if TYPE_CHECKING:
    from traceana.report.context import Context
    from traceana.simulate import BatchingReplay

_MOST_DRAWN = 8
_DRAWN = ("uniform", "proportional", "oracle")
_OVERHEAD_S, _CV = 0.1, 0.1
_NAMES = {
    "uniform": "Uniform",
    "static": "Static",
    "measured": "Measured once",
    "proportional": "Proportional",
    "damped": "With dead-band",
    "omnilearn": "OmniLearn",
    "oracle": "Oracle",
}
_GAINS = [
    words("Statement", "id"),
    Column("Published gain", "published", plain),
    words("Devices", "devices"),
    Column("Implied ratio", "ratio", ratio),
    Column("10 % overhead", "ratio_overhead_10", ratio, null="impossible"),
    Column("20 % overhead", "ratio_overhead_20", ratio, null="impossible"),
    Column("FLOPS ratio", "flops_ratio", ratio),
    Column("Gain at most", "largest_gain", ratio),
    Column("Overhead at FLOPS", "overhead_at_flops", share),
    Column("Plausible", "is_plausible", lambda plausible: "yes" if plausible else "no"),
]


def build(session: Context) -> Content:
    """Recorded workers under each controller, the sweep over heterogeneity, published gains."""
    findings, recorded = _recorded(session)
    sweep = summarize_batching(sweep_batching(overheads_s=[0.0, _OVERHEAD_S], noise_cvs=[0.0, _CV]))
    blocks: list[Block] = [
        Text(
            "A synchronous step takes as long as its slowest worker. Where workers differ, equal "
            "batches make the fast ones wait; batches in proportion to throughput do not. Worker k "
            "takes a + b / x seconds for b samples: a is overhead, x throughput. Controllers: "
            "uniform (equal batches), static (in proportion to an estimate, here cores), measured "
            "once (after ten steps), proportional (moved at every step towards the mean time), "
            "with a dead-band (nothing moves where no batch would by a fifth), OmniLearn (the "
            "authors' later code), and the oracle, which knows each step beforehand."
        ),
        *recorded,
        Heading("Simulated workers"),
        _trajectories(),
        *_levels(session, sweep),
        Heading("Published gains"),
        Text(
            "Without overhead the most that any split gains over a uniform one is mean(x) / "
            "min(x). Each published gain thus implies how many times as fast the fast workers "
            "are; more where a share of the uniform step is overhead, which no batch changes. It "
            "is called plausible where the devices' peak FLOPS differ by as much, to a factor of "
            "1.5; of CPU workers, where a split of 48 cores gives it. Overhead at FLOPS: the share "
            "of the uniform step that must be overhead for the FLOPS to give just this gain; there "
            "is none where it is more than they allow."
        ),
        make_table(
            published_gains(), _GAINS,
            caption="Throughput ratios that the published gains imply. Computed from the "
            "statements and data sheets, from no trace." + _mark(session),
        ),
    ]  # fmt: skip
    return Content(findings, tuple(blocks))


def _mark(session: Context) -> str:
    """Return the words that a wholly synthetic page has everywhere."""
    return " SYNTHETIC data: no real system is shown." if session.synthetic(None) else ""


def _recorded(session: Context) -> tuple[tuple[str, ...], list[Block]]:
    if not session.has(TRACE, "worker_samples"):
        what = "What batching would have made of recorded workers"
        return (), [session.absent(TRACE, "worker_samples", what=what)]
    samples = session.scan(TRACE, "worker_samples").collect().sort(*IN_ORDER)
    name = session.title(TRACE)
    try:
        result = replay_batching(samples, episodes=session.once(stragglers, TRACE).episodes)
    except DataError as error:
        return (), [Text(f"{name}: no job was replayed. {error}.")]
    jobs = result.jobs.sort(*IN_ORDER, maintain_order=True)
    wide = jobs.pivot(
        "controller", index=["job_id", "n_workers", "n_ticks", "n_ticks_left_out"],
        values=["speedup", "idle_share", "of_possible"],
    )  # fmt: skip
    names = jobs["controller"].unique(maintain_order=True).to_list()
    columns = [
        words("Job", "job_id"),
        Column("Steps", "n_ticks", count),
        Column("Left out", "n_ticks_left_out", count),
        *(Column(_NAMES[each], f"speedup_{each}", ratio) for each in names[1:]),
        Column("Of possible", "of_possible_proportional", share),
        Column("Idle, uniform", "idle_share_uniform", share),
        Column("Idle, proportional", "idle_share_proportional", share),
    ]
    blocks: list[Block] = [
        Heading("Recorded workers"),
        Text(
            "Each tick of a job at which all workers reported is a step, and a worker's recorded "
            "time is its throughput then, without overhead. A controller sees a tick only after "
            "it. The trace has a tick every ten seconds and training many steps in that time, so "
            "that a real controller would follow sooner."
        ),
        make_table(
            wide, columns,
            caption="Times as fast as uniform batches. Of possible: of what the oracle saves, what "
            f"the proportional controller saves. {name}",
        ),
        _episodes(result, names, name),
        _pictures(result, jobs.drop_nulls("speedup")),
    ]  # fmt: skip
    return (_finding(jobs.drop_nulls("speedup"), name),), blocks


def _episodes(result: BatchingReplay, names: list[str], name: str) -> Block:
    if result.episodes.is_empty():
        return Text("No straggler's episode was found.")
    wide = result.episodes.sort(*IN_ORDER, "onset_s", "worker_id", maintain_order=True).pivot(
        "controller",
        index=["job_id", "worker_id", "onset_s", "n_ticks"],
        values=["cost_share", "recovery_steps", "share_within"],
    )
    columns = [
        words("Job", "job_id"),
        words("Worker", "worker_id"),
        Column("Onset (s)", "onset_s", count),
        Column("Steps", "n_ticks", count),
        *(Column(_NAMES[each], f"cost_share_{each}", share) for each in names),
        Column("Recovery (steps)", "recovery_steps_proportional", count, null="not in it"),
        Column("Near the oracle", "share_within_proportional", share),
    ]
    return make_table(
        wide, columns,
        caption="What straggler episodes cost: how much longer the steps of the episode take than "
        "with the worker at its usual. Recovery: steps until the first of three in a row that the "
        f"proportional controller has within {100 * result.within:g} % of the oracle's; near the "
        f"oracle: share of the episode's steps that are. {name}",
    )  # fmt: skip


def _pictures(result: BatchingReplay, jobs: pl.DataFrame) -> Gallery:
    episodes = result.episodes.unique(["job_id", "worker_id", "onset_s"], maintain_order=True)
    pictures = []
    for job in jobs["job_id"].unique(maintain_order=True).head(_MOST_DRAWN):
        rows = result.steps.filter(pl.col("controller").is_in(_DRAWN), job_id=job)
        pictures.append(
            drawing(
                "batching-replay", rows, trace=TRACE, key=f"batching-{job}",
                about=f"Steps of {job} under three controllers",
                episodes=episodes.filter(job_id=job),
            )
        )  # fmt: skip
    most = jobs.filter(controller="oracle").sort("speedup")["job_id"][-1]
    rows = result.workers.filter(pl.col("controller").is_in(_DRAWN[:2]), job_id=most)
    pictures.append(
        drawing(
            "batching-iterations", rows, trace=TRACE, key=f"iterations-{most}",
            about=f"Iteration times of the workers of {most} before and after",
        )
    )  # fmt: skip
    return Gallery(tuple(pictures))


def _finding(jobs: pl.DataFrame, name: str) -> str:
    wide = jobs.pivot("controller", index="job_id", values="speedup").sort("oracle")
    least, most = wide.row(0, named=True), wide.row(-1, named=True)
    gains = wide["proportional"].to_numpy()
    told = [f"{name}: had batches followed the workers' speed at every step, "]
    told.append(f"{plural(wide.height, 'job')} would have been {ratio(gains.min())} to ")
    told.append(f"{ratio(gains.max())} times as fast as with equal batches")
    if wide.height > 1:
        told.append(f" (hindsight: {ratio(least['oracle'])} in {least['job_id']}, ")
        told.append(f"{ratio(most['oracle'])} in {most['job_id']})")
    idle = int((wide["damped"] <= 1).sum())
    if idle:
        told.append(f"; with a dead-band of a fifth {idle} of them would have gained nothing")
    return "".join(told) + " (simulated on recorded workers)."


def _trajectories() -> Gallery:
    """Four workers, of which the fastest is at half of its throughput for a third of the time."""
    samples_per_s = np.tile([48.0, 48.0, 32.0, 64.0], (60, 1))
    samples_per_s[20:40, 3] /= 2
    crew = Workers(np.full(4, _OVERHEAD_S), samples_per_s, ("0", "1", "2", "3"))
    pictures = []
    for name in ("proportional", "damped"):
        result = simulate_batching(crew, controller=name, global_batch=192)
        pictures.append(
            drawing(
                "batching-trajectory", result.batches, trace=None, key=f"trajectory-{name}",
                about=f"Batches of workers with 12, 12, 8 and 16 cores, {_NAMES[name].lower()}; "
                f"worker 3 is at half of its throughput from step 20 to 39: {result.speedup:.2f} "
                "times as fast as uniform",
                steps=60,
            )
        )  # fmt: skip
    return Gallery(tuple(pictures))


def _levels(session: Context, summary: pl.DataFrame) -> list[Block]:
    shown = summary.filter(overhead_s=_OVERHEAD_S, noise_cv=_CV)
    picture = drawing(
        "batching-speedup", shown, trace=None, key="batching-levels",
        about="Speed-up by how unlike the workers are, at 48 cores in all",
    )  # fmt: skip
    wide = summary.pivot(
        "controller", index=["level", "mean_over_min", "overhead_s", "noise_cv"], values="speedup"
    )
    columns = [
        words("Cores", "level"),
        Column("Overhead (s)", "overhead_s", plain),
        Column("Noise (CV)", "noise_cv", plain),
        Column("Mean / least", "mean_over_min", ratio),
        *(Column(_NAMES[name], name, ratio) for name in wide.columns[5:]),
    ]
    seeds = int(str(summary["seeds"].max()))
    table = make_table(
        wide, columns, folded=True,
        caption=f"Times as fast as uniform batches, mean of {plural(seeds, 'seed')} of the noise. "
        "A step of equal workers takes 1 s and the overhead. Simulated, from no trace."
        + _mark(session),
    )  # fmt: skip
    return [Gallery((picture,)), table]


SECTION = Section(
    "batching",
    "Dynamic batching",
    150,
    build,
    figures=("batching-replay", "batching-iterations", "batching-trajectory", "batching-speedup"),
)
