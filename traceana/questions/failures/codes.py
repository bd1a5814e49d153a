"""Integer codes of groups and clusters, with checks on their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

MOST_LEVELS: Final = 50
"""Maximum number of groups: these are 1225 pairs."""


def group_codes(rows: pl.DataFrame, keys: Sequence[str], /) -> tuple[Integers, pl.DataFrame]:
    """Return the code of each row's group, and the keys of the groups in order, nulls last.

    Raises a DataError if there are fewer than two groups, or more than :data:`MOST_LEVELS`.
    """
    name = ", ".join(keys)
    if not keys:
        raise DataError("by names no column; name the groups to compare, such as by='gpu_type'")
    labels = rows.select(keys).unique().sort(keys, nulls_last=True)
    if not 2 <= labels.height <= MOST_LEVELS:
        raise DataError(
            f"{name} has {labels.height} group{'s' * (labels.height != 1)} of comparable rows; "
            f"from 2 to {MOST_LEVELS} are needed"
        )
    numbered = labels.with_columns(code=pl.int_range(pl.len(), dtype=pl.Int64))
    joined = rows.select(keys).join(
        numbered, on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["code"].to_numpy(), labels


def cluster_codes(column: pl.Series, /) -> Integers:
    """Return the code of each row's cluster.

    Raises a DataError if there are fewer than two clusters.
    """
    codes = (column.rank("dense") - 1).cast(pl.Int64).to_numpy()
    if codes.max(initial=0) < 1:
        raise DataError(
            f"column {column.name} has one cluster of comparable rows; at least two are needed"
        )
    return np.asarray(codes)
