"""Measure what a report reduces of all instances, by Polars and Spark, and write the page on scale.

    PYTHONPATH=. python docs/scripts/scale_spark.py FOLDER [SCALE ...]

For each scale (0.1 and 0.4 where none is named) a synthetic trace in the form of alibaba-pai-2020
is ingested in FOLDER. Then a sample of its jobs is drawn, the instances of these are reduced to
tasks, and the interarrival times of all jobs are computed. CPU time is that of a process and its
children, Java among them: unlike wall time, it does not depend on what else runs.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
from findings import PAGES, as_table, write_measured
from scale_growth import TRACE, memory_mib

INSTANCES = 1e9
ENGINES = {"Polars": None, "Spark, 1 core": "local[1]", "Spark, 2 cores": "local[2]"}
TICK_S = os.sysconf("SC_CLK_TCK")
WORK = f"""
import sys
from traceana import analysis, open_store
from traceana.derived import job_sample
from traceana.derived.tasks import instance_times
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
    versions = f"Python {platform.python_version()}, Polars {pl.__version__}"
    where = f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {versions}."
    write_measured("scale.md", f"{where}\n\n{as_table(runs)}", name="spark")
    write_measured("scale.md", estimate(runs), name="billion")


def of_scale(folder: Path, scale: float) -> list[tuple[int, str, float, float]]:
    files, store = folder / "files", folder / "store"
    traceana = [sys.executable, "-m", "traceana"]
    for command in (
        [*traceana, "sample", str(files), "--trace", TRACE, "--scale", str(scale)],
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
    """The time and memory of a billion instances, linear between the two largest scales."""

    def line(engine: str, column: str) -> tuple[float, float]:
        of = runs.filter(pl.col("engine") == engine).sort("instances").tail(2)
        x, y = of["instances"].to_list(), of[column].to_list()
        slope = (y[1] - y[0]) / (x[1] - x[0])
        return y[1] - slope * x[1], slope

    rows = []
    ingest_s, largest = measured_ingest()
    times = INSTANCES / largest
    alike = f"{largest / 1e6:,.1f} million instances, in proportion"
    rows.append(("ingest", "one machine, 2 cores", f"{ingest_s * times / 3600:.1f} h", "", alike))
    begin, slope = line("Polars", "CPU s")
    low, per = line("Polars", "peak MiB")
    hours = (begin + slope * INSTANCES) / 2 / 3600
    memory = f"{(low + max(per, 0) * INSTANCES) / 1024:,.0f} GiB"
    of = "the two sizes above, linear"
    rows.append(("reduction, Polars", "one machine, 2 cores", f"{hours:.2f} h", memory, of))
    begin, slope = line("Spark, 2 cores", "CPU s")
    low, per = line("Spark, 2 cores", "peak MiB")
    for workers in (1, 4, 16, 64):
        hours = (begin + slope * INSTANCES / (2 * workers)) / 3600
        own = f"{(low + max(per, 0) * INSTANCES / workers) / 1024:,.0f} GiB each"
        basis = of if workers == 1 else "the same, divided evenly"
        machines = f"{workers} worker{'s' * (workers > 1)} of 2 cores"
        rows.append(("reduction, Spark", machines, f"{hours:.2f} h", own, basis))
    schema = ["step", "machines", "time", "memory at most", "extrapolated from"]
    return as_table(pl.DataFrame(rows, orient="row", schema=schema))


def measured_ingest() -> tuple[float, float]:
    """Seconds of ingest and number of instances of the largest scale on the page."""
    page = (PAGES / "scale.md").read_text(encoding="utf-8")
    part = page.split("measured: growth begin")[1].split("measured: growth end")[0]
    sizes = re.findall(r"^\| ([\d.]+) \| ([\d,]+) \| [\d,]+ \| [\d,]+ \|", part, re.MULTILINE)
    scale, instances = max(sizes, key=lambda row: float(row[0]))
    seconds = re.search(rf"^\| {re.escape(scale)} \| ingest \| ([\d.]+) \|", part, re.MULTILINE)
    return float(seconds[1]), float(instances.replace(",", ""))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [float(scale) for scale in sys.argv[2:]] or [0.1, 0.4])
