"""A map of each job: who was slower than its peers, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.report.blocks import drawing
from traceana.results.formatting import plural
from traceana.stats.order import peers_median

if TYPE_CHECKING:
    from traceana.analysis import StragglerResult
    from traceana.report.blocks import Drawing

TRACE: Final = "alibaba-minibatch-2020"
IN_ORDER: Final = (pl.col("job_id").str.len_chars(), pl.col("job_id"))
"""job_2 before job_10."""
_MOST_DRAWN = 12


def draw_jobs(samples: pl.DataFrame, result: StragglerResult) -> list[Drawing]:
    """Draw the map of each job that has peers to compare, the first twelve."""
    pictures = []
    for job in result.jobs.sort(IN_ORDER).head(_MOST_DRAWN).iter_rows(named=True):
        of_job = pl.col("job_id") == job["job_id"]
        ratios = _ratios_to_peers(samples.filter(of_job))
        if not (ratios["ratio_to_peers"].drop_nulls() > 0).any():
            continue  # one worker alone has no peers
        found = _number(job["n_episodes"], "episode")
        pictures.append(
            drawing(
                "straggler-map",
                ratios,
                trace=TRACE,
                key=f"stragglers-{job['job_id']}",
                about=f"Stragglers of {job['job_id']}: {found}, "
                f"{_number(job['n_slow_workers'], 'worker')} slow all along",
                episodes=result.episodes.filter(of_job),
                levels=result.levels.filter(of_job),
            )
        )
    return pictures


def _ratios_to_peers(samples: pl.DataFrame) -> pl.DataFrame:
    """Each value of a job over the median of the other workers' values at its tick."""
    wide = samples.pivot("worker_id", index=["job_id", "time_s"], values="batch_time")
    values = wide.select(pl.exclude("job_id", "time_s").cast(pl.Float64))
    peers = pl.DataFrame(peers_median(values.to_numpy()), schema=values.columns).fill_nan(None)
    over_peers = [
        pl.when(peers[worker] > 0).then(values[worker] / peers[worker]).alias(worker)
        for worker in values.columns
    ]
    return (
        wide.select("job_id", "time_s", *over_peers)
        .unpivot(index=["job_id", "time_s"], variable_name="worker_id", value_name="ratio_to_peers")
        .select("job_id", "worker_id", "time_s", "ratio_to_peers")
    )


def _number(number: int, noun: str) -> str:
    return plural(number, noun) if number else f"no {noun}"
