"""How tight deadlines are: by hand, and on the real files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.questions.deadlines.plans import planted
from traceana import deadline_tightness
from traceana.errors import DataError
from traceana.store import Store

JOBS = pl.DataFrame(
    {
        "cluster": ["a", "a", "a", "b"],
        "job_id": ["w", "x", "y", "z"],
        "submit_s": [100.0, 0.0, 0.0, 0.0],
        "runtime_s": [100.0, 100.0, 400.0, None],
        "gpus": [1.0, 4.0, 1.0, 1.0],
    }
)
PLANS = JOBS.select("cluster", "job_id").with_columns(
    model=pl.lit("m"),
    batch_size=8,
    iterations=pl.Series([100, 400, 400, 5]),
    deadline_s=pl.Series([200.0, 90.0, 200.0, 9.0]),
)


def test_by_hand() -> None:
    # tightness 1, 0.9 and 0.5; on 4 GPUs (4 iterations a second) 400 iterations take 100 s, so the
    # third deadline, after 200 s, can be met and the second, after 90 s, cannot
    row = deadline_tightness(PLANS, JOBS).row(0, named=True)
    assert (row["n"], row["n_met"], row["n_met_fastest"]) == (3, 1, 2)
    assert row["fraction_met"] == pytest.approx(1 / 3)
    assert (row["tightness_min"], row["tightness_median"], row["tightness_max"]) == (0.5, 0.9, 1)
    assert row["ci_low"] < 1 / 3 < row["ci_high"]


def test_by_a_column_of_either_table() -> None:
    plans, jobs = planted()
    by_model = deadline_tightness(plans, jobs, by=["model", "batch_size"])
    by_gpus = deadline_tightness(plans, jobs, by="gpus")
    assert by_model["n"].sum() == by_gpus["n"].sum() == plans.height
    assert by_gpus["gpus"].to_list() == [1.0, 4.0]


def test_real_files(real_store: Store) -> None:
    plans = real_store.scan("elasticflow-2023", "training_plans")
    jobs = real_store.scan("elasticflow-2023", "jobs")
    row = deadline_tightness(plans, jobs).row(0, named=True)
    both = plans.join(jobs, on=["cluster", "job_id"]).collect()
    left = (both["deadline_s"] - both["submit_s"]).to_numpy()
    assert row["n"] == 69_351
    assert row["n_met"] == int((left >= both["runtime_s"].to_numpy()).sum())
    ratio = left / both["runtime_s"].to_numpy()
    assert row["tightness_median"] == pytest.approx(np.median(ratio), rel=1e-12)
    assert row["n_met"] < row["n_met_fastest"] < row["n"]


def test_mistakes_are_told_in_one_line() -> None:
    with pytest.raises(DataError, match="by cannot name n"):
        deadline_tightness(PLANS, JOBS.with_columns(n=1), by="n")
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        deadline_tightness(PLANS, JOBS, confidence=95)
    with pytest.raises(DataError, match="column region is missing"):
        deadline_tightness(PLANS, JOBS, by="region")
