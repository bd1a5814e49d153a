"""detect_stragglers beside iteration_cov on the same 20 million synthetic rows.

The unit is iteration_cov, and the target is at most 10 times its seconds, in bounded memory.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import polars as pl

from tests.benchmarks.cov import write_rows
from tests.benchmarks.race import Contender, race
from traceana import detect_stragglers, iteration_cov


def with_cov(path: Path) -> object:
    return iteration_cov(pl.scan_parquet(path), ddof=0)


def with_stragglers(path: Path) -> object:
    return detect_stragglers(pl.scan_parquet(path))


CONTENDERS: dict[str, Contender] = {
    "iteration_cov": with_cov,
    "detect_stragglers": with_stragglers,
}


def main(arguments: list[str]) -> None:
    """Run the race at the size that is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks stragglers", description=__doc__
    )
    parser.add_argument("--jobs", type=int, default=1000, help="of 2000 ticks and 10 workers each")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        small = write_rows(Path(folder), 2, 100, 10)["shuffled"]
        files = write_rows(Path(folder), options.jobs, 2000, 10)
        race(__name__, files, warm_up=small, rounds=options.rounds, unit="iteration_cov")
