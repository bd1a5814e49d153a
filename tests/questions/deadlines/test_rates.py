"""Throughput implied by plans: planted rates, and an independent reading of the real files."""

from __future__ import annotations

import csv
import io
import tarfile
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.questions.deadlines.plans import RATES, planted
from traceana import iteration_rates
from traceana.errors import DataError
from traceana.store import Store


def test_planted_rates_are_found_within_their_interval() -> None:
    found = iteration_rates(*planted())
    assert found["is_one_rate"].all()
    for row in found.iter_rows(named=True):
        rate = RATES[row["model"], row["batch_size"], row["gpus"]]
        assert row["lowest"] <= rate < row["highest"]
        assert row["iterations_per_s"] == pytest.approx(rate, rel=1e-4)
        assert row["samples_per_s"] == row["iterations_per_s"] * row["batch_size"]


def test_scaling_efficiency_is_against_one_gpu() -> None:
    found = iteration_rates(*planted()).filter(batch_size=64)
    one, four = found.sort("gpus").iter_rows(named=True)
    assert one["scaling_efficiency"] == 1
    assert four["scaling_efficiency"] == pytest.approx(12.5 / (4 * 6.25), rel=1e-4)


def test_by_hand() -> None:
    jobs = pl.DataFrame(
        {
            "cluster": ["a", "a", "b"],
            "job_id": ["x", "y", "x"],
            "submit_s": [0.0, 0.0, 0.0],
            "runtime_s": [10.0, 20.0, 10.0],
            "gpus": [2.0, 2.0, 2.0],
        }
    )
    plans = jobs.select("cluster", "job_id").with_columns(
        model=pl.lit("m"), batch_size=8, iterations=pl.Series([35, 71, 36]), deadline_s=20.0
    )
    # 35/10 <= x < 36/10 and 71/20 <= x < 72/20: x in [3.55, 3.6)
    agree = iteration_rates(plans.head(2), jobs).row(0, named=True)
    assert (agree["lowest"], agree["highest"], agree["n"]) == (3.55, 3.6, 2)
    assert agree["iterations_per_s"] == pytest.approx(3.575)
    assert agree["spread"] == pytest.approx((3.55 - 3.5) / 3.525)
    assert agree["scaling_efficiency"] is None
    # 3.6 <= x < 3.7 beside them: no rate is in all three
    differ = iteration_rates(plans, jobs).row(0, named=True)
    assert not differ["is_one_rate"]
    assert differ["lowest"] is None
    assert differ["iterations_per_s"] == pytest.approx(3.55)


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(0.01, 500), runtimes=st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_any_one_rate_is_told_as_one(rate: float, runtimes: list[int]) -> None:
    n = len(runtimes)
    jobs = pl.DataFrame(
        {
            "cluster": ["c"] * n,
            "job_id": [str(i) for i in range(n)],
            "submit_s": [0.0] * n,
            "runtime_s": [float(t) for t in runtimes],
            "gpus": [1.0] * n,
        }
    )
    whole = [int(Fraction(rate) * t) for t in runtimes]
    plans = jobs.select("cluster", "job_id").with_columns(
        model=pl.lit("m"), batch_size=1, iterations=pl.Series(whole), deadline_s=1.0
    )
    row = iteration_rates(plans, jobs).row(0, named=True)
    assert row["is_one_rate"]
    assert row["lowest"] <= rate * (1 + 1e-12)
    assert row["highest"] >= rate * (1 - 1e-12)


def test_published_files_hold_97_rates_read_independently(
    real_data: Path, real_store: Store
) -> None:
    cells: dict[tuple[str, int, float], list[tuple[int, int]]] = defaultdict(list)
    with tarfile.open(real_data / "elasticflow-2023" / "elasticflow-traces.tar.gz") as archive:
        for member in archive:
            if "cluster" not in member.name:
                continue
            file = archive.extractfile(member)
            assert file is not None
            for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
                cell = row["model_name"], int(row["batch_size"]), float(row["num_gpu"])
                cells[cell].append((int(row["num_iteration"]), int(row["duration"])))
    scan = real_store.scan
    found = iteration_rates(
        scan("elasticflow-2023", "training_plans"), scan("elasticflow-2023", "jobs")
    )
    assert found.height == len(cells) == 97
    assert found["is_one_rate"].all()
    for row in found.iter_rows(named=True):
        pairs = cells[row["model"], row["batch_size"], row["gpus"]]
        low = max(Fraction(i, t) for i, t in pairs)
        high = min(Fraction(i + 1, t) for i, t in pairs)
        assert row["n"] == len(pairs)
        assert row["lowest"] == pytest.approx(float(low), rel=1e-15)
        assert row["highest"] == pytest.approx(float(high), rel=1e-15)


def test_categories_are_text() -> None:
    plans, jobs = planted()
    found = iteration_rates(plans.cast({"model": pl.Categorical}), jobs)
    assert found.equals(iteration_rates(plans, jobs))


def test_engines_agree() -> None:
    plans, jobs = planted()
    expected = iteration_rates(plans, jobs)
    as_pandas = [pd.DataFrame(frame.to_dict(as_series=False)) for frame in (plans, jobs)]
    assert iteration_rates(*as_pandas).equals(expected)
    assert iteration_rates(plans.to_arrow(), jobs.lazy()).equals(expected)


def test_mistakes_are_told_in_one_line() -> None:
    plans, jobs = planted(20)
    with pytest.raises(DataError, match="column model is missing"):
        iteration_rates(plans.drop("model"), jobs)
    with pytest.raises(DataError, match="occurs twice"):
        iteration_rates(plans, pl.concat([jobs, jobs.head(1)]))
    with pytest.raises(DataError, match="cannot be read: casting from Duration"):
        iteration_rates(plans.with_columns(cluster=pl.duration(days=1)), jobs)
    with pytest.raises(DataError, match="no training plan has its job"):
        iteration_rates(plans, jobs.with_columns(cluster=pl.lit("other")))
    empty = iteration_rates(plans.with_columns(iterations=None), jobs)
    assert empty.height == 0
