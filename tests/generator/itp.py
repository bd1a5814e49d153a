"""Sample of ten research clusters: `microsoft-itp-2021`, and `elasticflow-2023` on its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import (
    ITP_KEY,
    apportion,
    arrivals,
    generator,
    heavy_tail,
    hex_ids,
    pick,
)
from tests.generator.files import MARK, pack, write_tables

if TYPE_CHECKING:
    from pathlib import Path

JOBS_A_CLUSTER: Final = (1595, 5778, 3011, 15802, 3629, 2396, 12699, 13047, 11134, 260)
"""Jobs of cluster01 to cluster10 in the real trace."""

GPUS: Final = {1: 57682, 2: 1483, 4: 2371, 8: 7009, 16: 381, 32: 354, 64: 71}
"""Jobs by number of GPUs in the real trace."""

SHORTEST_S: Final = 600
TESTBED_JOBS: Final = 195
_TESTBED_CLUSTER: Final = "cluster02.csv"
_DAYS: Final = 60
_FEWEST: Final = 3

_MODELS: Final = {
    "bert": (64, 128),
    "deepspeech2": (32, 64),
    "gpt2": (128, 256),
    "inception3": (64, 128),
    "resnet50": (64, 128, 256),
    "vgg16": (64, 128, 256),
}
_PLANS: Final = [(model, batch) for model, batches in _MODELS.items() for batch in batches]
_SAMPLES_PER_S: Final = {
    "bert": 400.0,
    "deepspeech2": 110.0,
    "gpt2": 1000.0,
    "inception3": 330.0,
    "resnet50": 470.0,
    "vgg16": 340.0,
}

_EXCHANGE_S: Final = 0.01

# parts of the seed: the jobs of both traces, and the plans of the second
_JOBS_KEY, _PLANS_KEY = 0, 1


def write_itp(folder: Path, *, scale: float, seed: int) -> dict[str, int]:
    """Write `raw-traces.tar.gz` and return the rows by CSV."""
    return _write_archive(folder, "raw-traces", _draw_clusters(scale, seed))


def write_elasticflow(folder: Path, *, scale: float, seed: int) -> dict[str, int]:
    """Write `elasticflow-traces.tar.gz` (the same jobs, with plans) and return the rows by CSV."""
    rng = generator(seed, ITP_KEY, _PLANS_KEY)
    clusters = _draw_clusters(scale, seed)
    tables = {name: _with_plans(rng, jobs) for name, jobs in clusters.items()}
    # the testbed repeats consecutive jobs of one cluster; their plans are drawn again
    jobs = tables[_TESTBED_CLUSTER]
    first = int(rng.integers(0, max(jobs.height - TESTBED_JOBS, 0) + 1))
    repeated = jobs.slice(first, TESTBED_JOBS)
    tables["195job.csv"] = _with_plans(rng, repeated)
    return _write_archive(folder, "elasticflow-traces", tables)


def _write_archive(folder: Path, name: str, tables: dict[str, pl.DataFrame]) -> dict[str, int]:
    rows = write_tables(folder, tables, end="")
    pack(folder / f"{MARK}{name}.tar.gz", [folder / member for member in rows])
    return rows


def _draw_clusters(scale: float, seed: int) -> dict[str, pl.DataFrame]:
    """Draw each cluster's jobs, in the order of their submission."""
    sizes = apportion(round(sum(JOBS_A_CLUSTER) * scale), JOBS_A_CLUSTER, least=_FEWEST)
    return {
        f"cluster{i:02d}.csv": _draw_jobs(generator(seed, ITP_KEY, _JOBS_KEY, i), int(n))
        for i, n in enumerate(sizes, 1)
    }


def _draw_jobs(rng: np.random.Generator, n: int) -> pl.DataFrame:
    gpus = np.array(list(GPUS))[pick(rng, list(GPUS.values()), n)]
    # jobs on more GPUs run longer
    duration = SHORTEST_S + heavy_tail(rng, 17_000 * gpus**0.3, n, sigma=1.3)
    ids = hex_ids(rng, n, digits=32).str
    dashes = [ids.slice(at, size) for at, size in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))]
    return pl.DataFrame(
        {
            "job_id": pl.select(pl.concat_str(dashes, separator="-")).to_series(),
            "submission_time": np.sort(arrivals(rng, n, first_s=0, days=_DAYS)),
            "duration": duration.astype(np.int64),
            "num_gpu": gpus,
        }
    )


def _with_plans(rng: np.random.Generator, jobs: pl.DataFrame) -> pl.DataFrame:
    """Give every job a model, a batch size, the iterations it can do, and a deadline."""
    n = jobs.height
    plan = rng.integers(0, len(_PLANS), n)
    batch = np.array([batch for _, batch in _PLANS])[plan]
    samples_per_s = np.array([_SAMPLES_PER_S[model] for model, _ in _PLANS])[plan]
    duration = jobs["duration"].to_numpy()
    gpus = jobs["num_gpu"].to_numpy()
    # an iteration: each GPU's part of the batch, then the exchange of gradients
    iteration_s = batch / gpus / samples_per_s + _EXCHANGE_S * (1 + np.log2(gpus))
    until_deadline = rng.uniform(0.5, 1.5, n) * duration
    return pl.DataFrame(
        {
            "job_id": jobs["job_id"],
            "submission_time": jobs["submission_time"],
            "num_iteration": (duration / iteration_s).astype(np.int64),
            "model_name": [_PLANS[i][0] for i in plan],
            "deadline": jobs["submission_time"] + until_deadline.astype(np.int64),
            "batch_size": batch,
            "num_gpu": gpus,
            "duration": duration,
        }
    )
