"""Runtimes and sizes against arithmetic by hand and pandas on the published clusters."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

from traceana import job_quantiles, size_distribution
from traceana.errors import DataError
from traceana.store import Store

JOBS = pl.DataFrame(
    {
        "cluster": ["x", "x", "x", "x", "y"],
        "runtime_s": [3600.0, 1800.0, None, 7200.0, None],
        "gpus": [1.0, 1.0, 1.0, None, 2.0],
    }
)


def test_sizes_by_hand() -> None:
    result = size_distribution(JOBS, by="cluster")
    assert result.columns == [
        "cluster",
        "gpus",
        "jobs",
        "fraction_of_jobs",
        "gpu_hours",
        "fraction_of_gpu_hours",
        "jobs_without_gpu_hours",
        "runtime_s_median",
    ]
    assert result.rows() == [
        ("x", 1.0, 3, 0.75, 1.5, 1.0, 1, 2700.0),
        ("x", None, 1, 0.25, None, None, 1, 7200.0),
        ("y", 2.0, 1, 1.0, None, None, 1, None),
    ]


def test_quantiles_by_hand() -> None:
    result = job_quantiles(JOBS, by="cluster")
    assert result["quantity"].to_list() == ["runtime_s", "gpus", "gpu_hours"] * 2
    runtime, gpus, hours = result.head(3).iter_rows(named=True)
    assert (runtime["n"], runtime["n_missing"], runtime["mean"]) == (3, 1, 4200)
    assert (runtime["min"], runtime["p25"], runtime["median"]) == (1800, 2700, 3600)
    assert runtime["p95"] == pytest.approx(6840, rel=1e-12)
    assert (gpus["n"], gpus["max"]) == (3, 1)
    assert (hours["n"], hours["n_missing"], hours["median"]) == (2, 2, 0.75)
    nothing = result.filter(cluster="y", quantity="gpu_hours").row(0, named=True)
    assert (nothing["n"], nothing["n_missing"], nothing["mean"], nothing["p99"]) == (
        0,
        1,
        None,
        None,
    )


@pytest.mark.parametrize("ask", [job_quantiles, size_distribution])
def test_what_cannot_be_a_job_is_refused(ask: type) -> None:
    with pytest.raises(DataError, match="column gpus is missing; found cluster, runtime_s"):
        ask(JOBS.drop("gpus"), by="cluster")
    with pytest.raises(DataError, match="column runtime_s holds -7200"):
        ask(JOBS.with_columns(-pl.col("runtime_s")), by="cluster")


def test_the_published_clusters(real_store: Store) -> None:
    jobs = real_store.scan("microsoft-itp-2021", "jobs").collect()
    frame = pd.DataFrame(jobs.select("cluster", "runtime_s", "gpus").to_dict(as_series=False))
    frame["gpu_hours"] = frame["gpus"] * frame["runtime_s"] / 3600
    sizes = size_distribution(jobs, by="cluster")
    expected = frame.groupby(["cluster", "gpus"]).agg(
        jobs=("gpus", "size"), hours=("gpu_hours", "sum"), median=("runtime_s", "median")
    )
    assert sizes.select("cluster", "gpus").rows() == expected.index.to_list()
    assert sizes["jobs"].to_list() == expected["jobs"].to_list()
    assert sizes["gpu_hours"].to_list() == pytest.approx(expected["hours"].to_list(), rel=1e-12)
    assert sizes["runtime_s_median"].to_list() == expected["median"].to_list()
    share = expected["hours"] / expected.groupby("cluster")["hours"].transform("sum")
    assert sizes["fraction_of_gpu_hours"].to_list() == pytest.approx(share.to_list(), rel=1e-12)
    quantiles = job_quantiles(jobs, by="cluster")
    for quantity in ("runtime_s", "gpus", "gpu_hours"):
        part = quantiles.filter(quantity=quantity)
        groups = frame.groupby("cluster")[quantity]
        for name, q in {"p01": 0.01, "median": 0.5, "p95": 0.95, "p99": 0.99}.items():
            theirs = groups.quantile(q).to_list()
            assert part[name].to_list() == pytest.approx(theirs, rel=1e-12)
        assert part["mean"].to_list() == pytest.approx(groups.mean().to_list(), rel=1e-12)
    assert job_quantiles(jobs).filter(quantity="runtime_s")["min"].item() == 600


def test_no_gpu_hours_have_no_share() -> None:
    jobs = pl.DataFrame({"runtime_s": 0.0, "gpus": [1.0, 2, 2]})
    found = size_distribution(jobs).select("gpus", "fraction_of_jobs", "fraction_of_gpu_hours")
    assert found.rows() == [(1, pytest.approx(1 / 3), None), (2, pytest.approx(2 / 3), None)]
