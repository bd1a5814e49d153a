"""Time to failure of a job against closed forms, and checkpoint intervals against simulation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import optimize, stats

import traceana
from traceana.errors import DataError

DAY = 86_400.0


def test_independent_faults_give_one_over_r_n_both_ways() -> None:
    rng = np.random.default_rng(1)
    n = rng.poisson(5, 200)
    log = pl.DataFrame(
        {"machine_id": np.repeat(np.arange(200), n), "start_s": rng.uniform(0, 300 * DAY, n.sum())}
    )
    found = traceana.job_failure_interval(
        log, machines=[1, 20, 200, 500], end=None, total_machines=200, window=(0, 300 * DAY)
    ).intervals
    exact = 300 * DAY * 200 / n.sum() / np.array([1, 20, 200, 500])
    assert found["mean_s"].to_list() == pytest.approx(exact)
    assert found["observed_s"].to_list()[:3] == pytest.approx(exact[:3])
    assert found["observed_s"][3] is None
    assert "200 machines" in found["note"][3]
    truth = 60 * DAY / np.array([1, 20, 200])
    for low, high in (("ci_low_s", "ci_high_s"), ("observed_ci_low_s", "observed_ci_high_s")):
        assert (found[low][:3].to_numpy() < truth).all()
        assert (truth < found[high][:3].to_numpy()).all()


def test_machines_that_fail_together_fail_a_job_once() -> None:
    # ten times, 5 of 20 machines at once; one of them is down already in the second half
    rows = [(f"m{i}", t * DAY, t * DAY + 3600) for t in range(10) for i in range(5)]
    rows.append(("m0", 4.5 * DAY, 9.5 * DAY))
    log = pl.DataFrame(rows, ["machine_id", "start_s", "end_s"], orient="row")
    found = traceana.job_failure_interval(
        log, 8, total_machines=20, window=(0, 10 * DAY)
    ).intervals.row(0, named=True)
    hit = 1 - stats.hypergeom.pmf(0, 20, 5, 8)
    without = 1 - stats.hypergeom.pmf(0, 19, 4, 8)
    alone = 8 / 20
    assert found["mean_s"] == pytest.approx(10 * DAY * 20 / 51 / 8)
    assert found["observed_s"] == pytest.approx(10 * DAY / (5 * hit + 5 * without + alone))


def test_a_machine_that_was_down_before_the_window_fails_no_job_in_it() -> None:
    log = pl.DataFrame(
        {"machine_id": ["a", "b"], "start_s": [0.0, 5 * DAY], "end_s": [4 * DAY, 6 * DAY]}
    )
    found = traceana.job_failure_interval(
        log, 4, total_machines=4, window=(2 * DAY, 12 * DAY)
    ).intervals.row(0, named=True)
    assert found["observed_s"] == pytest.approx(10 * DAY)
    assert found["mean_s"] == pytest.approx(10 * DAY)


@pytest.mark.parametrize("machines", [0, -1, 1.5, "a", [4, 0]])
def test_a_job_has_a_whole_number_of_machines(machines: object) -> None:
    log = pl.DataFrame({"machine_id": ["a"], "start_s": [0.0], "end_s": [1.0]})
    with pytest.raises(DataError, match="machines must be a whole number"):
        traceana.job_failure_interval(log, machines)  # type: ignore[arg-type]


@pytest.mark.parametrize(("cost", "mean"), [(60, 3600), (300, 86_400), (1, 1e7), (3000, 4000)])
def test_the_exact_interval_is_the_maximum(cost: float, mean: float) -> None:
    found = traceana.checkpoint_interval(mean, checkpoint_s=cost, restart_s=120)
    by = {row["method"]: row for row in found.iter_rows(named=True)}
    assert by["young"]["interval_s"] == pytest.approx(np.sqrt(2 * cost * mean))

    def loss(interval: float) -> float:
        return float(mean * np.exp(120 / mean) * np.expm1((interval + cost) / mean) / interval)

    best = optimize.minimize_scalar(
        loss, bounds=(1, 5 * mean), method="bounded", options={"xatol": 1e-3}
    )
    assert by["exact"]["interval_s"] == pytest.approx(best.x, rel=1e-3)
    assert by["exact"]["effective_training_ratio"] == pytest.approx(1 / best.fun)
    # Daly 2006: within 0.2 % of the optimal wall time for d < M / 2
    if cost < mean / 2:
        ratio = by["daly"]["effective_training_ratio"] / by["exact"]["effective_training_ratio"]
        assert 0.998 < ratio <= 1 + 1e-12
    parts = found.select("effective_training_ratio", "checkpoint_fraction", "lost_fraction")
    assert parts.sum_horizontal().to_list() == pytest.approx([1] * 3)


def test_the_ratio_is_that_of_simulated_failures() -> None:
    rng = np.random.default_rng(2)
    mean, cost, interval = 5000.0, 200.0, 1500.0
    young = traceana.checkpoint_interval(interval**2 / (2 * cost), checkpoint_s=cost)
    assert young["interval_s"][0] == pytest.approx(interval)
    tries = rng.exponential(mean, 400_000)  # time to failure of each attempt at a segment
    done = tries > interval + cost
    trained = done.sum() * interval / np.where(done, interval + cost, tries).sum()
    model = interval / (mean * np.expm1((interval + cost) / mean))
    assert trained == pytest.approx(model, rel=0.01)


def test_the_checkpoint_interval_refuses_what_is_no_time() -> None:
    wrong: list[Any] = [(0, 1, 0), (1, 0, 0), (1, 1, -1), (np.inf, 1, 0), ("a", 1, 0)]
    for mean, cost, restart in wrong:
        with pytest.raises(DataError, match="must be"):
            traceana.checkpoint_interval(mean, checkpoint_s=cost, restart_s=restart)
    assert traceana.checkpoint_interval(1, checkpoint_s=1e4)["effective_training_ratio"][2] >= 0


Fault = tuple[str, int, int | None]


def _expected_s(
    faults: list[Fault], total: int, window: tuple[float, float], machines: int
) -> float | None:
    """Compute the window over the expected failures by counting what is up at each fault."""
    first, last = window
    if all(end is None for _, _, end in faults):  # single events
        faults = [(name, start, start) for name, start, _ in faults]
    outages: list[list[Any]] = []
    for name, start, end in sorted(faults, key=lambda one: one[:2]):
        is_last = start == max(other for own, other, _ in faults if own == name)
        unknown = last if is_last and start >= first else start
        until = unknown if end is None else min(end, last)
        if start > last or until < first:
            continue
        if outages and outages[-1][0] == name and start <= outages[-1][2]:
            outages[-1][2] = max(outages[-1][2], until)
        else:
            outages.append([name, start, until])
    failures = 0.0
    for time in {start for _, start, _ in outages if start >= first}:
        failing = sum(start == time for _, start, _ in outages)
        up = total - sum(start < time < end for _, start, end in outages)
        size = min(machines, up)
        failures += 1 - math.comb(up - failing, size) / math.comb(up, size)
    return (last - first) / failures if failures else None


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 20), st.none() | st.integers(0, 8)),
        min_size=1,
        max_size=8,
    ),
    st.integers(15, 25),
    st.integers(1, 6),
    st.integers(0, 2),
)
@example([("b", 11, None), ("a", 3, 0), ("a", 4, None)], 22, 3, 0)  # the one end: before the window
def test_failures_are_those_counted_by_hand(
    drawn: list[Fault], last: int, machines: int, spare: int
) -> None:
    faults = [(name, start, None if d is None else start + d) for name, start, d in drawn]
    total, window = 4 + spare, (4.0, float(last))
    frame = pl.DataFrame(
        faults, {"machine_id": pl.String, "start_s": pl.Int64, "end_s": pl.Int64}, orient="row"
    )
    size = min(machines, total)
    found = traceana.job_failure_interval(
        frame, size, total_machines=total, window=window
    ).intervals["observed_s"][0]
    expected = _expected_s(faults, total, window, size)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("seed", range(5))
def test_failures_of_drawn_logs_are_those_counted_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    total, n, span = 10, 20, 60 * 86_400.0
    start = rng.uniform(0, 58 * 86_400, n)
    start[3] = start[4]  # at once
    names = [f"m{one}" for one in rng.integers(0, total, n)]
    end = start + rng.exponential(86_400, n)
    faults = pl.DataFrame({"machine_id": names, "start_s": start, "end_s": end})
    sizes = (1, 2, 5, 10)
    found = traceana.job_failure_interval(
        faults, machines=sizes, total_machines=total, window=(0, span)
    ).intervals
    assert found["mean_s"].to_list() == pytest.approx([total * span / n / one for one in sizes])
    rows = faults.rows()
    counted = [_expected_s(rows, total, (0.0, span), one) for one in sizes]
    assert found["observed_s"].to_list() == pytest.approx(counted)


def test_one_machine_has_no_interval_of_observed_failures(tmp_path: Path) -> None:
    log = pl.DataFrame({"machine_id": ["a"], "start_s": [1e9], "end_s": [1e9 + 600]})
    row = traceana.job_failure_interval(log, machines=1).intervals.row(0, named=True)
    assert row["observed_s"] > 0
    assert row["observed_ci_low_s"] is row["observed_ci_high_s"] is None
    traceana.add_table(log, trace="mine", table="faults", store=tmp_path)
    failed: list[object] = []
    out = tmp_path / "out"
    traceana.build_report(tmp_path, out=out, only="reliability", on_failure=failed.append)
    assert not failed
