"""Runtimes and rates by group, against closed forms, scipy and counts of the published rows."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from traceana import outcome_rates, runtime_by
from traceana.errors import DataError
from traceana.schema import STATUSES

if TYPE_CHECKING:
    from pathlib import Path

RUNS = pl.DataFrame(
    {
        "gpu_type": ["t4", "t4", "v100", "v100", "v100", "p100", None],
        "runtime_s": [10.0, 30.0, 7.0, 7.0, None, 5.0, math.nan],
    }
)


def test_runtimes_by_hand() -> None:
    result = runtime_by(RUNS, "gpu_type")
    assert result.columns == [
        *(
            "gpu_type",
            "n",
            "mean_s",
            "ci_low",
            "ci_high",
            "median_s",
            "p90_s",
            "n_missing",
            "p99_s",
        ),
        "note",
    ]
    # two values: s / sqrt(2) is half their distance, and t with one degree of freedom is a tangent
    half = 10 * math.tan(0.475 * math.pi)
    p100, t4, v100, unknown = result.rows()
    assert p100 == ("p100", 1, 5, None, None, 5, 5, 0, 5, None)
    assert t4 == (
        "t4",
        2,
        20,
        pytest.approx(20 - half),
        pytest.approx(20 + half),
        20,
        28,
        0,
        29.8,
        None,
    )
    assert v100 == ("v100", 2, 7, 7, 7, 7, 7, 1, 7, None)
    assert unknown == (None, 0, None, None, None, None, None, 1, None, None)


@pytest.mark.parametrize("by", [(), "g"])
def test_a_mean_that_hangs_on_its_tail_says_so(by: str | tuple[()]) -> None:
    rng = np.random.default_rng(4)
    for runtimes in (rng.lognormal(3, 1, 30), rng.normal(50, 5, 30), 1e150 * rng.random(30) ** 9):
        note = runtime_by(pl.DataFrame({"runtime_s": runtimes, "g": 1}), by)["note"].item()
        skewness = stats.skew(runtimes / runtimes.max())
        assert (note is not None) == (25 * skewness**2 > 30)
        assert note is None or f"(skewness {skewness:.1f})" in note
    assert runtime_by(pl.DataFrame({"runtime_s": [0.1] * 9, "g": 1}), by)["note"].item() is None


@given(
    values=st.lists(st.just(0.0) | st.floats(1e-9, 1e6), min_size=2, max_size=40),
    confidence=st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
@settings(max_examples=30)
def test_runtimes_are_what_numpy_and_scipy_make_of_them(
    values: list[float], confidence: float
) -> None:
    frame = pl.DataFrame({"runtime_s": values})
    row = runtime_by(frame, (), confidence=confidence).row(0, named=True)
    mean = float(np.mean(values))
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values)
    assert row["mean_s"] == pytest.approx(mean, rel=1e-12)
    assert row["ci_low"] == pytest.approx(mean - half, rel=1e-9, abs=1e-9 * mean)
    assert row["ci_high"] == pytest.approx(mean + half, rel=1e-9, abs=1e-9 * mean)
    assert row["median_s"] == pytest.approx(np.median(values), rel=1e-12)
    assert row["p90_s"] == pytest.approx(np.quantile(values, 0.9), rel=1e-12)
    assert row["p99_s"] == pytest.approx(np.quantile(values, 0.99), rel=1e-12)


def test_nothing_gives_nothing() -> None:
    assert runtime_by(RUNS.clear(), "gpu_type").is_empty()
    assert runtime_by(RUNS.clear(), ()).rows() == [(0, None, None, None, None, None, 0, None, None)]
    all_null = pl.DataFrame({"gpu_type": ["t4"], "runtime_s": [None]})
    assert runtime_by(all_null, "gpu_type").rows() == [("t4", 0, *[None] * 5, 1, None, None)]


@pytest.mark.parametrize("bad", [-1.0, math.inf, -math.inf])
def test_what_cannot_be_a_runtime_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match=f"column runtime_s holds {bad}; its values must lie from"):
        runtime_by(pl.DataFrame({"runtime_s": [1.0, bad]}), ())


def test_a_confidence_in_percent_is_refused() -> None:
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        runtime_by(RUNS, "gpu_type", confidence=95)
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        outcome_rates(pl.DataFrame({"status": ["failed"]}), (), confidence=95)


# 81 of 263, as in Newcombe (1998), and 20 without a success
ENDS = pl.DataFrame(
    {
        "gpu_type": ["t4"] * 300 + ["v100"] * 20 + ["p100"],
        "status": ["completed"] * 81
        + ["failed"] * 182
        + ["running"] * 30
        + [None] * 7
        + ["failed"] * 20
        + ["pending"],
    }
)


def test_rates_as_published() -> None:
    result = outcome_rates(ENDS, "gpu_type")
    assert result.columns == [
        "gpu_type",
        "n",
        "successes",
        "rate",
        "ci_low",
        "ci_high",
        "n_excluded",
    ]
    p100, t4, v100 = result.rows()
    assert p100 == ("p100", 0, 0, None, None, None, 1)
    assert t4[:3] == ("t4", 263, 81)
    assert t4[3] == 81 / 263
    assert (round(t4[4], 4), round(t4[5], 4), t4[6]) == (0.2553, 0.3662, 37)
    assert v100[:5] == ("v100", 20, 0, 0, 0)
    assert (round(v100[5], 4), v100[6]) == (0.1611, 0)


def test_what_counts_as_failure_moves_the_rate() -> None:
    wide = outcome_rates(ENDS, (), failure=("failed", "running", "pending"))
    assert wide.row(0)[:3] == (314, 81, 81 / 314)
    assert wide["n_excluded"].item() == 7
    turned = outcome_rates(ENDS, (), success="failed", failure="completed")
    assert turned["rate"].item() == 202 / 283


@given(words=st.lists(st.sampled_from([*STATUSES, None]), max_size=60))
@settings(max_examples=30)
def test_every_row_is_counted_once_and_the_interval_holds_the_rate(
    words: list[str | None],
) -> None:
    frame = pl.DataFrame({"status": words}, schema={"status": pl.String})
    row = outcome_rates(frame, ()).row(0, named=True)
    assert row["successes"] == words.count("completed")
    assert row["n"] == words.count("completed") + words.count("failed")
    assert row["n"] + row["n_excluded"] == len(words)
    if row["n"]:
        expected = stats.binomtest(row["successes"], row["n"]).proportion_ci(method="wilson")
        assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), abs=1e-12)
        assert 0 <= row["ci_low"] <= row["rate"] <= row["ci_high"] <= 1
    else:
        assert (row["rate"], row["ci_low"], row["ci_high"]) == (None, None, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"success": ("Terminated",)}, "success names status 'Terminated'; statuses are completed"),
        ({"failure": "error"}, "failure names status 'error'"),
        ({"failure": ()}, "failure names no status"),
        ({"failure": ("failed", "completed")}, "status completed cannot be a success and a fail"),
    ],
)
def test_statuses_outside_the_closed_set_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        outcome_rates(ENDS, "gpu_type", **options)


def test_a_publishers_own_word_in_the_data_is_refused() -> None:
    frame = pl.DataFrame({"status": ["completed", "Terminated", None]})
    with pytest.raises(DataError, match="status 'Terminated' is found; statuses are completed"):
        outcome_rates(frame, ())


def test_published_pods_by_quality_of_service(real_data: Path) -> None:
    words = {
        "Succeeded": "completed",
        "Failed": "failed",
        "Running": "running",
        "Pending": "pending",
    }
    path = real_data / "alibaba-openb-2023" / "openb_pod_list_default.csv"
    pods: dict[str, list[tuple[str, float | None]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            start, end = row["scheduled_time"], row["deletion_time"]
            runtime = float(end) - float(start) if start and end else None
            pods[row["qos"]].append((words[row["pod_phase"]], runtime))
    frame = pl.DataFrame(
        [(qos, *pod) for qos, part in pods.items() for pod in part],
        schema={"qos": pl.String, "status": pl.String, "runtime_s": pl.Float64},
        orient="row",
    )
    assert frame.height == 8152
    for row in outcome_rates(frame, "qos").iter_rows(named=True):
        statuses = [status for status, _ in pods[row["qos"]]]
        succeeded, failed = statuses.count("completed"), statuses.count("failed")
        assert (row["successes"], row["n"]) == (succeeded, succeeded + failed)
        assert row["n_excluded"] == len(statuses) - row["n"]
        if row["n"]:
            expected = stats.binomtest(succeeded, row["n"]).proportion_ci(method="wilson")
            assert (row["ci_low"], row["ci_high"]) == pytest.approx(tuple(expected), abs=1e-12)
    result = runtime_by(frame, "qos")
    assert result["qos"].to_list() == sorted(pods)
    for row in result.iter_rows(named=True):
        runtimes = [runtime for _, runtime in pods[row["qos"]] if runtime is not None]
        assert (row["n"], row["n_missing"]) == (
            len(runtimes),
            len(pods[row["qos"]]) - len(runtimes),
        )
        low, high = stats.t.interval(
            0.95, len(runtimes) - 1, np.mean(runtimes), stats.sem(runtimes)
        )
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), rel=1e-9)
        assert row["p90_s"] == pytest.approx(np.quantile(runtimes, 0.9), rel=1e-12)
