"""``traceana ingest`` of a million Slurm jobs beside Polars, which only copies them to Parquet.

The unit is ``pl.read_csv(...).write_parquet(...)`` in the same run, a process of its own too.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

POLARS = (
    "import sys, polars as pl; pl.read_csv(sys.argv[1], separator='|').write_parquet(sys.argv[2])"
)
FIELDS = (
    "JobID|JobName|User|Account|Partition|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|"
    "ReqCPUS|NNodes|ReqMem|MaxRSS|TotalCPU|ReqTRES|AllocTRES|NodeList"
)
STATES = ["COMPLETED"] * 7 + ["FAILED", "TIMEOUT", "CANCELLED by 1001"]


def write_log(path: Path, jobs: int, steps: int) -> None:
    """Write a log with so many jobs, and steps of each."""
    rng = random.Random(1)
    submit = datetime(2026, 1, 1, tzinfo=UTC)
    form = "%Y-%m-%dT%H:%M:%S"
    with path.open("w") as file:
        file.write(f"{FIELDS}\n")
        for job in range(1, jobs + 1):
            submit += timedelta(seconds=rng.randint(0, 15))
            start = submit + timedelta(seconds=rng.randint(0, 3600))
            runtime = min(int(rng.lognormvariate(6.5, 2)), 86399)
            times = f"{start:{form}}|{start + timedelta(seconds=runtime):{form}}"
            elapsed = f"{runtime // 3600:02}:{runtime // 60 % 60:02}:{runtime % 60:02}"
            gpus, user = rng.choice([1, 2, 4, 8]), rng.randint(1, 400)
            tres = f"cpu={gpus * 8},gres/gpu={gpus},mem=64G,node=1"
            file.write(
                f"{job}|train_{rng.randint(1, 5000)}|user{user}|p{user % 40}|gpu|"
                f"{rng.choice(STATES)}|0:0|{submit:{form}}|{times}|{elapsed}|"
                f"1-00:00:00|{gpus * 8}|1|64G||{elapsed}|{tres}|{tres}|node{rng.randint(1, 200)}\n"
            )
            for step in range(steps):
                file.write(
                    f"{job}.{step}|python||||COMPLETED|0:0|{start:{form}}|{times}|{elapsed}||8|1||"
                    f"{rng.randint(1, 10**7)}K|{elapsed}||cpu=8|node1\n"
                )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(own: list[str]) -> None:
    """Compare both, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=0, help="steps of each job")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(own)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "sacct.txt"
        write_log(log, options.jobs, options.steps)
        copy = [sys.executable, "-c", POLARS, str(log), str(folder / "copy.parquet")]
        ratios = []
        for repeat in range(options.repeats):
            ingest = [sys.executable, "-m", "traceana", "ingest", str(log)]
            ingest += ["--store", str(folder / f"store{repeat}")]
            seconds = []
            for command in (copy, ingest):
                begin = _cpu_seconds()
                subprocess.run(command, check=True, capture_output=True)
                seconds.append(_cpu_seconds() - begin)
            ratios.append(seconds[1] / seconds[0])
            sys.stdout.write(f"CPU: Polars {seconds[0]:.2f} s, traceana {seconds[1]:.2f} s\n")
        size = log.stat().st_size / 1e6
        sys.stdout.write(f"{size:.0f} MB: {statistics.median(ratios):.2f} times the CPU time\n")
