"""The best configuration by eta: its ends, its order, and the savings over the default."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.simulate.recurring.tiny import POWER, RUNS
from traceana import energy_savings, energy_to_accuracy, eta_sweep
from traceana.errors import DataError


def test_ends_and_order() -> None:
    # the tiny trace by hand: batch 2 needs 3 epochs, batch 4 needs 6; the default is 4 at 200 W
    found = eta_sweep(RUNS, POWER, gpu="g", dataset="cifar100", etas=np.linspace(0, 1, 21).tolist())
    energy = energy_to_accuracy(RUNS, POWER, gpu="g", dataset="cifar100")
    assert found["tta_s"][0] == min(energy["tta_s"])
    assert found["eta_j"][-1] == min(energy["eta_j"]) == 3 * 22 * 80
    assert (found["eta_j"].diff().drop_nulls() <= 0).all()
    assert (found["tta_s"].diff().drop_nulls() >= 0).all()
    assert found["cost_j"][0] == pytest.approx(200 * found["tta_s"][0])
    assert found["energy_saved"][-1] == pytest.approx(1 - 5280 / 9000)
    savings = energy_savings(RUNS, POWER).filter(choice="both", objective="cost")
    half = found.filter((pl.col("eta") - 0.5).abs() < 1e-9)
    cost = energy.sort("cost_j")["cost_j"][0]
    assert half["cost_j"].item() == pytest.approx(cost)
    assert savings["batch_size"].item() == half["batch_size"].item()


def test_what_is_wrong() -> None:
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(DataError, match="eta must lie from 0"):
            eta_sweep(RUNS, POWER, gpu="g", dataset="cifar100", etas=[wrong])
    never = RUNS.with_columns(target_epoch=pl.lit(None, pl.Int64))
    with pytest.raises(DataError, match="no configuration of cifar100 on g"):
        eta_sweep(never, POWER, gpu="g", dataset="cifar100")
