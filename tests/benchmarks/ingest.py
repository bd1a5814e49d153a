"""``traceana ingest`` of a .tar.gz beside tar, and beside libraries that get the unpacked CSV.

The unit is ``tar xzf`` alone. The file is the synthetic instance table of alibaba-pai-2020. Only
ingest reads the archive, checks every row and brings its Parquet file to the disk; the others
are given the CSV that tar would have to unpack first, check nothing and call no fsync.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.results import show
from tests.generator import write_sample

DUCKDB = """
import sys, duckdb
duckdb.execute("SET memory_limit = '4GB'")
duckdb.execute("SET preserve_insertion_order = false")
duckdb.execute("SET enable_progress_bar = false")
rows = duckdb.read_csv(sys.argv[1], header=False, all_varchar=True)
rows.write_parquet(sys.argv[2], compression="zstd")
"""
POLARS = """
import sys, polars as pl
rows = pl.scan_csv(sys.argv[1], has_header=False, infer_schema=False)
rows.sink_parquet(sys.argv[2], compression="zstd", compression_level=1)
"""
PANDAS = """
import sys, pandas as pd
rows = pd.read_csv(sys.argv[1], header=None, names=list("abcdefghi"), engine="pyarrow")
rows.to_parquet(sys.argv[2], compression="zstd")
"""
PYARROW = """
import sys, pyarrow as pa, pyarrow.parquet as pq
from pyarrow import csv
names = list("abcdefghi")
rows = csv.open_csv(
    sys.argv[1],
    read_options=csv.ReadOptions(column_names=names, block_size=1 << 24),
    convert_options=csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
)
with pq.ParquetWriter(sys.argv[2], rows.schema, compression="zstd") as to:
    for batch in rows:
        to.write_batch(batch)
"""


def commands(archive: Path, csv: Path, to: Path) -> dict[str, list[str]]:
    """Return every contender's command; imports are in its time."""

    def python(code: str, source: Path) -> list[str]:
        return [sys.executable, "-c", code, str(source), str(to / "rows")]

    traceana = [sys.executable, "-m", "traceana"]
    return {
        "tar xzf": ["tar", "xzf", str(archive), "-C", str(to)],
        "traceana ingest (.tar.gz)": [*traceana, "ingest", str(archive), "--store", str(to)],
        "Polars (CSV)": python(POLARS, csv),
        "DuckDB (CSV)": python(DUCKDB, csv),
        "pandas (CSV)": python(PANDAS, csv),
        "pyarrow (CSV)": python(PYARROW, csv),
    }


def run_once(command: list[str]) -> tuple[float, float, float]:
    """Return seconds, processor seconds and peak MiB of a command and all its children."""
    before, start = os.times(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, _memory_of_tree(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"failed: {command}")
    after = os.times()
    processor = after.children_user + after.children_system
    return seconds, processor - before.children_user - before.children_system, peak


def _memory_of_tree(pid: int) -> float:
    """Return the resident MiB of a process and its children, as it is now."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):  # it has just ended
        return 0.0
    own = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return own + sum(_memory_of_tree(int(child)) for child in children)


def main(arguments: list[str]) -> None:
    """Run the contenders round by round and print medians."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks ingest", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the published trace")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample = write_sample(folder / "sample", scale=options.scale, traces="alibaba-pai-2020")
        archive = next(sample.rglob("*pai_instance_table.tar.gz"))
        subprocess.run(["tar", "xzf", str(archive), "-C", name], check=True)
        csv = next(folder.glob("*.csv"))
        gigabytes, packed = csv.stat().st_size / 1e9, archive.stat().st_size / 1e9
        size = f"{gigabytes:.2f} GB of CSV, {packed:.2f} GB packed"
        runs: dict[str, list[tuple[float, float, float]]] = {}
        for _ in range(options.rounds):
            for contender in commands(archive, csv, folder):
                with tempfile.TemporaryDirectory(dir=folder) as to:
                    done = run_once(commands(archive, csv, Path(to))[contender])
                runs.setdefault(contender, []).append(done)
    medians = {c: [statistics.median(f) for f in zip(*r, strict=True)] for c, r in runs.items()}
    show(f"{size}: medians of {options.rounds} rounds", medians, unit="tar xzf")
