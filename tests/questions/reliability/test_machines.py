"""Fault rate, repair, availability and repeat offenders: closed forms and planted logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import traceana
from traceana.errors import DataError

DAY = 86_400.0


def planted(
    rng: np.random.Generator, *, machines: int = 100, days: float = 100, rate: float = 0.02
) -> pl.DataFrame:
    """Faults of machines at one rate per day, with exponential repairs of 6 h."""
    n = rng.poisson(rate * days, machines)
    start = rng.uniform(0, days * DAY, n.sum())
    return pl.DataFrame(
        {
            "machine_id": [f"m{i}" for i in np.repeat(np.arange(machines), n)],
            "start_s": start,
            "end_s": start + rng.exponential(6 * 3600, n.sum()),
        }
    )


def analyze(faults: pl.DataFrame, **options: Any) -> traceana.ReliabilityResult:
    asked: dict[str, Any] = {"total_machines": 100, "window": (0, 100 * DAY), "resamples": 99}
    return traceana.machine_reliability(faults, **asked | options)


def test_a_planted_rate_and_repair_time_are_found() -> None:
    faults = planted(np.random.default_rng(2), machines=400, days=200)
    found = analyze(faults, total_machines=400, window=(0, 200 * DAY))
    row = found.overall.row(0, named=True)
    assert row["n"] == faults.height
    assert row["rate"] == pytest.approx(1000 * faults.height / (400 * 200))
    assert row["ci_low"] < 20 < row["ci_high"]
    assert row["mtbf_s"] == pytest.approx(50 * DAY, rel=0.1)
    assert row["mttr_s"] == pytest.approx(6 * 3600, rel=0.1)
    assert row["median_s"] == pytest.approx(6 * 3600 * np.log(2), rel=0.1)
    assert row["availability"] == pytest.approx(1 - 0.02 / 4, abs=0.001)
    assert found.concurrent is not None
    assert found.concurrent["mean"].item() == pytest.approx(400 * (1 - row["availability"]))
    # independent machines: the number down is Poisson
    assert found.concurrent["p99"].item() == pytest.approx(stats.poisson.ppf(0.99, 2.0), abs=1)
    assert found.dispersion["dispersion"].to_list() == pytest.approx([1, 1], abs=0.5)
    assert (found.dispersion["pvalue"] > 0.02).all()
    assert found.periods["n"].sum() == faults.height


def test_a_bad_machine_is_found_and_a_clean_log_accuses_nobody() -> None:
    rng = np.random.default_rng(3)
    clean = [planted(rng, rate=0.01) for _ in range(60)]
    accused = [analyze(log, resamples=1).offenders.height > 0 for log in clean]
    assert sum(accused) <= 6  # 5 % of 60, and chance
    bad = pl.DataFrame({"machine_id": ["m7"] * 9, "start_s": 10 * DAY * np.arange(1, 10)})
    found = analyze(pl.concat([clean[0], bad], how="diagonal"))
    assert found.offenders["machine_id"].to_list() == ["m7"]
    first = found.machines.row(0, named=True)
    total = clean[0].height + 9
    assert first["expected"] == pytest.approx(total / 100)
    assert first["pvalue"] == pytest.approx(
        stats.binomtest(first["n"], total, 0.01, "greater").pvalue
    )
    assert first["pvalue_adjusted"] == pytest.approx(100 * first["pvalue"])
    assert first["pvalue_negative_binomial"] < 0.05
    assert "\nm7 " in str(found)


def test_machines_that_differ_as_a_gamma_leave_no_outlier_among_themselves() -> None:
    rng = np.random.default_rng(4)
    n = rng.poisson(2 * rng.gamma(0.5, 2, 100))
    log = pl.DataFrame(
        {"machine_id": np.repeat(np.arange(100), n), "start_s": rng.uniform(0, 100 * DAY, n.sum())}
    )
    found = analyze(log, end=None)
    assert found.offenders.height > 0
    assert (found.offenders["pvalue_negative_binomial"] > 0.05).all()
    assert found.dispersion["pvalue"][0] == pytest.approx(0.01)
    assert found.dispersion["alpha"][0] == pytest.approx(2, rel=0.5)


def test_unfinished_repairs_are_censored() -> None:
    rng = np.random.default_rng(5)
    start = rng.uniform(0, 30 * DAY, 80)
    repair = rng.exponential(20 * DAY, 80)
    log = pl.DataFrame(
        {
            "machine_id": range(80),
            "start_s": start,
            "end_s": [e if e <= 30 * DAY else None for e in start + repair],
        },
        strict=False,
    )
    row = analyze(log, window=(0, 30 * DAY)).overall.row(0, named=True)
    is_open = start + repair > 30 * DAY
    assert row["n_open"] == is_open.sum() > 20
    seen = np.minimum(repair, 30 * DAY - start)
    curve = stats.ecdf(stats.CensoredData.right_censored(seen, is_open)).sf
    at = np.append(curve.quantiles, seen.max())
    area = curve.quantiles[0] + (curve.probabilities * np.diff(at)).sum()
    assert row["mttr_s"] == pytest.approx(area)
    assert row["median_s"] == curve.quantiles[np.flatnonzero(curve.probabilities <= 0.5)[0]]
    assert "MTTR is a lower bound" in row["note"]
    # a repair cut off by a shorter window is the same observation
    whole = log.with_columns(end_s=pl.Series(start + repair))
    assert analyze(whole, window=(0, 30 * DAY)).overall.row(0, named=True) == row


def test_an_end_is_unknown_where_the_machine_failed_again() -> None:
    log = pl.DataFrame(
        {
            "machine_id": ["a", "a", "a", "b"],
            "start_s": [0.0, DAY, 5 * DAY, 2 * DAY],
            "end_s": [None, 2 * DAY, None, 3 * DAY],
        }
    )
    row = analyze(log, total_machines=2, window=(0, 10 * DAY)).overall.row(0, named=True)
    assert (row["n"], row["n_open"], row["n_missing"]) == (4, 1, 1)
    assert row["downtime_s"] == (1 + 5 + 1) * DAY
    assert "ends are missing" in row["note"]
    assert row["availability"] == pytest.approx(1 - 7 / 20)
    short = analyze(log, total_machines=2, window=(0, 4 * DAY)).overall.row(0, named=True)
    assert (short["n"], short["n_open"], short["n_missing"]) == (3, 0, 1)
    again = log.with_columns(end_s=pl.when(pl.col("start_s") == 0).then("end_s"))
    again = again.with_columns(end_s=pl.when(pl.col("machine_id") == "b").then(3 * DAY))
    row = analyze(again, total_machines=2, window=(0, 4 * DAY)).overall.row(0, named=True)
    assert (row["n_open"], row["downtime_s"]) == (0, DAY), "a failed again after the window"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(-5, 25), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_overlapping_faults_merge_whatever_their_order(rows: list[tuple[int, int, int]]) -> None:
    shifted = [(m, s + 5.0, s + 5.0 + d) for m, s, d in rows]
    log = pl.DataFrame(shifted, ["machine_id", "start_s", "end_s"], orient="row")
    options: dict[str, Any] = {"total_machines": 4, "window": (5.0, 25.0), "resamples": 1}
    grid = np.zeros((4, 20), dtype=bool)
    for machine, start, end in shifted:
        grid[machine, max(int(start) - 5, 0) : max(int(end) - 5, 0)] = True
    found = traceana.machine_reliability(log, **options)
    row = found.overall.row(0, named=True)
    inside = [one for one in shifted if one[1] <= 25 and one[2] >= 5]
    assert row["n"] == sum(start >= 5 for _, start, _ in inside)
    assert row["downtime_s"] == grid.sum()  # 0 without a fault in the window
    assert found.concurrent is not None
    assert found.concurrent["max"].item() == grid.sum(axis=0).max()
    assert found.concurrent["mean"].item() == pytest.approx(grid.sum() / 20)
    assert found.concurrent["p99"].item() == np.sort(grid.sum(axis=0))[-1]  # 1 % is no whole step


def test_groups_have_their_own_rows() -> None:
    log = pl.DataFrame(
        {
            "machine_id": ["a", "a", "b"],
            "start_s": [0.0, 3600.0, 7200.0],
            "end_s": [7200.0, 10_800.0, 7200.0],
            "class": ["gpu", "nic", None],
        }
    )
    found = analyze(log, by="class", total_machines=2, window=(0, DAY))
    assert found.groups is not None
    assert found.groups.select("class", "n", "downtime_s").rows() == [
        ("gpu", 1, 7200.0),
        ("nic", 1, 7200.0),
        (None, 1, 0.0),
    ]
    assert found.overall["downtime_s"].item() == 10_800  # of a, merged


def test_single_events_have_a_rate_and_no_repair() -> None:
    log = planted(np.random.default_rng(6)).drop("end_s")
    found = analyze(log, end=None)
    row = found.overall.row(0, named=True)
    assert row["mttr_s"] is row["downtime_s"] is row["availability"] is row["n_missing"] is None
    assert (found.concurrent, found.down) == (None, None)
    assert "the log has no ends" in row["note"]
    assert found.machines["downtime_s"].null_count() == found.machines.height


def test_times_are_read_from_any_engine_and_as_datetimes() -> None:
    log = planted(np.random.default_rng(7))
    expected = analyze(log).overall
    began = datetime(2026, 3, 1, tzinfo=UTC)
    dated = log.with_columns(
        (pl.lit(began) + pl.duration(microseconds=pl.col(name) * 1e6)).alias(name)
        for name in ("start_s", "end_s")
    )
    window = (began, began + timedelta(days=100))
    for frame in (dated, dated.lazy(), pd.DataFrame(dated.to_dict(as_series=False))):
        found = traceana.machine_reliability(
            frame, total_machines=100, window=window, resamples=9
        ).overall
        assert found["n"].item() == expected["n"].item()
        assert found["downtime_s"].item() == pytest.approx(expected["downtime_s"].item(), rel=1e-6)


def test_the_window_and_the_machines_are_derived_if_not_stated() -> None:
    log = pl.DataFrame(
        {"machine_id": ["a", "b"], "start_s": [DAY, 3 * DAY], "end_s": [2 * DAY, 5 * DAY]}
    )
    found = traceana.machine_reliability(log)
    assert found.window_s == (DAY, 5 * DAY)
    assert (found.total_machines, found.is_stated) == (2, False)
    assert found.overall["rate"].item() == pytest.approx(1000 * 2 / 8)
    assert "machines without a fault are not counted" in found.overall["note"].item()


def test_a_log_without_a_fault_has_an_upper_bound() -> None:
    text, number = pl.String, pl.Float64
    none = pl.DataFrame(
        schema={"machine_id": text, "class": text, "start_s": number, "end_s": number}
    )
    found = analyze(none, by="class")
    row = found.overall.row(0, named=True)
    assert (row["rate"], row["ci_low"]) == (0, 0)
    assert row["ci_high"] == pytest.approx(1000 * 3.689 / 10_000, rel=1e-3)
    assert found.groups is not None
    assert found.groups.is_empty()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"total_machines": 1}, "2 machines have a fault"),
        ({"total_machines": 1.5}, "whole number"),
        ({"window": (5, 5)}, "no length"),
        ({"window": 7}, "beginning and end"),
        ({"window": ("a", "b")}, "beginning and end"),
        ({"machine": "node"}, "column node is missing"),
        ({"end": "start_s", "start": "end_s"}, "ends before it starts"),
        ({"by": "n"}, "by cannot name n"),
        ({"window": (900 * DAY, 1000 * DAY), "total_machines": None}, "state total_machines"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], message: str) -> None:
    log = pl.DataFrame(
        {"machine_id": ["a", "b"], "start_s": [0.0, 5.0], "end_s": [2.0, 9.0], "n": 1}
    )
    with pytest.raises(DataError, match=message):
        analyze(log, **options)


@pytest.mark.parametrize(("years", "blocks"), [(1, 53), (300, 15_700), (7000, 10)])
def test_one_wrong_time_does_not_make_blocks_many(years: int, blocks: int) -> None:
    start = np.append(np.linspace(0, 30 * 86_400, 60), years * 366 * 86_400.0)
    names = ["a", "b", "c"] * 20 + ["a"]
    faults = pl.DataFrame({"machine_id": names, "start_s": start, "end_s": start + 60})
    dispersion = traceana.machine_reliability(faults, resamples=9).dispersion
    assert dispersion.filter(pl.col("across") != "machines")["n"].item() == pytest.approx(
        blocks, rel=0.02
    )
