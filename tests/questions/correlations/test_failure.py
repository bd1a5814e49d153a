"""Correlations of failure with requested resources, against SciPy."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from traceana import correlate, failure_correlations
from traceana.errors import DataError


def tasks(n: int = 400) -> pl.DataFrame:
    """Tasks of 40 users; those with more GPUs fail more often on one GPU type only."""
    rng = np.random.default_rng(7)
    gpus = rng.choice([0.25, 0.5, 1.0, 2.0, 8.0], n)
    kind = rng.choice(["T4", "V100"], n)
    chance = np.where(kind == "V100", 0.2 + 0.07 * gpus, 0.3)
    status = np.where(rng.random(n) < chance, "failed", "completed")
    status[:20] = "running"
    return pl.DataFrame(
        {
            "status": status,
            "gpus": pl.Series(gpus).set(pl.Series(np.arange(n) % 50 == 49), None),
            "memory_gib": rng.lognormal(2, 0.5, n),
            "gpu_type": kind,
            "user": (np.arange(n) % 40).astype(str),
        }
    )


def test_r_is_scipys_point_biserial_and_rank_correlation_within_each_type() -> None:
    frame = tasks()
    found = failure_correlations(frame, by="gpu_type")
    assert found.table.height == 2 * 2 * 2
    for row in found.table.iter_rows(named=True):
        own = frame.filter(gpu_type=row["gpu_type"]).filter(pl.col("status") != "running")
        known = own.drop_nulls(row["x"])
        assert row["n"] == known.height
        assert row["n_missing"] == own.height - known.height
        failed = (known["status"] == "failed").to_numpy()
        test = stats.pointbiserialr if row["method"] == "pearson" else stats.spearmanr
        expected = test(failed, known[row["x"]].to_numpy())
        assert row["r"] == pytest.approx(expected.statistic, rel=1e-10)
        assert row["pvalue_t"] == pytest.approx(expected.pvalue, rel=1e-8)
    adjusted = stats.false_discovery_control(found.table["pvalue"].to_numpy())
    np.testing.assert_allclose(found.table["pvalue_adjusted"], adjusted)


def test_a_definition_of_failure_changes_the_rows() -> None:
    frame = tasks()
    strict = failure_correlations(frame, features="memory_gib", method="pearson").table
    wide = failure_correlations(
        frame, features="memory_gib", method="pearson", failure=("failed", "running")
    ).table
    assert (strict["n"].item(), wide["n"].item()) == (380, 400)
    own = frame["status"].is_in(["failed", "running"]).to_numpy()
    expected = stats.pointbiserialr(own, frame["memory_gib"].to_numpy()).statistic
    assert wide["r"].item() == pytest.approx(expected)


def test_copies_of_a_user_leave_the_clustered_interval_as_it_is() -> None:
    frame = tasks().drop_nulls()
    once, thrice = (
        failure_correlations(rows, features="gpus", method="pearson", cluster="user").table
        for rows in (frame, pl.concat([frame] * 3))
    )
    assert thrice["r"].item() == pytest.approx(once["r"].item())
    assert thrice["ci_low"].item() == pytest.approx(once["ci_low"].item(), abs=1e-6)
    alone = failure_correlations(pl.concat([frame] * 3), features="gpus", method="pearson").table
    width = alone["ci_high"].item() - alone["ci_low"].item()
    assert width < 0.75 * (thrice["ci_high"].item() - thrice["ci_low"].item())


def test_correlate_takes_a_boolean_y_as_0_and_1() -> None:
    frame = tasks().with_columns(failed=pl.col("status") == "failed")
    numbers = frame.with_columns(pl.col("failed").cast(pl.Int8))
    for level in ("row", "group_mean"):
        found, expected = (
            correlate(rows, "gpus", "failed", level=level).table for rows in (frame, numbers)
        )
        assert found.equals(expected)


def test_a_boolean_x_and_a_frame_without_features_are_refused() -> None:
    frame = tasks().with_columns(failed=pl.col("status") == "failed")
    with pytest.raises(DataError, match="column failed holds Boolean; numbers are needed"):
        correlate(frame, "failed", "gpus")
    with pytest.raises(DataError, match="pass features="):
        failure_correlations(frame.select("status"))
