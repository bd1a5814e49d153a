"""From 7.5 million instances to rates and correlations: traceana beside DuckDB, Polars and pandas.

The chain of the published analysis, from Parquet files: the runtime of each task from its
instances, joined to what it asked for; success by GPU type, GPUs, CPUs and memory; and the family
of correlations of runtime with four requests for tasks that completed and that failed, by Pearson
and Spearman, over rows and over group means. The peers give the numbers alone. traceana adds
intervals, p adjusted over the family, and what :mod:`tests.benchmarks.runtimes` lists.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl

from tests.benchmarks.race import Contender, race
from tests.benchmarks.runtimes import KEYS, TIMES, tasks_of, write_trace
from traceana import outcome_rates, runtime_correlations, task_runtimes

GROUPS = ["gpu_type", "gpus", "cpus", "memory_gib"]
FEATURES = ["gpus", "cpus", "memory_gib", "n_instances"]

Answer = tuple[list[float], list[float]]
"""The correlations (outcome by feature by level by method) and the rates of success."""


def with_traceana(path: Path) -> Answer:
    tasks = task_runtimes(pl.scan_parquet(tasks_of(path)), pl.scan_parquet(path))
    rates = [outcome_rates(tasks, group)["rate"].drop_nulls() for group in GROUPS]
    table = runtime_correlations(tasks).table
    return table["r"].to_list(), [rate for group in rates for rate in group]


def with_duckdb(path: Path) -> Answer:
    connection = duckdb.connect()
    connection.execute(f"""
        CREATE TEMP TABLE runtimes AS
        SELECT tasks.*, last_s - first_s AS runtime_s, n_instances,
               status = 'completed' AS completed
        FROM '{tasks_of(path)}' tasks LEFT JOIN (
            SELECT job_id, task_name, min(start_s) FILTER (end_s IS NOT NULL) AS first_s,
                   max(end_s) FILTER (start_s IS NOT NULL) AS last_s, count(*) AS n_instances
            FROM '{path}' GROUP BY job_id, task_name
        ) USING (job_id, task_name)""")
    rates = [
        value
        for group in GROUPS
        for (value,) in connection.execute(f"""
            SELECT avg(completed::INT) FROM runtimes WHERE status IN ('completed', 'failed')
            GROUP BY {group} ORDER BY {group} NULLS LAST""").fetchall()
    ]
    ranks = ", ".join(
        f"rank() OVER (PARTITION BY completed ORDER BY {name})"
        f" + (count(*) OVER (PARTITION BY completed, {name}) - 1) / 2 AS {name}"
        for name in ("runtime_s", *FEATURES)
    )
    known = "FROM runtimes WHERE runtime_s IS NOT NULL AND status IN ('completed', 'failed')"
    sources = {"row": f"SELECT * {known}", "rank": f"SELECT completed, {ranks} {known}"}
    corr = ", ".join(f"corr({name}, runtime_s)" for name in FEATURES)
    found = {
        key: connection.execute(
            f"SELECT {corr} FROM ({query}) GROUP BY completed ORDER BY completed"
        ).fetchall()
        for key, query in sources.items()
    }
    means: dict[str, list[list[float]]] = {"row": [], "rank": []}
    for name in FEATURES:
        points = f"SELECT completed, {name} AS x, avg(runtime_s) AS y {known} GROUP BY ALL"
        ranked = f"""SELECT completed, rank() OVER (PARTITION BY completed ORDER BY x) AS x,
                     rank() OVER (PARTITION BY completed ORDER BY y) AS y FROM ({points})"""
        for key, query in (("row", points), ("rank", ranked)):
            rows = connection.execute(
                f"SELECT corr(x, y) FROM ({query}) GROUP BY completed ORDER BY completed"
            ).fetchall()
            means[key].append([value for (value,) in rows])
    correlations = [
        value
        for outcome in (0, 1)
        for at in range(len(FEATURES))
        for value in (
            found["row"][outcome][at],
            found["rank"][outcome][at],
            means["row"][at][outcome],
            means["rank"][at][outcome],
        )
    ]
    return correlations, rates


def with_polars(path: Path) -> Answer:
    start, end = pl.col("start_s"), pl.col("end_s")
    ends = (
        pl.scan_parquet(path)
        .group_by(KEYS)
        .agg(
            first_s=pl.when(end.is_not_null()).then(start).min(),
            last_s=pl.when(start.is_not_null()).then(end).max(),
            n_instances=pl.len(),
        )
    )
    runtimes = (
        pl.scan_parquet(tasks_of(path))
        .join(ends, on=KEYS, how="left")
        .with_columns(
            runtime_s=pl.col("last_s") - pl.col("first_s"),
            completed=pl.col("status") == "completed",
        )
        .collect(engine="streaming")
    )
    judged = runtimes.lazy().filter(pl.col("status").is_in(["completed", "failed"]))
    rates = [
        judged.group_by(group).agg(pl.col("completed").mean()).sort(group, nulls_last=True)
        for group in GROUPS
    ]
    known = judged.drop_nulls("runtime_s")
    ask = [
        known.group_by("completed")
        .agg(
            *(pl.corr(name, "runtime_s").alias(name) for name in FEATURES),
            *(
                pl.corr(pl.col(name).rank(), pl.col("runtime_s").rank()).alias(f"{name} rank")
                for name in FEATURES
            ),
        )
        .sort("completed")
    ]
    for name in FEATURES:
        points = known.group_by("completed", x=name).agg(y=pl.col("runtime_s").mean())
        ranked = pl.corr(pl.col("x").rank(), pl.col("y").rank())
        ask.append(
            points.group_by("completed").agg(row=pl.corr("x", "y"), rank=ranked).sort("completed")
        )
    rows, *means = pl.collect_all(ask)
    correlations = [
        value
        for outcome in (0, 1)
        for name, of in zip(FEATURES, means, strict=True)
        for value in (
            rows[name][outcome],
            rows[f"{name} rank"][outcome],
            of["row"][outcome],
            of["rank"][outcome],
        )
    ]
    told = [value for rate in pl.collect_all(rates) for value in rate["completed"]]
    return correlations, told


def with_pandas(path: Path) -> Answer:
    instances = pd.read_parquet(path, columns=[*KEYS, *TIMES])
    both = instances[TIMES].notna().all(axis=1)
    instances[TIMES] = instances[TIMES].where(both)
    ends = instances.groupby(KEYS, sort=False).agg(
        first_s=("start_s", "min"), last_s=("end_s", "max"), n_instances=("job_id", "size")
    )
    tasks = pd.read_parquet(tasks_of(path)).merge(ends, how="left", on=KEYS)
    tasks["runtime_s"] = tasks["last_s"] - tasks["first_s"]
    tasks["completed"] = tasks["status"] == "completed"
    judged = tasks[tasks["status"].isin(["completed", "failed"])]
    rates = [
        value
        for group in GROUPS
        for value in judged.groupby(group, dropna=False)["completed"].mean().tolist()
    ]
    correlations = []
    for _, part in judged.dropna(subset=["runtime_s"]).groupby("completed"):
        for name in FEATURES:
            means = part.groupby(name, as_index=False)["runtime_s"].mean()
            for points in (part, means):
                correlations += [
                    float(points[name].corr(points["runtime_s"], method=method))
                    for method in ("pearson", "spearman")
                ]
    return correlations, rates


CONTENDERS: dict[str, Contender] = {
    "traceana": with_traceana,
    "DuckDB": with_duckdb,
    "Polars": with_polars,
    "pandas": with_pandas,
}


def check_agreement(path: Path) -> None:
    """Refuse to race contenders that do not give the same values."""
    expected = with_pandas(path)
    for name, contender in CONTENDERS.items():
        answer = contender(path)
        assert isinstance(answer, tuple)
        for mine, theirs in zip(answer, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-8, err_msg=name)


def main(arguments: list[str]) -> None:
    """Run the race at the size that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks analyses", description=__doc__
    )
    parser.add_argument("--instances", type=int, default=7_500_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        small = write_trace(Path(folder), 6000)["shuffled"]
        check_agreement(small)
        files = write_trace(Path(folder), options.instances)
        race(__name__, files, warm_up=small, rounds=options.rounds, unit="DuckDB")
