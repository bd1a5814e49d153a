"""Tests; here, what libraries read as they load, in this process and those that it starts."""

import os
import sys

# frames are small, and pytest fills the cores: a second thread costs more than it computes
if "PYTEST_VERSION" in os.environ:  # not of benchmarks
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# every process compiles anew what none may keep
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
