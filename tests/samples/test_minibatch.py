"""The planted truth is in the workers' times, and the CoV table is computed from them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from statistics import mean, median, pstdev, stdev
from typing import TYPE_CHECKING, Any

import pytest

from tests.generator import write_sample
from tests.samples.published import columns, contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOBS = ["job_1", "job_2", "job_3", "job_4"]
Samples = dict[tuple[str, int], int]  # (worker, time) -> mini-batch time


@pytest.fixture(scope="module")
def truth(sample: Path) -> dict[str, Any]:
    path = sample / "alibaba-minibatch-2020" / "SYNTHETIC-truth.json"
    told: dict[str, Any] = json.loads(path.read_text())
    assert told["synthetic"] is True
    jobs: dict[str, Any] = told["jobs"]
    return jobs


@pytest.fixture(scope="module")
def csvs(sample: Path) -> dict[str, dict[str, list[str]]]:
    found = contents(sample / "alibaba-minibatch-2020")
    return {name.removesuffix(".csv"): columns(content) for name, content in found.items()}


@pytest.fixture(scope="module")
def samples(csvs: dict[str, dict[str, list[str]]]) -> dict[str, Samples]:
    found = {}
    for job in JOBS:
        table = csvs[f"{job}_norm"]
        times = map(int, table["time"])
        keys = zip(table["worker"], times, strict=True)
        found[job] = dict(zip(keys, map(int, table["batch_time_norm"]), strict=True))
    return found


def normal(job: dict[str, Any], samples: Samples, worker: str) -> list[int]:
    """A worker's times outside its episodes."""
    mine = [e for e in job["episodes"] if e["worker"] == worker]
    return [
        value
        for (of, time), value in samples.items()
        if of == worker and not any(e["onset_s"] <= time <= e["end_s"] for e in mine)
    ]


@pytest.mark.parametrize("job", ["job_1", "job_3", "job_4"])
def test_a_straggler_is_slow_in_its_episode_and_not_beside_it(
    job: str, truth: dict[str, Any], samples: dict[str, Samples]
) -> None:
    assert truth[job]["episodes"]
    for episode in truth[job]["episodes"]:
        worker = episode["worker"]
        usual = median(normal(truth[job], samples[job], worker))
        for edge, inside in (("onset_s", 10), ("end_s", -10)):
            # the first and the last slow sample are slow, their neighbours are not
            at = episode[edge]
            assert samples[job][worker, at] > 1.3 * usual
            assert samples[job][worker, at - inside] < 1.3 * usual
        slow = [
            value
            for (of, time), value in samples[job].items()
            if of == worker and episode["onset_s"] <= time <= episode["end_s"]
        ]
        assert len(slow) == (episode["end_s"] - episode["onset_s"]) / 10 + 1
        assert mean(slow) / usual == pytest.approx(episode["severity"], rel=0.08)


@pytest.mark.parametrize("job", JOBS)
def test_levels_are_the_workers_usual_times(
    job: str, truth: dict[str, Any], samples: dict[str, Samples]
) -> None:
    levels = truth[job]["levels"]
    assert len(levels) == 10
    ratios = [median(normal(truth[job], samples[job], w)) / levels[w] for w in levels]
    assert max(ratios) / min(ratios) < 1.05


def test_job_2_has_slow_workers_and_no_episode(
    truth: dict[str, Any], samples: dict[str, Samples]
) -> None:
    assert truth["job_2"]["episodes"] == []
    levels = truth["job_2"]["levels"]
    assert sum(level > 1.25 for level in levels.values()) == 3
    for worker in levels:
        values = [value for (of, _), value in samples["job_2"].items() if of == worker]
        assert max(values) / min(values) < 1.15


