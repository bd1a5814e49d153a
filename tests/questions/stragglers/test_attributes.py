"""Planted slow workers, hosts and stages; the two published jobs; jobs with noise alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import straggler_attributes
from traceana.errors import DataError
from traceana.questions.stragglers.analyze import _between


def job(times: np.ndarray, job_id: str = "a") -> pl.DataFrame:
    """Steps by workers, with two workers per host and four per rack."""
    steps, workers = times.shape
    rank = np.tile(np.arange(workers), steps)
    return pl.DataFrame(
        {
            "job_id": [job_id] * times.size,
            "step": np.repeat(np.arange(steps), workers),
            "worker_id": rank,
            "host": [f"h{one // 2}" for one in rank],
            "rack": rank // 4,
            "batch_time": times.ravel(),
        }
    )


def noise(seed: int, steps: int = 50, workers: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0, 0.05, (steps, workers))


def explanation(samples: pl.DataFrame) -> list[tuple[str, str]]:
    found = straggler_attributes(samples, attributes=("host", "rack"), time="step").attributes
    return found.filter("explains").select("attribute", "group").rows()


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ([5], [("worker", "5")]),
        ([6, 7], [("host", "h3")]),
        ([8, 9, 10, 11], [("rack", "2")]),
        ([3, 4], []),  # of two hosts: neither explains it
        ([], []),
    ],
)
def test_the_smallest_group_that_explains_is_found(
    slow: list[int], expected: list[tuple[str, str]]
) -> None:
    times = noise(1)
    times[:, slow] *= 1.8
    assert explanation(job(times)) == expected


def test_closed_form_without_noise() -> None:
    times = np.ones((10, 8))
    times[:, 3] = 3.0
    result = straggler_attributes(job(times), attributes=["host", "rack"], time="step")
    rows = {row["attribute"]: row for row in result.attributes.iter_rows(named=True)}
    worker = rows["worker"]
    # the job takes 3 instead of 1: a factor of 3, two thirds of its time, all of the slowdown
    assert (worker["job"], worker["without"], worker["slowdown"]) == (3.0, 1.0, 3.0)
    assert worker["gain"] == pytest.approx(2 / 3)
    assert worker["explained"] == pytest.approx(1.0)
    # shuffled, worker 3 is the slow one in one of eight steps, of ten: 0.6 in 20 is improbable
    assert 1 / 8 < worker["explained_by_chance"] < 0.6
    assert worker["explains"]
    assert worker["pvalue"] is None
    # between hosts: deviations of 2 (mean 1/4) within and between, (2/8 * 3)^2 ...
    levels = np.array([1, 1, 1, 3, 1, 1, 1, 1]) - 10 / 8
    between = sum(2 * levels[i : i + 2].mean() ** 2 for i in range(0, 8, 2))
    assert rows["host"]["variance_explained"] == pytest.approx(between / (levels**2).sum())
    ratio = result.groups.filter(attribute="worker", group="3")["ratio_to_others"].item()
    assert ratio == pytest.approx(3.0)


def test_a_permutation_pvalue_is_that_of_all_pairings() -> None:
    times = np.ones((5, 8))
    times[:, 6:] = 2.0
    found = straggler_attributes(job(times), attributes="host", time="step", resamples=9999)
    (row,) = found.attributes.filter(attribute="host").iter_rows(named=True)
    # the two slow ones share a host in 4 of 28 pairs
    assert row["pvalue"] == pytest.approx(4 / 28, abs=0.015)
    default = straggler_attributes(job(times), attributes="host", time="step").attributes
    tried = 1000 * default.filter(attribute="host")["pvalue"].item()  # 999 and the observed one
    assert tried == pytest.approx(round(tried))


def test_noise_alone_is_explained_by_no_attribute() -> None:
    found = [
        explanation(job(noise(seed, workers=workers)))
        for seed in range(20)
        for workers in (2, 3, 6, 16)
    ]
    # one shuffle in 21 explains as much
    assert sum(map(bool, found)) <= 2


def test_missing_values_are_counted_and_change_nothing_else() -> None:
    times = noise(2)
    times[:, 5] *= 2
    times[7, 3] = np.nan
    samples = job(times).with_columns(rack=pl.when(pl.col("worker_id") != 15).then(pl.col("rack")))
    found = straggler_attributes(samples, attributes="rack", time="step").attributes
    assert found.filter("explains")["group"].to_list() == ["5"]
    assert dict(found.select("attribute", "n_missing").rows()) == {"worker": 1, "rack": 51}


def test_several_jobs_and_keys_of_other_types() -> None:
    slow = noise(3, workers=4)
    slow[:, 1] *= 2
    both = pl.concat([job(slow, "b"), job(noise(4, workers=4), "a")])
    result = straggler_attributes(both.to_pandas(), time="step")
    assert result.attributes["job_id"].to_list() == ["a", "b"]
    assert result.attributes["explains"].to_list() == [False, True]
    assert str(result.of_job("b")).startswith("b: worker 1 explains ")
    assert str(result.of_job("a")) == "no attribute explains the slowness of a job"
    with pytest.raises(DataError, match="no job has this key"):
        result.of_job("c")


def test_one_worker_has_no_others() -> None:
    found = straggler_attributes(job(noise(5, workers=1)), time="step").attributes
    assert found["note"].to_list() == ["no step has two workers"]


def test_a_wrong_argument_is_refused() -> None:
    samples = job(noise(6, workers=2))
    with pytest.raises(DataError, match="several values of batch_time"):
        straggler_attributes(pl.concat([samples, samples]), time="step")
    with pytest.raises(DataError, match="min_explained must be above 0"):
        straggler_attributes(samples, time="step", min_explained=0)
    with pytest.raises(DataError, match="column stage is missing"):
        straggler_attributes(samples, time="step", attributes="stage")


def test_the_published_jobs(real_data: Path) -> None:
    """Compute time summed by another way: what the authors found by replaying the operations."""
    folder = real_data / "bytedance-stragglers-2025"
    told = {}
    for name in ("AR", "ST"):
        rows = pl.read_parquet(folder / f"trace-{name}.parquet").filter(
            pl.col("optype").cast(pl.String).str.ends_with("ward-compute")
        )
        samples = rows.group_by("rank", "stage", "dp_rank", "step").agg(
            pl.col("duration").cast(pl.Float64).sum()
        )
        found = straggler_attributes(
            samples,
            attributes=("stage", "dp_rank"),
            by=(),
            worker="rank",
            time="step",
            value="duration",
        ).attributes
        told[name] = found.filter("explains").select("attribute", "group", "n_workers").row(0)
    # mw-AR.json: Mw 1.002; ms-ST.json: Ms 1.219, the last of four stages
    assert told == {"AR": ("worker", "0", 1), "ST": ("stage", "3", 2)}


def test_workers_of_a_group_are_so_many_times_slower_than_the_others() -> None:
    times = np.ones((10, 8)) * 0.5
    times[:, [2, 3]] = 1.5
    times[0] = 0  # a step that takes no time
    result = straggler_attributes(job(times), attributes=("host", "rack"), time="step")
    ratios = result.groups.filter(group="h1")["ratio_to_others"].to_list()
    assert ratios == pytest.approx([3])
    row = result.attributes.filter(attribute="host").row(0, named=True)
    assert (row["group"], row["explains"], row["n_steps"]) == ("h1", True, 10)
    # between four hosts of two alike workers there is all of the variance
    assert row["variance_explained"] == pytest.approx(1)
    for wrong in (0, 1.5):
        with pytest.raises(DataError, match="resamples must be a whole number from 1 to 1,000,000"):
            straggler_attributes(job(times), time="step", resamples=wrong)  # type: ignore[arg-type]


def test_defaults_of_attributes() -> None:
    samples = job(noise(3, steps=5, workers=6))
    found = straggler_attributes(samples, attributes="host", time="step")
    same = straggler_attributes(
        samples, attributes="host", time="step", min_explained=0.5, resamples=999, rng=1
    )
    assert found.attributes.equals(same.attributes)


def test_a_group_may_explain_exactly_as_much_as_is_asked() -> None:
    times = noise(1)
    times[:, 5] *= 1.8
    row = straggler_attributes(job(times), time="step").attributes.row(0, named=True)
    beyond = row["explained"] - row["explained_by_chance"]
    for least, explains in ((beyond, True), (np.nextafter(beyond, 1), False)):
        found = straggler_attributes(job(times), time="step", min_explained=float(least))
        assert found.attributes["explains"].item() == explains


def test_the_variance_between_groups_of_which_one_has_one_worker() -> None:
    level, codes = np.array([1.0, 2, 4, 14, 1, 2]), np.array([0, 0, 0, 1, 2, 2])
    means = np.array([7 / 3] * 3 + [14] + [1.5] * 2)
    explained, pvalue = _between(level, codes, 199, np.random.default_rng(1))
    assert explained == pytest.approx(((means - 4) ** 2).sum() / ((level - 4) ** 2).sum())
    assert pvalue is not None
    assert pvalue > 1 / 6 - 0.1  # one of six workers is the highest


def test_a_job_without_time_has_no_slowdown() -> None:
    found = straggler_attributes(job(np.zeros((5, 8))), attributes="host", time="step").attributes
    assert found["slowdown"].null_count() == found.height


def test_a_group_of_all_workers_has_no_others() -> None:
    samples = job(noise(7, workers=4)).with_columns(host=pl.lit("one"))
    found = straggler_attributes(samples, attributes="host", time="step", resamples=1).groups
    assert found.filter(attribute="host")["ratio_to_others"].to_list() == [None]


def test_two_groups_have_a_variance_between_them() -> None:
    explained, pvalue = _between(
        np.array([1.0, 2, 5, 8]), np.array([0, 0, 2, 2]), 99, np.random.default_rng(2)
    )
    # a mean of 4, means of groups 1.5 and 6.5: 4 * 2.5^2 of 9 + 4 + 1 + 16
    assert explained == pytest.approx(25 / 30)
    assert pvalue == pytest.approx(1 / 3, abs=0.15)  # of six ways to choose two, two are as large


@pytest.mark.parametrize("codes", [[0, 0, 0, 0], [0, 1, 2, 3], [-1, -1, -1, -1]])
def test_one_group_or_groups_of_one_worker_have_no_variance_between(codes: list[int]) -> None:
    level = np.array([1.0, 2, 5, 8])
    assert _between(level, np.array(codes), 9, np.random.default_rng(3)) == (None, None)
