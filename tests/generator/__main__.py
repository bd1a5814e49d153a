"""Write synthetic traces of any size: ``python -m tests.generator DIR --scale X --trace ID``."""

import argparse

from tests.generator import write_sample

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder")
parser.add_argument("--scale", type=float)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--trace", action="append")
options = parser.parse_args()
write_sample(options.folder, scale=options.scale, seed=options.seed, traces=options.trace)
