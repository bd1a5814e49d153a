"""Measure on a store of the public traces, and write the appendix: python measured.py STORE."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from findings import write_measured

from traceana import open_store

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*_findings.py"))

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} STORE (a folder made by traceana ingest)")
    store = open_store(sys.argv[1])
    for script in NAMES:
        name = script.removesuffix("_findings")
        write_measured("measured.md", import_module(script).measure(store), name=name)
