"""Workload summaries against arithmetic by hand, numpy, and the published totals."""

from __future__ import annotations

import csv
import io
import math
import tarfile
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from traceana import workload_summary
from traceana.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

JOBS = pl.DataFrame(
    {
        "cluster": ["x", "x", "x", "x", "x", "y", None],
        "submit_s": [50.0, 10.0, 20.0, 30.0, 40.0, 5.0, 7.0],
        "runtime_s": [3600.0, 7200.0, 1800.0, None, 900.0, math.nan, 3600.0],
        "gpus": [1.0, 2.0, 0.5, 8.0, None, 4.0, 1.0],
    }
)
QUANTILES = {"p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def test_a_workload_by_hand() -> None:
    summary = workload_summary(JOBS, by="cluster")
    assert summary.columns == [
        "cluster",
        "jobs",
        "jobs_with_runtime",
        "gpu_hours",
        "jobs_without_gpu_hours",
        "gpus_mean",
        "runtime_s_mean",
        "runtime_s_p25",
        "runtime_s_median",
        "runtime_s_p75",
        "runtime_s_p95",
        "runtime_s_p99",
        "gpus_median",
        "gpus_p95",
        "gpus_max",
        "first_submit_s",
        "last_submit_s",
        "note",
    ]
    x, y, unnamed = summary.iter_rows(named=True)
    # 1 GPU for 1 h, 2 for 2 h, half a one for half an hour; the other two are not known
    assert (x["jobs"], x["jobs_with_runtime"], x["jobs_without_gpu_hours"]) == (5, 4, 2)
    assert x["gpu_hours"] == 5.25
    assert x["runtime_s_mean"] == 3375
    # runtimes in order: 900, 1800, 3600, 7200; type 7 puts a quantile 3 q places above the first
    assert [x[f"runtime_s_{name}"] for name in QUANTILES] == pytest.approx(
        [1575, 2700, 4500, 6660, 7092], rel=1e-12
    )
    # sizes in order: 0.5, 1, 2, 8
    assert (x["gpus_median"], x["gpus_max"]) == (1.5, 8)
    assert x["gpus_p95"] == pytest.approx(7.1, rel=1e-12)
    assert (x["first_submit_s"], x["last_submit_s"]) == (10, 50)
    # without a runtime there are no GPU-hours, rather than none used
    assert y == {
        **dict.fromkeys(summary.columns),
        **dict.fromkeys(("gpus_median", "gpus_p95", "gpus_max"), 4),
        **dict.fromkeys(("first_submit_s", "last_submit_s"), 5),
        "cluster": "y",
        "jobs": 1,
        "jobs_with_runtime": 0,
        "jobs_without_gpu_hours": 1,
    }
    assert (unnamed["cluster"], unnamed["gpu_hours"]) == (None, 1)


def test_one_row_over_all_and_one_over_nothing() -> None:
    pooled = workload_summary(JOBS).row(0, named=True)
    assert (pooled["jobs"], pooled["gpu_hours"], pooled["jobs_without_gpu_hours"]) == (7, 6.25, 3)
    nothing = workload_summary(JOBS.clear()).row(0, named=True)
    assert {name for name, number in nothing.items() if number == 0} == {
        "jobs",
        "jobs_with_runtime",
        "jobs_without_gpu_hours",
    }
    assert sum(number is None for number in nothing.values()) == len(nothing) - 3
    assert workload_summary(JOBS.clear(), by="cluster").is_empty()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (pl.col("runtime_s") * -1, "column runtime_s holds -7200.0"),
        (pl.col("gpus") / 0, "column gpus holds inf"),
        (pl.lit("late").alias("submit_s"), "column submit_s holds String; numbers are needed"),
    ],
)
def test_what_cannot_be_a_job_is_refused(change: pl.Expr, text: str) -> None:
    with pytest.raises(DataError, match=text):
        workload_summary(JOBS.with_columns(change))


def test_a_missing_column_is_named_beside_those_there_are() -> None:
    with pytest.raises(
        DataError, match="column gpus is missing; found cluster, submit_s, runtime_s"
    ):
        workload_summary(JOBS.drop("gpus"), by="cluster")


def test_the_published_clusters(real_data: Path) -> None:
    clusters: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    with tarfile.open(real_data / "microsoft-itp-2021" / "raw-traces.tar.gz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.endswith(".csv"):
                for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
                    clusters[member.name.removesuffix(".csv")].append(
                        (float(row["submission_time"]), float(row["duration"]), int(row["num_gpu"]))
                    )
    jobs = pl.DataFrame(
        [(cluster, *job) for cluster, part in clusters.items() for job in part],
        schema=["cluster", "submit_s", "runtime_s", "gpus"],
        orient="row",
    )
    pooled = workload_summary(jobs).row(0, named=True)
    # what the publishers print (ElasticFlow, ASPLOS'23)
    assert pooled["jobs"] == pooled["jobs_with_runtime"] == 69351
    assert round(pooled["gpu_hours"], 1) == 1632719.7
    assert pooled["jobs_without_gpu_hours"] == 0
    summary = workload_summary(jobs, by="cluster")
    assert summary["cluster"].to_list() == sorted(clusters)
    assert summary.height == 10
    for row in summary.iter_rows(named=True):
        submit, runtime, gpus = np.array(clusters[row["cluster"]]).T
        assert row["jobs"] == len(runtime)
        assert row["gpu_hours"] == pytest.approx(math.fsum(runtime * gpus) / 3600, rel=1e-12)
        assert row["runtime_s_mean"] == pytest.approx(runtime.mean(), rel=1e-12)
        for name, q in QUANTILES.items():
            assert row[f"runtime_s_{name}"] == pytest.approx(np.quantile(runtime, q), rel=1e-12)
        assert row["gpus_p95"] == pytest.approx(np.quantile(gpus, 0.95), rel=1e-12)
        assert (row["first_submit_s"], row["last_submit_s"]) == (submit.min(), submit.max())


def test_quantiles_of_censored_runtimes_are_those_of_the_survival_curve() -> None:
    jobs = pl.DataFrame(
        {
            "g": ["a"] * 5 + ["b"] * 4,
            "runtime_s": [1.0, 2, 3, 4, 5, 10, 20, 30, 40],
            "done": [True, True, False, True, True, *[True] * 4],
        }
    )
    table = workload_summary(jobs.with_columns(gpus=1, submit_s=0), by="g", observed="done")
    # of a: S is 4/5, 3/5, then 3/5 * 1/2 at 4, and 0; of b the order statistics
    a, b = table.sort("g").iter_rows(named=True)
    names = [f"runtime_s_{name}" for name in ("p25", "median", "p75", "p95", "p99")]
    assert [a[name] for name in names] == [2, 4, 5, 5, 5]
    assert [b[name] for name in names] == [10, 20, 30, 40, 40]
    assert (a["n_censored"], b["n_censored"]) == (1, 0)
    assert (a["runtime_s_mean"], b["runtime_s_mean"]) == (None, 25)
    # one row is at risk at the last of a
    assert a["runtime_s_restricted_mean"] is None
    assert b["runtime_s_restricted_mean"] == pytest.approx(25)
