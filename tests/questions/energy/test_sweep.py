"""Each batch size at its best and at the largest limit, by hand."""

from __future__ import annotations

import polars as pl
import pytest

from traceana import batch_size_sweep
from traceana.errors import DataError

ENERGY = pl.DataFrame(
    {
        "batch_size": [8, 8, 16],
        "power_limit_w": [100.0, 200.0, 100.0],
        "tta_s": [40.0, 20.0, 30.0],
        "eta_j": [4000.0, 5000.0, 2000.0],
        "runs": [2, 2, 1],
        "epoch_s": [4.0, 2.0, 6.0],
        "mean_power_w": [100.0, 250.0, 200 / 3],
        "epochs_min": [8, 8, 5],
        "epochs_max": [12, 12, 5],
    }
)


def test_by_hand() -> None:
    sweep = batch_size_sweep(ENERGY)
    assert sweep.select("limit", "batch_size", "power_limit_w").rows() == [
        ("best", 8, 100.0),
        ("best", 16, 100.0),
        ("largest", 8, 200.0),
    ]
    first = sweep.row(0, named=True)
    assert (first["tta_low_s"], first["tta_s"], first["tta_high_s"]) == (32, 40, 48)
    assert (first["eta_low_j"], first["eta_j"], first["eta_high_j"]) == (3200, 4000, 4800)


def test_a_column_that_is_missing() -> None:
    with pytest.raises(DataError, match="column runs is missing"):
        batch_size_sweep(ENERGY.drop("runs"))
    assert batch_size_sweep(ENERGY.clear()).is_empty()
