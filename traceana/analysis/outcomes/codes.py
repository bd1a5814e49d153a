"""Groups and clusters as whole numbers from 0 on, refused where there is nothing to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

MOST_GROUPS: Final = 50
"""So many groups are 1225 pairs."""


def group_codes(rows: pl.DataFrame, keys: Sequence[str], /) -> tuple[Integers, pl.DataFrame]:
    """Return each row's group as a number, and the groups' keys in order, nulls last.

    Raises
    ------
    DataError
        If there are fewer than two groups, or more than :data:`MOST_GROUPS`.
    """
    name = ", ".join(keys)
    if not keys:
        raise DataError("by names no column; groups are needed to compare, such as by='gpu_type'")
    labels = rows.select(keys).unique().sort(keys, nulls_last=True)
    if not 2 <= labels.height <= MOST_GROUPS:
        raise DataError(
            f"{name} makes {labels.height} group{'s' * (labels.height != 1)} of the rows that can "
            f"be compared; from 2 to {MOST_GROUPS} are needed"
        )
    numbered = labels.with_columns(code=pl.int_range(pl.len(), dtype=pl.Int64))
    joined = rows.select(keys).join(
        numbered, on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["code"].to_numpy(), labels


def cluster_codes(column: pl.Series, /) -> Integers:
    """Return each row's cluster as a number.

    Raises
    ------
    DataError
        If there are fewer than two clusters.
    """
    codes = (column.rank("dense") - 1).cast(pl.Int64).to_numpy()
    if codes.max(initial=0) < 1:
        raise DataError(
            f"column {column.name} makes one cluster of the rows that can be compared; two at "
            "least are needed"
        )
    return np.asarray(codes)
