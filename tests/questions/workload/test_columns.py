"""Columns of other names, and times as datetimes, give the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import traceana as analysis
from tests.questions.defaults import numbers_by_default
from traceana.errors import DataError

JOBS = pl.DataFrame(
    {
        "cluster": [1, 1, 2, 2, 2],
        "submit_s": [0.0, 1800, 3600, 90_000, 172_800],
        "start_s": [0.0, 3600, 3600, 90_000, 172_900],
        "end_s": [3600.0, 7200, 9000, 97_200, 172_999],
        "runtime_s": [3600.0, 3600, 5400, 7200, 99],
        "gpus": [1.0, 2, 4, 8, 1],
    }
)
NAMES = {
    "submit_s": "queued",
    "start_s": "began",
    "end_s": "over",
    "runtime_s": "took",
    "gpus": "cards",
}
FUNCTIONS: dict[str, tuple[Callable[..., pl.DataFrame], tuple[str, ...], dict[str, Any]]] = {
    "workload_summary": (analysis.workload_summary, ("submit", "runtime", "gpus"), {}),
    "job_quantiles": (analysis.job_quantiles, ("runtime", "gpus"), {}),
    "size_distribution": (analysis.size_distribution, ("runtime", "gpus"), {}),
    "concentration": (analysis.concentration, ("runtime", "gpus"), {}),
    "lorenz_curve": (analysis.lorenz_curve, ("runtime", "gpus"), {}),
    "gpu_demand": (analysis.gpu_demand, ("start", "end", "gpus"), {}),
    "queueing_delay": (analysis.queueing_delay, ("submit", "start"), {}),
    "arrival_rhythm": (analysis.arrival_rhythm, ("submit",), {"per": "hour"}),
    "interarrivals": (analysis.interarrivals, ("submit",), {}),
    "interarrival_curve": (analysis.interarrival_curve, ("submit",), {}),
}


def column(role: str) -> str:
    return role if role == "gpus" else f"{role}_s"


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("key", [pl.Int64, pl.String, pl.Categorical])
def test_columns_of_other_names_and_types_give_the_same(name: str, key: Any) -> None:
    function, roles, options = FUNCTIONS[name]
    expected = function(JOBS, by="cluster", **options)
    times = pl.from_epoch((pl.col("submit_s", "start_s", "end_s") * 1000).cast(pl.Int64), "ms")
    took = pl.duration(seconds="runtime_s").alias("runtime_s")
    renamed = JOBS.with_columns(times, took, pl.col("cluster").cast(pl.String).cast(key))
    found = function(
        renamed.rename(NAMES),
        by="cluster",
        **{role: NAMES[column(role)] for role in roles},
        **options,
    )
    found = found.with_columns(pl.col("cluster").cast(pl.String).cast(pl.Int64))
    if "note" in found.columns:
        # the window is that of the times whose names are known
        unlike = ("note", "gpus_mean")
        found, expected = (frame.drop(unlike, strict=False) for frame in (found, expected))
    assert_frame_equal(found, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_missing_column_is_answered_with_the_parameter(name: str) -> None:
    function, roles, options = FUNCTIONS[name]
    missing = column(roles[0])
    there = JOBS.rename({missing: f"{missing}econds"})
    with pytest.raises(DataError, match=f"; pass {roles[0]}='{missing}econds'$"):
        function(there, **options)


def test_numbers_by_default() -> None:
    names = {
        "arrival_rhythm": {"utc_offset_h": 0},
        "lorenz_curve": {"points": 101},
        "gpu_demand": {"bin_s": 3600},
        "interarrival_curve": {"points": 201},
    }
    assert numbers_by_default(*(getattr(analysis, name) for name in names)) == names
