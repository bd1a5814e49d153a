"""Compute the measured part of docs/explanation/batching.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import (
    detect_stragglers,
    published_gains,
    replay_batching,
    simulate_batching,
    summarize_batching,
    sweep_batching,
)
from traceana.simulate import BatchingReplay, OmniLearn, Proportional
from traceana.simulate.batching.devices import DEVICES

if TYPE_CHECKING:
    from traceana.store import Store

CONTROLLERS = ("uniform", "measured", "proportional", "damped", "omnilearn", "oracle")


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    samples = store.scan("alibaba-minibatch-2020", "worker_samples").collect()
    episodes = detect_stragglers(samples).episodes
    replay = replay_batching(samples, episodes=episodes, controllers=CONTROLLERS)
    parts = [
        jobs(replay),
        equalised(replay),
        dead_bands(samples),
        costs(replay),
        levels(),
        noise(),
        negative(),
        published(),
    ]
    return "\n".join(parts)


def fixed(column: str, digits: int = 3) -> pl.Expr:
    return pl.col(column).map_elements(lambda x: f"{x:.{digits}f}", return_dtype=pl.String)


def percent(column: str) -> pl.Expr:
    return (100 * pl.col(column)).map_elements(lambda x: f"{x:.1f}", return_dtype=pl.String)


def jobs(replay: BatchingReplay) -> str:
    wide = replay.jobs.pivot("controller", index=["job_id", "n_steps"], values="speedup")
    idle = replay.jobs.pivot("controller", index="job_id", values="idle_share")
    saved = replay.jobs.filter(controller="proportional")["of_possible"]
    shown = wide.sort("job_id").select(
        "job_id", pl.col("n_steps").alias("steps"), *(fixed(each) for each in CONTROLLERS[1:])
    )
    idle = idle.sort("job_id").select(
        "job_id", *(percent(each).alias(f"{each}") for each in CONTROLLERS)
    )
    return (
        "### Recorded workers: speedup over uniform batches\n\n"
        + as_table(shown)
        + f"\nThe proportional controller saves {100 * float(str(saved.min())):.0f} to "
        f"{100 * float(str(saved.max())):.0f} % of the time that the oracle saves.\n\n"
        "### Idle time of the workers, in percent\n\n" + as_table(idle)
    )


def equalised(replay: BatchingReplay) -> str:
    spread = (
        replay.workers.group_by("job_id", "controller", maintain_order=True)
        .agg(ratio=pl.col("median").max() / pl.col("median").min())
        .pivot("controller", index="job_id", values="ratio")
        .sort("job_id")
        .select("job_id", *(fixed(each, 2) for each in CONTROLLERS))
    )
    return "### Largest over smallest median iteration time of the workers\n\n" + as_table(spread)


def dead_bands(samples: pl.DataFrame) -> str:
    bands = (0.0, 0.05, 0.1, 0.2)
    chosen = [
        Proportional(dead_band=band, averages=averages, name=f"{words}, {band:g}")
        for averages, words in ((False, "last"), (True, "mean"))
        for band in bands
    ]
    cells = pl.format("{} ({})", fixed("speedup"), "adjustments")
    wide = (
        replay_batching(samples, controllers=chosen)
        .jobs.with_columns(cell=cells)
        .pivot("controller", index="job_id", values="cell")
        .sort("job_id")
    )
    return (
        "### Dead-band and averaging: speedup over uniform batches (adjustments)\n\n"
        + as_table(wide)
        + "\nColumns: times of the last step, or their mean since the last adjustment; dead-band.\n"
    )


def costs(replay: BatchingReplay) -> str:
    cells = pl.format(
        "{} ({})",
        (100 * pl.col("cost_share")).round(1),
        pl.col("recovery_steps").cast(pl.String).fill_null("none"),
    )
    shown = (
        replay.episodes.with_columns(cell=cells)
        .pivot("controller", index=["job_id", "worker_id", "onset_s", "n_steps"], values="cell")
        .sort("job_id", "onset_s", "worker_id")
        .select(
            "job_id",
            pl.col("worker_id").alias("worker"),
            pl.col("onset_s").cast(pl.Int64).alias("onset (s)"),
            pl.col("n_steps").alias("steps"),
            *(each for each in CONTROLLERS if each != "omnilearn"),
        )
    )
    by = replay.episodes.group_by("controller", maintain_order=True).agg(
        pl.col("recovery_steps").count().alias("n"),
        pl.col("recovery_steps").median().alias("median"),
        pl.len().alias("all"),
        (pl.col("share_within") * pl.col("n_steps")).sum() / pl.col("n_steps").sum(),
    )
    recovered = by.select(
        "controller",
        pl.format("{} of {}", "n", "all").alias("recovered"),
        pl.col("median").alias("median steps"),
        (100 * pl.col("share_within")).round(0).alias("% of steps near the oracle"),
    )
    return (
        "### Cost of straggler episodes, in percent (steps to recovery)\n\n"
        + as_table(shown)
        + f"\nRecovered: three consecutive steps within {100 * replay.within:.0f} % of the "
        f"oracle's.\n\n{as_table(recovered)}"
    )


def levels() -> str:
    summary = summarize_batching(sweep_batching(noise_cvs=[0.0]))
    shown = (
        summary.filter(pl.col("mean_over_min") > 1)
        .pivot("controller", index=["level", "mean_over_min", "overhead_s"], values="speedup")
        .rename({"mean_over_min": "mean / min", "overhead_s": "a (s)"})
        .drop("uniform")
    )
    names = shown.columns[3:]
    shown = shown.select(
        pl.col("level").alias("cores"), fixed("mean / min"), "a (s)", *map(fixed, names)
    )
    return (
        "### Heterogeneity at 48 cores, without noise: speedup over uniform\n\n"
        + as_table(shown)
        + "\nEqual workers have 1.000 throughout.\n"
    )


def noise() -> str:
    three = {"12/12/12/12": (12,) * 4, "12/12/8/16": (12, 12, 8, 16), "6/6/4/32": (6, 6, 4, 32)}
    summary = summarize_batching(
        sweep_batching(three, overheads_s=[0.1], noise_cvs=[0.02, 0.05, 0.1, 0.2], seeds=range(10))
    )
    shown = summary.pivot("controller", index=["level", "noise_cv"], values="speedup").drop(
        "uniform"
    )
    return (
        "### Noise from step to step: speedup over uniform, a = 0.1 s, mean of 10 seeds\n\n"
        + as_table(shown.select("level", "noise_cv", *map(fixed, shown.columns[2:])))
    )


def negative() -> str:
    crew = [(0, 1000.0), (0, 1000.0), (0, 1.0)]
    rows = []
    for words, controller in (
        ("no bounds", OmniLearn(bounds=(0, float("inf")))),
        ("16 to 96", OmniLearn()),
        ("proportional", Proportional()),
    ):
        result = simulate_batching(crew, controller=controller, global_batch=192, steps=2)
        after = result.batches.filter(step=1)["batch"].to_list()
        rows.append({"": words, "batches after one step": ", ".join(map(str, after))})
    return (
        "### Equal correction of the global batch: workers at 1,000, 1,000 and 1 samples/s\n\n"
        + as_table(pl.DataFrame(rows))
    )


def published() -> str:
    gains = published_gains().drop("note").with_columns(
        fixed("ratio", 2), fixed("flops_ratio", 2), fixed("largest_gain", 2),
        pl.col("ratio_overhead_10", "ratio_overhead_20").map_elements(
            lambda x: f"{x:.2f}", return_dtype=pl.String
        ).fill_null("impossible"),
        percent("overhead_at_flops").fill_null("").alias("overhead_at_flops"),
        pl.when("is_plausible").then(pl.lit("yes")).otherwise(pl.lit("no")).alias("is_plausible"),
    )  # fmt: skip
    devices = DEVICES.with_columns(fixed("tflops", 2))
    return (
        "### Published gains: implied ratio of throughputs\n\n"
        + as_table(gains)
        + "\noverhead_at_flops: percent of the uniform step that must be overhead if the devices' "
        "FLOPS imply this gain; empty if the gain exceeds what they allow.\n"
        + "\n### Devices\n\n"
        + as_table(devices)
    )
