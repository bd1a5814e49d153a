"""CPU time of rejecting rows, in units of keeping as many: at most 3 for every format and fault."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from traceana.ingesters import ingest
from traceana.store import Ledger

_MAPPING = """
[jobs]
job_id = "id"
gpus = "g"
runtime_s = "r"
status = "s"
"""
_RECORD = "1|a|u|COMPLETED|2026-03-02T08:00:00|00:01:00"
FORMATS = {
    "x.csv": ("id,g,r,s\n", "j%d,1,2.5,completed", ["", "j%d", "j%d,x,1,a", 'j%d,"1,2,a']),
    "x.jsonl": (
        '{"id":"a","g":1,"r":1,"s":"a"}\n',
        '{"id":"j%d","g":1,"r":2.5,"s":"completed"}',
        ["", "{%d", "[%d]", '{"id":"j%d","g":"x","r":1,"s":"a"}'],
    ),
    "x.json": (
        '[{"id":"a","g":1,"r":1,"s":"a"}\n',
        ',{"id":"j%d","g":1,"r":2.5,"s":"completed"}',
        [",%d", ',{"id":"j%d","g":"x","r":1,"s":"a"}'],
    ),
    "x.txt": (
        f"JobID|JobName|User|State|Submit|Elapsed\n{_RECORD}\n",
        "9%d" + _RECORD[1:],
        ["", "9%d", "x%d" + _RECORD[1:], "9%d|a|u|COMPLETED|x|00:01:00"],
    ),
    "x.swf": (
        "; UnixStartTime: 0\n",
        "9%d 0 10 100 4 -1 -1 4 3600 -1 1 1 1 1 1 -1 -1 -1",
        ["9%d 0", "9%d 0 x 100 4 -1 -1 4 3600 -1 1 1 1 1 1 -1 -1 -1"],
    ),
}
"""By file: its beginning, a row to keep, and rows to reject."""
FIRST_ROWS = {"x.csv": 1, "x.jsonl": 2, "x.json": 2, "x.txt": 2, "x.swf": 1}
"""Rows that are kept of a file with faults."""


def ingest_faults(file: Path, row: str, rows: int, store: Path) -> Ledger:
    """Write and ingest a file of one row that is kept and so many like another."""
    head, good, _ = FORMATS[file.name]
    lines = [good % 1, *(row % i if "%d" in row else row for i in range(2, rows + 2)), ""]
    file.write_text(head + "\n".join(lines))
    if file.suffix in (".txt", ".swf"):
        return ingest(file, store=store)
    return ingest(file, store=store, mapping=_MAPPING, trace="m")


def main(own: list[str]) -> None:
    """Print the ratio for each format and fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args(own).rows
    for name, (_, good, faults) in FORMATS.items():
        seconds = {}
        for row in (good, good, *faults):  # modules are loaded in the first
            with tempfile.TemporaryDirectory() as folder:
                start = time.process_time()
                ingest_faults(Path(folder) / name, row, rows, Path(folder) / "store")
                seconds[row] = time.process_time() - start
        for fault in faults:
            sys.stdout.write(f"{name:8} {seconds[fault] / seconds[good]:.2f}  {fault!r}\n")
