"""``python -m tests.benchmarks NAME [--figure FILE] [options]``."""

import argparse
import importlib
from pathlib import Path

NAMES = sorted(
    path.stem
    for path in Path(__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "__main__", "race", "results")
)

parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", add_help=False)
parser.add_argument("name", choices=NAMES, help="a benchmark; NAME --help tells its options")
parser.add_argument("--figure", type=Path, help="draw the tables too: .svg, .pdf or .png")
# all other options are the benchmark's own, --help too
options, own = parser.parse_known_args()
importlib.import_module(f"tests.benchmarks.{options.name}").main(own)
if options.figure is not None:
    from tests.benchmarks.results import draw

    draw(options.figure)
