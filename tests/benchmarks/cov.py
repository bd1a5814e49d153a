"""iteration_cov on 20 million rows beside DuckDB, Polars, pandas, pyarrow and a numpy reshape.

The peers are what one writes by hand: count, mean and population deviation by (job, tick). None
of them looks for repeated workers, missing names or values out of range, as traceana does, and
only one sorts its result, as traceana does too.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq

from tests.benchmarks.race import Contender, race
from traceana import iteration_cov

KEYS = ["job_id", "time_s"]


def with_traceana(path: Path) -> object:
    return iteration_cov(pl.scan_parquet(path), ddof=0)


def with_duckdb(path: Path) -> object:
    rows = duckdb.connect().read_parquet(str(path))
    moments = "count(batch_time), avg(batch_time), stddev_pop(batch_time)"
    return rows.aggregate(f"job_id, time_s, {moments}", "job_id, time_s").to_arrow_table()


def with_duckdb_sorted(path: Path) -> object:
    rows = duckdb.connect().read_parquet(str(path))
    moments = "count(batch_time), avg(batch_time), stddev_pop(batch_time)"
    ticks = rows.aggregate(f"job_id, time_s, {moments}", "job_id, time_s")
    return ticks.order("job_id, time_s").to_arrow_table()


def with_polars(path: Path) -> object:
    x = pl.col("batch_time")
    moments = (x.count().alias("n"), x.mean().alias("mean"), x.std(ddof=0).alias("std"))
    return pl.scan_parquet(path).group_by(KEYS).agg(*moments).collect(engine="streaming")


def with_pandas(path: Path) -> object:
    groups = pd.read_parquet(path).groupby(KEYS, sort=False)["batch_time"]
    return groups.agg(["count", "mean"]).assign(std=groups.std(ddof=0))


def with_pyarrow(path: Path) -> object:
    rows = pq.read_table(path, columns=[*KEYS, "batch_time"])
    return rows.group_by(KEYS).aggregate([("batch_time", of) for of in ("count", "mean", "stddev")])


def with_numpy(path: Path) -> object:
    table = pq.read_table(path, columns=[*KEYS, "batch_time"])
    values = table["batch_time"].to_numpy().reshape(-1, 10)
    return table.take(np.arange(0, len(table), 10)), values.mean(axis=1), values.std(axis=1)


CONTENDERS: dict[str, Contender] = {
    "traceana": with_traceana,
    "DuckDB": with_duckdb,
    "DuckDB, sorted": with_duckdb_sorted,
    "Polars": with_polars,
    "pandas": with_pandas,
    "pyarrow": with_pyarrow,
    "numpy reshape (ordered)": with_numpy,
}


def write_rows(folder: Path, jobs: int, ticks: int, workers: int) -> dict[str, Path]:
    """Write the same synthetic rows ordered by (job, time, worker) and shuffled."""
    row = np.arange(jobs * ticks * workers)
    names = {
        "job_id": pl.Series([f"job_{i:04}" for i in range(jobs)]).gather(row // (ticks * workers)),
        "time_s": pl.Series(10.0 * (row // workers % ticks)),
        "worker_id": pl.Series([f"worker_{i}" for i in range(workers)]).gather(row % workers),
        "batch_time": pl.Series(np.random.default_rng(0).gamma(20, 25, len(row))),
    }
    rows = pl.DataFrame(names)
    paths = {kind: folder / f"{kind}-{jobs}x{ticks}.parquet" for kind in ("ordered", "shuffled")}
    rows.write_parquet(paths["ordered"])
    rows.sample(fraction=1, shuffle=True, seed=1).write_parquet(paths["shuffled"])
    return paths


def main(arguments: list[str]) -> None:
    """Run the race at the size that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks cov", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="of 2000 ticks and 10 workers each")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        small = write_rows(Path(folder), 2, 100, 10)["shuffled"]
        files = write_rows(Path(folder), options.jobs, 2000, 10)
        race(__name__, files, warm_up=small, rounds=options.rounds, unit="DuckDB")
