"""task_runtimes on 7.5 million synthetic instances beside DuckDB, Polars, pandas and pyarrow.

The peers are what one writes by hand under the policy "drop": the rows with both times, their
first start and last end by (job, task), joined to the tasks. "all columns" asks for all that
task_runtimes tells of a task too: how many instances there are, how many lack a time, and their
summed time. No peer looks for repeated tasks, values out of range or ends before starts, or keeps
the order of the tasks, as traceana does.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.benchmarks.race import Contender, race
from traceana import task_runtimes

KEYS = ["job_id", "task_name"]
TIMES = ["start_s", "end_s"]


def with_traceana(path: Path) -> object:
    return task_runtimes(pl.scan_parquet(tasks_of(path)), pl.scan_parquet(path))


def with_traceana_task_ends(path: Path) -> object:
    tasks, instances = pl.scan_parquet(tasks_of(path)), pl.scan_parquet(path)
    return task_runtimes(tasks, instances, end_imputation="task")


def with_duckdb(path: Path) -> object:
    known = "start_s IS NOT NULL AND end_s IS NOT NULL"
    return join_in_duckdb(path, "min(start_s) AS first_s, max(end_s) AS last_s", where=known)


def with_duckdb_all_columns(path: Path) -> object:
    told = """min(start_s) FILTER (end_s IS NOT NULL) AS first_s,
              max(end_s) FILTER (start_s IS NOT NULL) AS last_s,
              count(*) AS n_instances, count(start_s) AS n_start, count(end_s) AS n_end,
              count(end_s - start_s) AS n_used, sum(end_s - start_s) AS instance_s"""
    return join_in_duckdb(path, told, where="true")


def join_in_duckdb(path: Path, aggregates: str, *, where: str) -> object:
    connection = duckdb.connect()
    rows = connection.read_parquet(str(path)).filter(where)
    ends = rows.aggregate(f"job_id, task_name, {aggregates}", "job_id, task_name")
    tasks = connection.read_parquet(str(tasks_of(path)))
    joined = tasks.join(ends, "job_id, task_name", how="left")
    return joined.project("*, last_s - first_s AS runtime_s").to_arrow_table()


def with_polars(path: Path) -> object:
    known = pl.scan_parquet(path).drop_nulls(TIMES)
    ends = known.group_by(KEYS).agg(first_s=pl.col("start_s").min(), last_s=pl.col("end_s").max())
    joined = pl.scan_parquet(tasks_of(path)).join(ends, on=KEYS, how="left")
    runtime = pl.col("last_s") - pl.col("first_s")
    return joined.with_columns(runtime_s=runtime).collect(engine="streaming")


def with_polars_all_columns(path: Path) -> object:
    start, end = pl.col("start_s"), pl.col("end_s")
    ends = (
        pl.scan_parquet(path)
        .group_by(KEYS)
        .agg(
            first_s=pl.when(end.is_not_null()).then(start).min(),
            last_s=pl.when(start.is_not_null()).then(end).max(),
            n_instances=pl.len(),
            n_start=start.count(),
            n_end=end.count(),
            n_used=(end - start).count(),
            instance_s=(end - start).sum(),
        )
    )
    joined = pl.scan_parquet(tasks_of(path)).join(ends, on=KEYS, how="left")
    runtime = pl.col("last_s") - pl.col("first_s")
    return joined.with_columns(runtime_s=runtime).collect(engine="streaming")


def with_pandas(path: Path) -> object:
    known = pd.read_parquet(path, columns=[*KEYS, *TIMES]).dropna(subset=TIMES)
    ends = known.groupby(KEYS, sort=False).agg(first_s=("start_s", "min"), last_s=("end_s", "max"))
    joined = pd.read_parquet(tasks_of(path)).merge(ends, how="left", on=KEYS)
    return joined.assign(runtime_s=joined["last_s"] - joined["first_s"])


def with_pyarrow(path: Path) -> object:
    rows = pq.read_table(path, columns=[*KEYS, *TIMES])
    known = rows.filter(pc.field("start_s").is_valid() & pc.field("end_s").is_valid())
    ends = known.group_by(KEYS).aggregate([("start_s", "min"), ("end_s", "max")])
    joined = pq.read_table(tasks_of(path)).join(ends, KEYS, join_type="left outer")
    runtime = pc.subtract(joined["end_s_max"], joined["start_s_min"])
    return joined.append_column("runtime_s", runtime)


CONTENDERS: dict[str, Contender] = {
    "traceana": with_traceana,
    "traceana, ends of tasks": with_traceana_task_ends,
    "DuckDB": with_duckdb,
    "DuckDB, all columns": with_duckdb_all_columns,
    "Polars": with_polars,
    "Polars, all columns": with_polars_all_columns,
    "pandas": with_pandas,
    "pyarrow": with_pyarrow,
}


def tasks_of(path: Path) -> Path:
    """Return where the tasks of a file of instances are."""
    return path.with_name(path.name.replace(path.name.partition("-")[0], "tasks", 1))


def write_trace(folder: Path, n: int) -> dict[str, Path]:
    """Write synthetic tasks of six instances on average, these ordered by task and shuffled."""
    rng = np.random.default_rng(0)
    n_tasks = max(n // 6, 1)
    job = pl.Series(rng.bytes(12).hex() for _ in range(n_tasks)).gather(
        rng.integers(0, n_tasks, n_tasks)
    )
    # a job's second task has another name than its first
    place = pl.DataFrame({"job_id": job}).select(pl.int_range(pl.len()).over("job_id"))
    start = rng.uniform(0, 5e6, n_tasks)
    tasks = pl.DataFrame(
        {
            "job_id": job,
            "task_name": "task_" + place.to_series().cast(pl.String),
            "status": rng.choice(["completed", "failed", "running"], n_tasks, p=[0.7, 0.2, 0.1]),
            "start_s": start,
            "end_s": start + rng.lognormal(7, 2, n_tasks),
            "cpus": np.round(rng.lognormal(2, 0.8, n_tasks)),
            "memory_gib": np.round(rng.lognormal(3.3, 0.8, n_tasks)),
            "gpus": rng.choice([0.1, 0.25, 0.5, 1, 2, 4, 8], n_tasks),
            "gpu_type": rng.choice(["t4", "misc", "p100"], n_tasks),
        }
    )
    of = np.sort(np.append(np.arange(n_tasks), rng.integers(0, n_tasks, n - n_tasks)))
    begin = start[of] + rng.exponential(60, n)
    instances = tasks.select(KEYS)[of].with_columns(
        start_s=pl.when(pl.Series(rng.random(n) > 0.05)).then(pl.Series(begin)),
        end_s=pl.when(pl.Series(rng.random(n) > 0.25)).then(begin + rng.lognormal(6, 2, n)),
    )
    paths = {kind: folder / f"{kind}-{n}.parquet" for kind in ("ordered", "shuffled")}
    tasks.sample(fraction=1, shuffle=True, seed=1).write_parquet(tasks_of(paths["ordered"]))
    instances.write_parquet(paths["ordered"])
    instances.sample(fraction=1, shuffle=True, seed=1).write_parquet(paths["shuffled"])
    return paths


def main(arguments: list[str]) -> None:
    """Run the race at the size that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks runtimes", description=__doc__
    )
    parser.add_argument("--instances", type=int, default=7_500_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        small = write_trace(Path(folder), 6000)["shuffled"]
        files = write_trace(Path(folder), options.instances)
        race(__name__, files, warm_up=small, rounds=options.rounds, unit="DuckDB")
