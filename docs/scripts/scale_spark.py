"""Measure what a report reduces of all instances, by Polars and Spark, and write the page on scale.

    PYTHONPATH=. python docs/scripts/scale_spark.py FOLDER [SCALE ...]

For each scale (0.1 and 0.4 where none is named) a synthetic trace in the form of alibaba-pai-2020
is ingested in FOLDER. Then a sample of its jobs is drawn, the instances of these are reduced to
tasks, and the interarrival times of all jobs are computed. CPU time is that of a process and its
children, Java among them: unlike wall time, it does not depend on what else runs.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
from findings import PAGES, as_table, write_measured
from scale_growth import TRACE, memory_mib

INSTANCES = 1e9
ENGINES = {"Polars": None, "Spark": "local[1]"}
TICK_S = os.sysconf("SC_CLK_TCK")
WORK = f"""
import sys
import time
from traceana import open_store
import traceana as analysis
from traceana.cohorts import tasks as job_sample
from traceana.cohorts.tasks import instance_times
from traceana.store.session import Session
job_sample.MAX_TASKS, job_sample.SAMPLED_TASKS = 20_000, 15_000
session = Session(open_store(sys.argv[1]), sys.argv[2] or None)
session.once(instance_times, "{TRACE}")
analysis.interarrivals(session.frame("{TRACE}", "jobs"))
"""


def main(folder: Path, scales: list[float]) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    rows = [row for scale in sorted(scales) for row in of_scale(folder, scale)]
    runs = pl.DataFrame(rows, orient="row", schema=["instances", "engine", "CPU s", "peak MiB"])
    write_measured("scale.md", estimate(runs), name="billion")


def of_scale(folder: Path, scale: float) -> list[tuple[int, str, float, float]]:
    files, store = folder / "files", folder / "store"
    traceana, generator = ([sys.executable, "-m", name] for name in ("traceana", "tests.generator"))
    for command in (
        [*generator, str(files), "--trace", TRACE, "--scale", str(scale)],
        [*traceana, "ingest", str(files), "--store", str(store)],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    instances = pl.scan_parquet(store / TRACE / "instances.parquet").select(pl.len())
    found = []
    for engine, master in ENGINES.items():
        shutil.rmtree(folder / "cache", ignore_errors=True)
        used = run([sys.executable, "-c", WORK, str(store), master or ""])
        found.append((instances.collect().item(), engine, *used))
        print(*found[-1], flush=True)
    shutil.rmtree(files)
    shutil.rmtree(store)
    return found


def run(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak MiB of a process and its children, Java among them."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603
    cpu = peak = 0.0
    while process.poll() is None:
        cpu, peak = max(cpu, cpu_s(process.pid)), max(peak, memory_mib(process.pid))
        time.sleep(0.05)
    if process.returncode:
        sys.exit(process.stderr.read().decode())
    return cpu, peak


def cpu_s(pid: int) -> float:
    """User and system seconds of a process and its descendants that run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended
        return 0.0
    own = sum(map(int, fields[11:15])) / TICK_S
    return own + sum(cpu_s(int(child)) for child in " ".join(lists).split())


def estimate(runs: pl.DataFrame) -> str:
    """The time and memory of a billion instances, linear between the two largest sizes."""
    rows = []
    for step in ("ingest", "report"):
        instances, seconds, cpu, mib = measured_growth(step)
        hours = max(at_a_billion(instances, seconds), at_a_billion(instances, cpu) / 2) / 3600
        gib = at_a_billion(instances, mib) / 1024
        of = f"{instances[0] / 1e6:,.1f} and {instances[1] / 1e6:,.1f} million instances"
        rows.append((f"{step}, Polars", "1, 2 cores", f"{hours:.2f} h", f"{gib:,.0f} GiB", of))
    for engine, machines in (("Polars", (1,)), ("Spark", (1, 4, 16, 64))):
        sizes = runs.filter(pl.col("engine") == engine).sort("instances").tail(2).drop("engine")
        instances, cpu, mib = (
            [0.0, *column][-2:] for column in sizes.to_dict(as_series=False).values()
        )
        for n in machines:
            hours = at_a_billion(instances, cpu) / (2 * n) / 3600
            of = f"{instances[0] / 1e6:,.2f} and {instances[1] / 1e6:,.2f} million instances"
            of = of if n == 1 else "the same, divided evenly"
            gib = f"{max(mib) / 1024:,.1f} GiB each, as measured"
            rows.append((f"reduction, {engine}", f"{n}, 2 cores each", f"{hours:.2f} h", gib, of))
    schema = ["step", "machines", "time", "memory", "extrapolated from"]
    return as_table(pl.DataFrame(rows, orient="row", schema=schema))


def at_a_billion(instances: list[float], values: list[float]) -> float:
    slope = (values[1] - values[0]) / (instances[1] - instances[0])
    return values[1] + max(slope, 0) * (INSTANCES - instances[1])


def measured_growth(step: str) -> list[list[float]]:
    """Instances, seconds, CPU seconds and MiB of a step at the two largest scales on the page."""
    page = (PAGES / "scale.md").read_text(encoding="utf-8")
    part = page.split("measured: growth begin")[1].split("measured: growth end")[0]
    cells = [line.strip("| ").replace(",", "").split(" | ") for line in part.splitlines()]
    instances = {row[0]: float(row[1]) for row in cells if len(row) == 7 and row[1].isdigit()}
    runs = [row for row in cells if len(row) == 5 and row[1] == step][-2:]
    found = [(instances[row[0]], *map(float, row[2:])) for row in runs]
    return [list(column) for column in zip(*found, strict=True)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), [float(scale) for scale in sys.argv[2:]] or [0.1, 0.4])
