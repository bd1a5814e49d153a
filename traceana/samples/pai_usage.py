"""What instances and machines of the PAI sample used, and the tags of its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.samples.draw import heavy_tail
from traceana.samples.pai_shares import WORKLOAD_TAGGED

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPE_ASKED_FOR: Final = 0.2
_IDLE: Final = 0.1  # instances that leave their GPU unused


def draw_tags(rng: np.random.Generator, jobs: pl.DataFrame, n: int) -> pl.DataFrame:
    """Tag all but a few jobs."""
    tags = jobs[rng.permutation(jobs.height)[:n]]
    return tags.with_columns(
        gpu_type_spec=_keep(rng, tags["gpu_type"], _TYPE_ASKED_FOR),
        workload=_keep(rng, tags["workload"], WORKLOAD_TAGGED),
    )


def draw_sensors(rng: np.random.Generator, instances: pl.DataFrame, n: int) -> pl.DataFrame:
    """Draw the mean use of some instances; a GPU's may exceed what was asked for."""
    seen = instances[rng.permutation(instances.height)[:n]]
    memory = seen["plan_mem"].to_numpy() * rng.beta(1.5, 4, n)
    gpu = seen["plan_gpu"]
    use = np.where(rng.random(n) < _IDLE, 0.0, heavy_tail(rng, 0.45, n, sigma=0.8))
    device = (rng.random(n) * seen["cap_gpu"].to_numpy()).astype(np.int64)
    gpu_memory = heavy_tail(rng, 4.0, n, sigma=0.9)
    return seen.with_columns(
        gpu_name=_where(gpu, pl.format("/dev/nvidia{}", pl.Series(device))),
        cpu_usage=seen["plan_cpu"].to_numpy() * heavy_tail(rng, 0.35, n, sigma=0.9),
        gpu_wrk_util=_where(gpu, gpu * use),
        avg_mem=pl.Series(memory),
        max_mem=pl.Series(memory * (1 + rng.random(n))),
        avg_gpu_wrk_mem=_where(gpu, pl.Series(gpu_memory)),
        max_gpu_wrk_mem=_where(gpu, pl.Series(gpu_memory * (1 + rng.random(n)))),
        read=heavy_tail(rng, 2e7, n, sigma=1.5),
        write=heavy_tail(rng, 1e7, n, sigma=1.5),
        read_count=heavy_tail(rng, 3000, n, sigma=1.0),
        write_count=heavy_tail(rng, 3000, n, sigma=1.0),
    )


def draw_machine_metrics(rng: np.random.Generator, instances: pl.DataFrame, n: int) -> pl.DataFrame:
    """Draw the state of the machine over the life of some instances that have both their times."""
    spans = instances.filter(pl.col("start_time") > 0, pl.col("end_time") > 0)
    seen = spans[rng.permutation(spans.height)[:n]]
    n = seen.height
    user = 100 * rng.beta(2, 4, n)
    kernel = 100 * rng.beta(1.5, 30, n)
    waits = heavy_tail(rng, 0.02, n, sigma=1.5)
    return seen.with_columns(
        # this table's times are printed without a decimal
        pl.col("start_time", "end_time").cast(pl.Int64),
        machine_cpu_iowait=waits,
        machine_cpu_kernel=kernel,
        machine_cpu_usr=user,
        machine_gpu=np.where(seen["cap_gpu"] > 0, heavy_tail(rng, 35, n, sigma=0.8), 0.0),
        machine_load_1=heavy_tail(rng, 20, n, sigma=0.7),
        machine_net_receive=heavy_tail(rng, 1e8, n, sigma=1.0),
        machine_num_worker=1 + heavy_tail(rng, 6, n, sigma=0.7),
        machine_cpu=np.minimum(user + kernel + waits, 100),
    )


def _keep(rng: np.random.Generator, values: pl.Series, share: float) -> pl.Expr:
    """Keep a share of the values, drawn, and empty the others."""
    kept: NDArray[np.bool_] = rng.random(len(values)) < share
    return pl.when(pl.Series(kept)).then(values)


def _where(given: pl.Series, values: pl.Expr | pl.Series) -> pl.Expr:
    return pl.when(given.is_not_null()).then(values)
