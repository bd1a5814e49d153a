"""Replay of 1,024 workers over 100 steps: some 19 million operations.

The targets are 60 s and 4 GB for each function.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from tests.benchmarks.race import Contender, race
from tests.simulate.operations.generate import DURATION_S, build, run
from traceana import replay_operations, slowdown_by, worker_slowdown


def write_operations(path: Path, *, steps: int, ranks: int, stages: int, micro_batches: int) -> int:
    """Write a generated job operation by operation, and return its rows."""
    job = build(stages, micro_batches, 1, overlapped=False, embedding=True)
    generator = np.random.default_rng(1)
    shape = (steps, ranks)
    for op in job.waits:
        noise = np.exp(0.1 * generator.standard_normal(shape))
        job.own[op] = DURATION_S.get(op[0], 0.004) * noise
    starts, ends = run(job, shape)
    step, rank = (part.ravel() for part in np.indices(shape))
    writer = None
    for op, chunk in job.chunk.items():
        kind, sequence, stage = op
        rows = pl.DataFrame(
            {
                "step": step,
                "worker_id": (rank + stage * ranks).astype(str),
                "dp_rank": rank,
                "start_s": starts[op].ravel(),
                "duration_s": (ends[op] - starts[op]).ravel(),
            }
        ).with_columns(
            job_id=pl.lit("generated"),
            stage=pl.lit(stage),
            kind=pl.lit(kind),
            sequence=pl.lit(sequence),
            chunk=pl.lit(None if chunk < 0 else chunk, pl.Int64),
        )
        table = rows.to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()
    return len(job.chunk) * steps * ranks


def by_group(by: str) -> Contender:
    return lambda path: slowdown_by(pl.scan_parquet(path), by)


CONTENDERS: dict[str, Contender] = {
    "replay_operations": lambda path: replay_operations(pl.scan_parquet(path)),
    **{f"slowdown_by {by}": by_group(by) for by in ("kind", "stage", "dp_rank", "worker")},
    "worker_slowdown": lambda path: worker_slowdown(pl.scan_parquet(path)),
}


def main(arguments: list[str]) -> None:
    """Run the race at the size that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks operations", description=__doc__
    )
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=128)
    parser.add_argument("--stages", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.parquet"), Path(folder, "large.parquet")
        write_operations(small, steps=2, ranks=2, stages=2, micro_batches=4)
        rows = write_operations(
            large,
            steps=options.steps,
            ranks=options.ranks,
            stages=options.stages,
            micro_batches=options.micro_batches,
        )
        files = {f"{rows:,} operations": large}
        race(__name__, files, warm_up=small, rounds=options.rounds, unit="replay_operations")