@pytest.mark.parametrize("job", JOBS)
def test_a_file_is_laid_out_as_published(job: str, csvs: dict[str, dict[str, list[str]]]) -> None:
    table = csvs[f"{job}_norm"]
    n = len(table[""])
    assert table[""] == [str(i) for i in range(n)]
    assert max(map(int, table["batch_time_norm"])) == 1000
    assert len(set(table["gpu"])) == 1
    times = list(map(int, table["time"]))
    assert times == sorted(times)
    assert times[0] == 1
    steps = [b - a for a, b in pairwise(times) if b > a]
    assert set(steps[:-1]) == {10}
    repeated = Counter(zip(*list(table.values())[1:], strict=True)).most_common(2)
    assert [count for _, count in repeated] == ([2, 1] if job == "job_2" else [1, 1])
    workers = Counter(Counter(times).values())
    expected = {"job_1": {10}, "job_2": {1, 2, 3, 4, 10}, "job_3": {9, 10}, "job_4": {9, 10}}
    assert set(workers) == expected[job]


def test_a_value_is_held_until_the_next_report(samples: dict[str, Samples]) -> None:
    for job in JOBS:
        keys = list(samples[job])
        held = [
            samples[job][worker, time] == samples[job][worker, time + 10]
            for worker, time in keys
            if (worker, time + 10) in samples[job]
        ]
        assert 0.05 < mean(held) < 0.8


def test_cov_rows_are_computed_from_the_job_files_with_ddof_1(
    truth: dict[str, Any],
    samples: dict[str, Samples],
    csvs: dict[str, dict[str, list[str]]],
) -> None:
    table = csvs["coefficient_variation"]
    for job in JOBS:
        of_job = truth[job]["cov_table"]
        at = table[""].index(of_job["row"])
        row = [float(table[str(i)][at]) for i in range(2000) if table[str(i)][at]]
        by_time: dict[int, list[int]] = {}
        for (_, time), value in samples[job].items():
            by_time.setdefault(time, []).append(value)
        ten = [values for values in by_time.values() if len(values) == 10]
        assert len(row) == min(len(ten), 2000)
        first = next(time for time, values in by_time.items() if len(values) == 10)
        assert of_job["first_sample_at_s"] == first

        def worst(
            spread: Callable[[list[int]], float],
            row: list[float] = row,
            ten: list[list[int]] = ten,
        ) -> float:
            return max(abs(spread(v) / mean(v) - c) for v, c in zip(ten, row, strict=False))

        assert of_job["ddof"] == 1
        assert worst(stdev) < 0.005  # what rounding to whole numbers leaves
        assert worst(pstdev) > 2 * worst(stdev)


def test_cov_table_is_padded_and_cut_as_published(csvs: dict[str, dict[str, list[str]]]) -> None:
    table = csvs["coefficient_variation"]
    assert table[""] == [f"job_{i:02d}" for i in range(100)]
    cells = list(zip(*list(table.values())[1:], strict=True))
    lengths = [sum(cell != "" for cell in row) for row in cells]
    assert all(not any(row[n:]) for row, n in zip(cells, lengths, strict=True))
    assert 5 <= lengths.count(2000) <= 12
    values = [float(cell) for row in cells for cell in row if cell]
    assert min(values) >= 0
    assert max(values) <= 10**0.5
    medians = [median(map(float, row[:n])) for row, n in zip(cells, lengths, strict=True)]
    assert min(medians) < 0.05
    assert max(medians) > 1


def test_scale_1_has_the_rows_of_the_real_files(tmp_path: Path) -> None:
    write_sample(tmp_path, scale=1, traces="alibaba-minibatch-2020")
    found = contents(tmp_path / "alibaba-minibatch-2020")
    rows = {name: len(content.splitlines()) - 1 for name, content in found.items()}
    assert rows == {
        "job_1_norm.csv": 3000,
        "job_2_norm.csv": 2402,
        "job_3_norm.csv": 2489,
        "job_4_norm.csv": 21829,
        "coefficient_variation.csv": 100,
    }
    cov = columns(found["coefficient_variation.csv"])
    del cov[""]
    assert sum(cell != "" for column in cov.values() for cell in column) == 82_739
