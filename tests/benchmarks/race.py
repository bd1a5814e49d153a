"""Contenders one after the other, round by round, each run in a process of its own.

The clock runs inside that process, after the contender's libraries are loaded and it has done the
same on a small file; peak memory is the process's own, libraries included.
"""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks.results import show

Contender: TypeAlias = Callable[[Path], object]


def run_once(module: str, name: str, warm_up: str, path: str) -> None:
    """Run a contender here and print its seconds, processor seconds and peak memory in MiB."""
    contender: Contender = importlib.import_module(module).CONTENDERS[name]
    contender(Path(warm_up))
    start, processor_start = time.perf_counter(), time.process_time()
    contender(Path(path))
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    # not ru_maxrss, which a child takes over from its parent
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    figures = [seconds, processor, int(status["VmHWM"].split()[0]) / 1024]
    # on a line of its own: DuckDB draws a progress bar where a query takes seconds
    sys.stdout.write(f"\n{json.dumps(figures)}")


def race(
    module: str, files: Mapping[str, Path], *, warm_up: Path, rounds: int, unit: str
) -> dict[tuple[str, str], float]:
    """Print a table of medians, and return the median seconds by (file, contender).

    A contender whose name ends in the name of a file in brackets runs on that file alone.
    """
    contenders = list(importlib.import_module(module).CONTENDERS)
    medians: dict[tuple[str, str], float] = {}
    for kind, path in files.items():
        runs: dict[str, list[list[float]]] = {
            name: [] for name in contenders if "(" not in name or f"({kind})" in name
        }
        for _ in range(rounds):
            for name, done in runs.items():
                code = f"import sys; from {__name__} import run_once; run_once(*sys.argv[1:])"
                output = subprocess.run(
                    [sys.executable, "-c", code, module, name, str(warm_up), str(path)],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                ).stdout
                done.append(json.loads(output.splitlines()[-1]))
        middle = {
            name: [statistics.median(column) for column in zip(*done, strict=True)]
            for name, done in runs.items()
        }
        show(f"{kind}: medians of {rounds} rounds", middle, unit=unit)
        medians |= {(kind, name): figures[0] for name, figures in middle.items()}
    return medians
