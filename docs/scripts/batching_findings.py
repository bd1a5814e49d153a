"""Compute the part of the appendix on batching from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import detect_stragglers, replay_batching

if TYPE_CHECKING:
    from traceana.simulate import BatchingReplay
    from traceana.store import Store

CONTROLLERS = ("uniform", "measured", "proportional", "damped", "omnilearn", "oracle")


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    samples = store.scan("alibaba-minibatch-2020", "worker_samples").collect()
    episodes = detect_stragglers(samples).episodes
    replay = replay_batching(samples, episodes=episodes, controllers=CONTROLLERS)
    return "\n".join([jobs(replay), costs(replay)])


def fixed(column: str, digits: int = 3) -> pl.Expr:
    return pl.col(column).map_elements(lambda x: f"{x:.{digits}f}", return_dtype=pl.String)


def jobs(replay: BatchingReplay) -> str:
    wide = replay.jobs.pivot("controller", index=["job_id", "n_steps"], values="speedup")
    saved = replay.jobs.filter(controller="proportional")["of_possible"]
    shown = wide.sort("job_id").select(
        "job_id", pl.col("n_steps").alias("steps"), *(fixed(each) for each in CONTROLLERS[1:])
    )
    return (
        "### Recorded workers: speedup over uniform batches\n\n"
        + as_table(shown)
        + f"\nThe proportional controller saves {100 * float(str(saved.min())):.0f} to "
        f"{100 * float(str(saved.max())):.0f} % of the time that the oracle saves.\n"
    )


def costs(replay: BatchingReplay) -> str:
    by = replay.episodes.group_by("controller", maintain_order=True).agg(
        pl.col("recovery_steps").count().alias("n"),
        pl.col("recovery_steps").median().alias("median"),
        pl.len().alias("all"),
        (pl.col("fraction_within") * pl.col("n_steps")).sum() / pl.col("n_steps").sum(),
    )
    recovered = by.select(
        "controller",
        pl.format("{} of {}", "n", "all").alias("recovered"),
        pl.col("median").alias("median steps"),
        (100 * pl.col("fraction_within")).round(0).alias("% of steps near the oracle"),
    )
    return (
        "### Recovery from straggler episodes\n\n"
        f"Recovered: three consecutive steps within {100 * replay.within:.0f} % of the "
        f"oracle's.\n\n{as_table(recovered)}"
    )
