"""Measure how time and memory grow with the size of a trace, and write the page on scale.

    python docs/scripts/scale_growth.py FOLDER [SCALE ...]

For each scale (0.01, 0.1, 1 and 4 where none is named) a synthetic trace in the form of
alibaba-pai-2020 is written into FOLDER, unpacked by tar, ingested, and reported on; then it is
removed. The largest takes about 20 GB of disk and half an hour on two cores.
"""

import math
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl
from findings import as_table, write_measured

from traceana.cohorts.tasks import SAMPLED_TASKS

TRACE = "alibaba-pai-2020"
STEPS = ("sample", "tar", "ingest", "report", "workload section alone")
SAMPLED_EVERY_S = 0.05
Row: TypeAlias = tuple[float, str, float, float, float]
TRACEANA = [sys.executable, "-m", "traceana"]
GENERATOR = [sys.executable, "-m", "tests.generator"]


def main(folder: Path, scales: list[float]) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # no report is kept from an earlier run
    measured = [of_scale(folder, scale) for scale in sorted(scales)]
    runs = pl.DataFrame(
        [row for rows, _ in measured for row in rows],
        orient="row",
        schema=["scale", "step", "seconds", "CPU s", "peak MiB"],
    )
    sizes = pl.DataFrame([size for _, size in measured])
    growth = pl.DataFrame(
        [(step, *exponents(runs.filter(pl.col("step") == step))) for step in STEPS],
        orient="row",
        schema=["step", "exponent of seconds", "of CPU s", "of peak MiB"],
    )
    libraries = f"Python {platform.python_version()}, Polars {pl.__version__}"
    where = f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {libraries}."
    tables = (sizes.tail(2), runs.tail(2 * len(STEPS)), growth)
    text = f"{where}\n\n" + "\n".join(as_table(table) for table in tables)
    write_measured("scale.md", text, name="growth")
    write_measured("scale.md", plan(runs, sizes), name="plan")


def of_scale(
    folder: Path, scale: float
) -> tuple[list[tuple[float, str, float, float, float]], dict[str, float]]:
    """What each step takes at one scale, and how large the trace is."""
    files, store, out = (folder / f"{scale:g}-{part}" for part in ("files", "store", "report"))
    unpack = 'for f in "$0"/*/*.tar.gz "$0"/*.tar.gz; do [ ! -e "$f" ] || tar xzOf "$f"; done'
    commands = {
        "sample": [*GENERATOR, str(files), "--trace", TRACE, "--scale", str(scale)],
        "tar": ["bash", "-c", f"({unpack}) >/dev/null", str(files)],
        "ingest": [*TRACEANA, "ingest", str(files), "--store", str(store)],
        "report": [*TRACEANA, "report", "--store", str(store), "--out", str(out)],
    }
    # the one section that keeps one row per job in memory
    commands["workload section alone"] = [*commands["report"], "--only", "workload"]
    rows = []
    for step in STEPS:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        rows.append((scale, step, *run(commands[step])))
    count = ["bash", "-c", f"({unpack}) | wc -c", str(files)]
    csv = int(subprocess.run(count, check=True, stdout=subprocess.PIPE).stdout)  # noqa: S603
    tables = {path.stem: path for path in (store / TRACE).glob("*.parquet")}
    number = {
        name: pl.scan_parquet(tables[name]).select(pl.len()).collect().item()
        for name in ("instances", "tasks", "jobs")
    }
    size = {
        "scale": scale,
        "instances": number["instances"],
        "tasks": number["tasks"],
        "jobs": number["jobs"],
        "GB of CSV": csv / 1e9,
        "GB packed": sum(path.stat().st_size for path in files.rglob("*.tar.gz")) / 1e9,
        "GB of Parquet": sum(path.stat().st_size for path in tables.values()) / 1e9,
    }
    for left in (files, store, out):
        shutil.rmtree(left)
    return rows, size


def plan(runs: pl.DataFrame, sizes: pl.DataFrame) -> str:
    """The arithmetic for a trace of 2.4 TiB of CSV, from the largest scale that was measured."""
    largest = sizes.sort("scale").row(-1, named=True)
    took = {row["step"]: row for row in runs.filter(pl.col("scale") == largest["scale"]).to_dicts()}
    csv_gb = 2.4 * 2**40 / 1e9
    times = csv_gb / largest["GB of CSV"]
    ingest_h = took["ingest"]["seconds"] * times / 3600
    report_h = took["report"]["seconds"] * times / 3600
    held = runs.filter(pl.col("step") == "workload section alone").sort("scale")["peak MiB"]
    # from the smallest scale on: between two neighbors what an allocator keeps weighs as much
    (first, *_, last), (fewer, *_, more) = held.to_list(), sizes.sort("scale")["jobs"].to_list()
    per_job = (last - first) * 2**20 / (more - fewer)
    rate = largest["GB of CSV"] / took["ingest"]["seconds"]
    memory_gib = per_job * largest["jobs"] * times / 2**30
    share = min(1, SAMPLED_TASKS / (largest["tasks"] * times))
    alike = f"in proportion to scale {largest['scale']:g}"
    rows = [
        ("CSV", f"2.4 TiB = {csv_gb:,.0f} GB", "given"),
        ("instances", f"{largest['instances'] * times / 1e9:,.1f} billion", alike),
        ("tasks", f"{largest['tasks'] * times / 1e6:,.0f} million", alike),
        ("Parquet", f"{largest['GB of Parquet'] * times:,.0f} GB", alike),
        ("ingest on one such machine", f"{ingest_h:,.1f} h", f"{rate:.3f} GB of CSV a second"),
        ("machines to ingest it in an hour", f"{math.ceil(ingest_h)}", "a part of the files each"),
        ("tasks analyzed one by one", f"{100 * share:.2f} %", "the sample of jobs"),
        ("report on one such machine", f"{report_h:,.1f} h at most", alike),
        ("memory for that", f"{memory_gib:,.0f} GiB", f"{per_job:,.0f} bytes a job, as it grew"),
    ]
    return as_table(pl.DataFrame(rows, orient="row", schema=["what", "for 2.4 TiB", "from"]))


def run(command: list[str]) -> tuple[float, float, float]:
    """Seconds, processor seconds, and the peak MiB of a command and all its children."""
    before = os.times()
    start = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, memory_mib(process.pid))
        time.sleep(SAMPLED_EVERY_S)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(process.stderr.read().decode())
    after = os.times()
    used = after.children_user + after.children_system
    return seconds, used - before.children_user - before.children_system, peak


def memory_mib(pid: int) -> float:
    """Proportional set size of a process and its descendants: what is shared counts once."""
    total = 0
    try:
        total = int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("\nPss:")[2].split()[0])
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (OSError, IndexError):  # it has ended
        lists = []
    return total / 1024 + sum(memory_mib(int(child)) for child in " ".join(lists).split())


def exponents(runs: pl.DataFrame) -> list[float]:
    """Slopes of the logarithms on that of scale, between the two largest scales."""
    steps = runs.sort("scale").tail(2).select("scale", "seconds", "CPU s", "peak MiB")
    scale, *slopes = np.diff(np.log(steps.to_numpy()), axis=0)[0]
    return [float(slope / scale) for slope in slopes]


if __name__ == "__main__":
    main(Path(sys.argv[1]), [float(scale) for scale in sys.argv[2:]] or [0.01, 0.1, 1, 4])
