"""Devices, splits, clusters and factors of the paper, from published.toml."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any, Final

import polars as pl

PUBLISHED: Final[dict[str, Any]] = tomllib.loads(
    files("traceana.simulate.batching").joinpath("published.toml").read_text(encoding="utf-8")
)
"""Numbers of Tyagi and Sharma (ACSOS'20): dead_band, devices, splits, later, clusters, gains."""

DEVICES: Final = pl.DataFrame(
    [{"device": name, **entry} for name, entry in PUBLISHED["devices"].items()]
)
"""Cores and peak half-precision TFLOPS of a device, with their source."""

SPLITS: Final[dict[str, tuple[int, ...]]] = {
    name: tuple(split) for name, split in PUBLISHED["splits"].items()
}
"""CPU cores of three workers, by the name of the split in the paper."""

LEVELS: Final = {
    "/".join(map(str, split)): tuple(split)
    for split in (*PUBLISHED["later"].values(), *PUBLISHED["splits"].values())
    if sum(split) in (39, 48)
}
"""CPU cores of a job's workers: 48 for four (authors' later code), 39 for three (the paper)."""
