"""Reshaping of the CoV table of ``alibaba-minibatch-2020``: one column per sample becomes rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.ingesters.readers.lines import LINE

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Reshape:
    """What turns text cells into another number of rows, and the columns of these."""

    columns: tuple[str, ...]
    apply: Callable[[pl.DataFrame], pl.DataFrame]


def _samples_below_each_other(cells: pl.DataFrame) -> pl.DataFrame:
    """One row per sample; the empty cells after a job's last sample are padding, not samples."""
    samples = [name for name in cells.columns if name.isdigit()]
    long = cells.select(pl.col("").alias("job"), LINE, *samples).unpivot(
        samples, index=["job", LINE], variable_name="sample", value_name="cov"
    )
    sample = pl.col("sample").cast(pl.Int64)
    last = pl.when(pl.col("cov").is_not_null()).then(sample).max().over(LINE)
    return long.filter(sample <= last).sort(LINE, sample, maintain_order=True)


RESHAPES: Final = {
    ("alibaba-minibatch-2020", "cov_samples"): Reshape(
        ("job", "sample", "cov"), _samples_below_each_other
    )
}
"""By trace and table."""
