"""Energy and time to the target against the batch size, at the best and the largest limit."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.results.energy import BatchSizeSweep
from traceana.results.tables import declared, returns

_NEEDED: Final = (
    "batch_size", "power_limit_w", "tta_s", "eta_j", "runs", "epochs_min", "epochs_max",
    "epoch_s", "mean_power_w",
)  # fmt: skip
_ENDS: Final = {"low": "min", "high": "max"}


@returns(BatchSizeSweep)
def batch_size_sweep(energy: pl.DataFrame, /) -> pl.DataFrame:
    """Select each batch size at the limit of least energy, and at the largest limit.

    Parameters
    ----------
    energy
        What :func:`energy_to_accuracy` returns.

    Returns
    -------
    DataFrame
        Sorted by limit and batch size. A batch size not profiled at the largest limit has no such
        row:

        {columns}

    Raises
    ------
    DataError
        If a column is missing.

    References
    ----------
    You et al., Zeus (NSDI'23): energy to accuracy against batch size.
    """
    missing = [name for name in _NEEDED if name not in energy.columns]
    if missing:
        raise DataError(f"column {', '.join(missing)} is missing; give energy_to_accuracy's result")
    ordered = energy.sort("batch_size", "eta_j", "power_limit_w")
    limits = {
        "best": ordered.unique("batch_size", keep="first", maintain_order=True),
        "largest": ordered.filter(pl.col("power_limit_w") == pl.col("power_limit_w").max()),
    }

    ranges = []
    for end, of in _ENDS.items():
        time = pl.col(f"epochs_{of}") * pl.col("epoch_s")
        ranges += [
            time.alias(f"tta_{end}_s"),
            (time * pl.col("mean_power_w")).alias(f"eta_{end}_j"),
        ]
    swept = pl.concat(
        rows.select(pl.lit(limit).alias("limit"), pl.all()) for limit, rows in limits.items()
    )
    return declared(swept.with_columns(ranges), BatchSizeSweep)
