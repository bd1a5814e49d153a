"""The number of threads of Polars changes no digit of a result that is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import traceana as analysis
from traceana.tables.formatting import DIGITS

N = 105_000
"""Rows: more than one thread reads at once."""
EVERY = {"user": "user", "kind": "kind", "": ()}


def make_rows() -> pl.DataFrame:
    """Rows of jobs whose sums of floats depend on the order in which they are added up."""
    rng, row = np.random.default_rng(3), np.arange(N)
    return pl.DataFrame(
        {
            "job_id": [f"job_{i}" for i in row // 40],
            "task_name": [f"task_{i}" for i in row % 40 // 4],
            "user": rng.choice([f"user {i}" for i in range(300)], N),
            "kind": rng.choice(["T4", "P100", "V100"], N),
            "status": rng.choice(["completed", "completed", "failed"], N),
            "submit_s": rng.uniform(0, 1e6, N),
            "runtime_s": rng.lognormal(7, 2, N),
            "gpus": rng.choice([0.05, 0.3, 1, 8], N),
            "cpus": rng.gamma(2, 3, N),
            "gpus_used": rng.uniform(0, 1, N),
            "cov": rng.gamma(2, 0.2, N),
        }
    ).with_columns(
        pl.when(pl.Series(rng.random(N) > 0.1)).then("runtime_s"),
        start_s="submit_s",
        end_s=pl.col("submit_s") + pl.col("runtime_s"),
        gpu_type="kind",
        memory_gib=pl.lit(None, pl.Float64),
    )


def answers(rows: pl.LazyFrame) -> dict[str, pl.DataFrame]:
    """Ask every function that adds up floats, over groups and over all rows."""
    found: dict[str, Any] = {}
    for name, by in EVERY.items():
        found |= {
            f"workload {name}": analysis.workload_summary(rows, by=by),
            f"concentration {name}": analysis.concentration(rows, by=by),
            f"interarrivals {name}": analysis.interarrivals(rows, by=by),
            f"runtime {name}": analysis.runtime_by(rows, by=by, cluster="job_id"),
            f"means {name}": analysis.runtime_means(rows, by=by, cluster="job_id"),
            f"ratio {name}": analysis.runtime_ratio(rows, by=by),
            f"ratios {name}": analysis.summarize_runtime_ratio(rows, by=by),
            f"used {name}": analysis.utilization(rows, by=by, cluster="job_id"),
            f"idle {name}": analysis.idle_gpu_hours(rows, by=by),
            f"cov {name}": analysis.summarize_cov(rows, by=by),
        }
    tasks = rows.unique(("job_id", "task_name"), keep="first", maintain_order=True)
    late = rows.with_columns(start_s="end_s")
    coded = tasks.with_columns(pl.col("job_id").cast(pl.Categorical))  # grouped by name, not hash
    return found | {
        "queue": analysis.queueing_delay(late),
        "demand": analysis.gpu_demand(rows, by="kind"),
        "hours": analysis.gpu_hours_by(rows, by="kind"),
        "sharing": analysis.gpu_sharing(rows, device="user"),
        "sizes": analysis.size_distribution(rows),
        "by value": analysis.mean_by_value(rows, "gpus", "runtime_s"),
        "pearson": analysis.correlate(
            rows, "cpus", "runtime_s", method="pearson", level="row", by="kind"
        ).table,
        "tasks": analysis.task_runtimes(tasks, rows),
        "capacity": analysis.gpu_capacity_check(tasks, rows, rows.select("gpus")),
        "capacity by name": analysis.gpu_capacity_check(coded, rows, rows.select("gpus")),
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, pl.DataFrame]]:
    """Results of processes with one and with four threads."""
    folder = tmp_path_factory.mktemp("threads")
    make_rows().write_parquet(folder / "rows.parquet", row_group_size=30_000)
    found = {}
    for threads in (1, 4):
        out = folder / str(threads)
        command = (sys.executable, "-m", __name__, str(folder / "rows.parquet"), str(out))
        environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
        subprocess.run(command, check=True, env=environment)
        found[threads] = {path.stem: pl.read_parquet(path) for path in out.iterdir()}
    return found


def test_one_thread_and_four_give_the_same_digits(
    results: dict[int, dict[str, pl.DataFrame]],
) -> None:
    assert len(results[1]) > 35
    assert results[1].keys() == results[4].keys()
    for name, table in results[1].items():
        # a demand is rounded to a billionth of a GPU
        assert_frame_equal(table, results[4][name], rel_tol=10.0**-DIGITS, abs_tol=2e-9)


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir()
    for name, frame in answers(pl.scan_parquet(sys.argv[1])).items():
        frame.write_parquet(Path(sys.argv[2]) / f"{name}.parquet")
