"""``python -m tests.benchmarks NAME [options]``."""

import importlib
import sys
from pathlib import Path

NAMES = sorted(
    path.stem
    for path in Path(__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "__main__", "race")
)

if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
    sys.exit(f"usage: python -m tests.benchmarks {{{','.join(NAMES)}}} [--help]")
importlib.import_module(f"tests.benchmarks.{sys.argv[1]}").main(sys.argv[2:])
