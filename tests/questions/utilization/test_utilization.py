"""Used against requested resources, idle and shared GPUs, allocation: values by hand and NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from tests.questions.defaults import numbers_by_default
from traceana import (
    allocation_rate,
    gpu_demand,
    gpu_sharing,
    idle_gpu_hours,
    summarize_allocation,
    utilization,
)
from traceana.errors import DataError
from traceana.figures import plot_allocation_rate


def rows(n: int = 300) -> pl.DataFrame:
    """Instances of two GPU types; some have no request, no use, or request no GPU."""
    rng = np.random.default_rng(2)
    gpus = rng.choice([0.0, 0.25, 1.0, 8.0, np.nan], n)
    return pl.DataFrame(
        {
            "gpu_type": rng.choice(["T4", "V100"], n),
            "gpus": gpus,
            "gpus_used": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(-1, 1, n)),
            "cpus": rng.choice([2.0, 4.0], n),
            "cpus_used": rng.lognormal(0, 1, n),
            "gpu_memory_gib_mean": rng.lognormal(1, 1, n),
            "runtime_s": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(10, 5000, n)),
        }
    )


def test_use_and_request_are_numpys() -> None:
    frame = rows()
    found = utilization(frame, by="gpu_type")
    assert found["resource"].to_list() == ["gpus", "cpus", "gpu_memory_gib_mean"] * 2
    for row in found.filter(pl.col("resource") != "gpu_memory_gib_mean").iter_rows(named=True):
        own = frame.filter(gpu_type=row["gpu_type"])
        x, y = (own[name].to_numpy() for name in (row["resource"], f"{row['resource']}_used"))
        known = (x > 0) & ~np.isnan(y)
        assert (row["n"], row["n_missing"]) == (known.sum(), (~known).sum())
        x, y = x[known], y[known]
        assert row["used_of_requested"] == pytest.approx(y.sum() / x.sum())
        assert (row["requested_mean"], row["used_mean"]) == pytest.approx((x.mean(), y.mean()))
        expected = np.quantile(y / x, [0.25, 0.5, 0.75])
        np.testing.assert_allclose([row["p25"], row["median"], row["p75"]], expected)
        assert row["fraction_over"] == pytest.approx(np.mean(y > x))


def test_one_row_has_its_use() -> None:
    one = pl.DataFrame({"gpus": [2.0], "gpus_used": [0.5]})
    row = utilization(one).row(0, named=True)
    assert (row["requested_mean"], row["used_mean"], row["used_of_requested"]) == (2, 0.5, 0.25)
    idle = idle_gpu_hours(one.with_columns(runtime_s=7200.0)).row(0, named=True)
    assert (idle["gpu_hours"], idle["used_gpu_hours"], idle["idle_gpu_hours"]) == (4, 1, 3)
    assert (idle["fraction_idle"], idle["n_unused"], idle["unused_gpu_hours"]) == (0.75, 0, 0)


def test_an_instance_that_uses_nothing_is_idle_and_unused() -> None:
    rows = pl.DataFrame({"t": ["a", "b"], "gpus": [2.0, None], "gpus_used": 0.0, "runtime_s": 1800})
    idle, unknown = idle_gpu_hours(rows, by="t").iter_rows(named=True)
    assert (idle["n"], idle["used_gpu_hours"], idle["unused_gpu_hours"]) == (1, 0, 1)
    assert (unknown["n"], unknown["gpu_hours"], unknown["fraction_idle"]) == (0, None, None)
    asked = utilization(rows, by="t").row(1, named=True)
    assert (asked["n"], asked["used_mean"], asked["used_of_requested"]) == (0, None, None)


def test_a_resource_that_is_not_requested_has_a_use_only() -> None:
    frame = rows()
    row = utilization(frame).row(-1, named=True)
    assert row["used_mean"] == pytest.approx(frame["gpu_memory_gib_mean"].mean())
    assert (row["requested_mean"], row["used_of_requested"], row["median"]) == (None, None, None)
    with pytest.raises(DataError, match="no resource to compare"):
        utilization(frame.select("gpu_type"))


def test_idle_gpu_hours_are_those_requested_and_not_used() -> None:
    little = pl.when(pl.col("cpus") == 2).then(0.004).otherwise("gpus_used")
    frame = rows().with_columns(gpus_used=little)
    found = idle_gpu_hours(frame).row(0, named=True)
    known = pd.DataFrame(frame.to_dict(as_series=False)).dropna(
        subset=["gpus", "gpus_used", "runtime_s"]
    )
    known = known[known["gpus"] > 0]
    hours = known["runtime_s"] / 3600
    assert (found["n"], found["n_missing"]) == (len(known), 300 - len(known))
    assert found["gpu_hours"] == pytest.approx((known["gpus"] * hours).sum())
    idle = (known["gpus"] - known["gpus_used"]).clip(lower=0) * hours
    assert found["idle_gpu_hours"] == pytest.approx(idle.sum())
    assert found["fraction_idle"] == pytest.approx(idle.sum() / (known["gpus"] * hours).sum())
    unused = known["gpus_used"] < 0.01
    assert found["n_unused"] == unused.sum() > 0
    assert found["unused_gpu_hours"] == pytest.approx((known["gpus"] * hours)[unused].sum())
    with pytest.raises(DataError, match="unused_below must be a number above 0"):
        idle_gpu_hours(frame, unused_below=0)


def delete_one_unit(x: np.ndarray, y: np.ndarray, unit: np.ndarray) -> float:
    """Standard error of sum(y) / sum(x) by the jackknife over units, which linearization nears."""
    names = np.unique(unit)
    ratios = np.array([y[unit != name].sum() / x[unit != name].sum() for name in names])
    m = len(names)
    return float(np.sqrt((m - 1) / m * ((ratios - ratios.mean()) ** 2).sum()))


@pytest.mark.parametrize("cluster", [None, "user"])
def test_intervals_of_ratios_are_those_of_the_jackknife(cluster: str | None) -> None:
    frame = rows(3000).with_columns(user=np.random.default_rng(3).integers(0, 200, 3000))
    frame = frame.drop_nans().filter(pl.col("gpus") > 0).with_row_index("row")
    used = utilization(frame, cluster=cluster).row(0, named=True)
    idle = idle_gpu_hours(frame, unused_below=0.3, cluster=cluster).row(0, named=True)
    unit = frame[cluster or "row"].to_numpy()
    gpus, use, runtime = (frame[name].to_numpy() for name in ("gpus", "gpus_used", "runtime_s"))
    weight = gpus * runtime
    for low, high, x, y in (
        (used["ci_low"], used["ci_high"], gpus, use),
        (idle["ci_low"], idle["ci_high"], weight, np.clip(gpus - use, 0, None) * runtime),
        (idle["unused_ci_low"], idle["unused_ci_high"], weight, weight * (use < 0.3)),
    ):
        sums = np.bincount(unit, x)
        quantile = stats.t.ppf(0.975, sums.sum() ** 2 / (sums**2).sum() - 1)
        half = quantile * delete_one_unit(x, y, unit)
        np.testing.assert_allclose(
            [low, high], [y.sum() / x.sum() - half, y.sum() / x.sum() + half], rtol=0.01
        )


def test_one_unit_has_no_interval() -> None:
    frame = rows().with_columns(user=pl.lit("u"))
    assert utilization(frame, cluster="user")["ci_low"].null_count() == 3
    by = utilization(frame, by="gpu_type", cluster="gpu_type")
    assert by["ci_high"].null_count() == by.height


def test_shared_time_is_counted_second_by_second() -> None:
    rng = np.random.default_rng(5)
    start = rng.integers(0, 200, 60)
    frame = pl.DataFrame(
        {
            "machine_id": rng.choice(["a", "b"], 60),
            "gpu_device": pl.Series(rng.choice(["0", "1", "-"], 60)).replace("-", None),
            "start_s": start,
            "end_s": start + rng.integers(0, 40, 60),
        }
    )
    busy = shared = most = 0
    known = frame.drop_nulls()
    for _, own in known.group_by("machine_id", "gpu_device"):
        there = np.zeros(300, int)
        for begin, end in own.select("start_s", "end_s").rows():
            there[begin:end] += 1
        busy, shared = busy + (there > 0).sum(), shared + (there > 1).sum()
        most = max(most, there.max())
    found = gpu_sharing(frame).row(0, named=True)
    assert (found["devices"], found["n"]) == (4, known.height)
    assert found["n_missing"] == 60 - known.height
    assert found["busy_hours"] == pytest.approx(busy / 3600)
    assert found["shared_hours"] == pytest.approx(shared / 3600)
    assert found["instances_max"] == most
    by = gpu_sharing(frame, by="machine_id")
    assert by["shared_hours"].sum() == pytest.approx(shared / 3600)
    with pytest.raises(DataError, match="ends before it starts"):
        gpu_sharing(frame.with_columns(end_s=pl.col("start_s") - 1).filter(pl.col("start_s") > 0))


def test_one_after_the_other_is_not_shared() -> None:
    frame = pl.DataFrame({"gpu": ["a", "a"], "start_s": [0, 3600], "end_s": [3600, 7200]})
    row = gpu_sharing(frame, device="gpu").row(0, named=True)
    assert (row["busy_hours"], row["shared_hours"], row["devices_shared"]) == (2.0, 0.0, 0)
    # together for no time, then for a quarter of four hours
    frame = pl.DataFrame(
        {"gpu": ["a"] * 4, "start_s": [0, 0, 0, 10_800], "end_s": [0, 0, 14_400, 14_400]}
    )
    row = gpu_sharing(frame, device="gpu").row(0, named=True)
    assert (row["shared_hours"], row["fraction_of_time"], row["devices_shared"]) == (1, 0.25, 1)
    row = gpu_sharing(frame[:3], device="gpu").row(0, named=True)
    assert (row["instances_max"], row["fraction_of_time"], row["devices_shared"]) == (1, 0, 0)


def test_a_demand_without_its_columns_is_refused() -> None:
    with pytest.raises(DataError, match="bin_start_s, gpus_mean is missing; found a"):
        allocation_rate(pl.DataFrame({"a": [1]}), pl.DataFrame({"gpus": [8]}))


def test_the_allocation_rate_is_demand_over_the_gpus_of_the_type() -> None:
    jobs = pl.DataFrame(
        {
            "gpu_type": ["T4", "T4", "V100", None],
            "start_s": [0.0, 1800.0, 0.0, 0.0],
            "end_s": [3600.0, 7199.0, 7199.0, 3599.0],
            "gpus": [4.0, 2.0, 8.0, 100.0],
        }
    )
    machines = pl.DataFrame({"gpu_type": ["T4", "T4", "V100", None], "gpus": [4, 6, 16, 0]})
    found = allocation_rate(gpu_demand(jobs, by="gpu_type"), machines, by="gpu_type")
    assert found["gpu_type"].to_list() == ["T4", "T4", "V100", "V100"]
    assert found["allocation_rate"].to_list() == pytest.approx([0.5, 0.2, 0.5, 0.5], rel=1e-3)
    summary = summarize_allocation(found, by="gpu_type")
    assert summary["capacity_gpus"].to_list() == [10.0, 16.0]
    assert summary["mean"].to_list() == pytest.approx([0.35, 0.5], rel=1e-3)
    ax = plot_allocation_rate(found, heading="Allocation rate")
    assert [line.get_label() for line in ax.lines] == ["T4", "V100"]
    assert list(np.asarray(ax.lines[0].get_ydata())) == pytest.approx([0.5, 0.2], rel=1e-3)


def test_one_gpu_is_a_capacity_and_none_is_none() -> None:
    jobs = pl.DataFrame(
        {"gpu_type": ["a", "b", "c"], "start_s": 0.0, "end_s": 3600.0, "gpus": [0.5, 1.5, 1]}
    )
    demand = gpu_demand(jobs, by="gpu_type")
    machines = pl.DataFrame({"gpu_type": ["a", "b", "c"], "gpus": [1.0, 0.5, 0.0]})
    found = allocation_rate(demand, machines, by="gpu_type")
    summary = summarize_allocation(found, by="gpu_type")
    assert summary["gpu_type"].to_list() == ["a", "b"]
    assert summary["max"].to_list() == pytest.approx([0.5, 3])
    assert (summary["bins_over"] > 0).to_list() == [False, True]
    full = pl.DataFrame({"gpu_type": "a", "capacity_gpus": 2.0, "allocation_rate": [1.0, 1.5, 0.0]})
    row = summarize_allocation(full).row(0, named=True)
    assert (row["bins"], row["bins_over"], row["median"], row["max"]) == (3, 1, 1, 1.5)
    assert (row["p05"], row["p95"]) == pytest.approx((0.1, 1.45))


def test_rows_without_time_do_not_count_for_the_interval() -> None:
    frame = rows(60).drop_nans().filter(pl.col("gpus") > 0, pl.col("runtime_s") > 0)
    more = pl.concat([frame, frame.with_columns(runtime_s=pl.lit(0.0))])
    few, many = (
        idle_gpu_hours(each, unused_below=0.3).row(0, named=True) for each in (frame, more)
    )
    for name in ("ci_low", "ci_high", "unused_ci_low", "unused_ci_high"):
        assert many[name] == pytest.approx(few[name])


def test_the_unit_of_time_does_not_change_an_interval() -> None:
    frame = rows(60).drop_nans().filter(pl.col("gpus") > 0)
    short = frame.with_columns(pl.col("runtime_s") / 1e6)
    one, other = (
        idle_gpu_hours(each, unused_below=0.3).row(0, named=True) for each in (frame, short)
    )
    for name in ("ci_low", "ci_high", "unused_ci_low", "unused_ci_high"):
        assert other[name] == pytest.approx(one[name])


def test_numbers_by_default() -> None:
    assert numbers_by_default(utilization, idle_gpu_hours) == {
        "utilization": {"confidence": 0.95},
        "idle_gpu_hours": {"unused_below": 0.01, "confidence": 0.95},
    }


def test_a_request_met_exactly_is_not_passed() -> None:
    frame = pl.DataFrame({"gpus": [1.0, 1, 2, 4], "gpus_used": [1.0, 1.5, 2, 3]})
    assert utilization(frame)["fraction_over"].to_list() == [0.25]


def test_no_gpu_hours_have_no_idle_share() -> None:
    frame = pl.DataFrame({"gpus": [1.0, 2], "gpus_used": [0.0, 1], "runtime_s": 0.0})
    row = idle_gpu_hours(frame).row(0, named=True)
    assert (row["n"], row["gpu_hours"]) == (2, 0)
    assert row["fraction_idle"] is row["fraction_unused"] is None


def test_instances_without_a_duration_share_no_time() -> None:
    frame = pl.DataFrame({"machine_id": "a", "gpu_device": "0", "start_s": [1, 4], "end_s": [1, 4]})
    row = gpu_sharing(frame).row(0, named=True)
    assert (row["n"], row["busy_hours"], row["fraction_of_time"]) == (2, 0, None)


def test_a_use_of_the_limit_is_a_use() -> None:
    frame = pl.DataFrame({"gpus": 1.0, "gpus_used": [0.0, 0.009, 0.01, 0.5], "runtime_s": 3600.0})
    row = idle_gpu_hours(frame).row(0, named=True)
    assert (row["n"], row["n_unused"], row["unused_gpu_hours"]) == (4, 2, 2)
