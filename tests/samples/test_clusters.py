"""The samples of ITP, ElasticFlow and openb: shares, derived columns and how they hang together."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from tests.generator import write_sample
from tests.samples.published import columns, contents

if TYPE_CHECKING:
    from pathlib import Path

Table = dict[str, list[str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Table]]:
    folder = tmp_path_factory.mktemp("whole")
    traces = ["microsoft-itp-2021", "elasticflow-2023", "alibaba-openb-2023"]
    write_sample(folder, scale=1, traces=traces)
    return {
        trace: {n.removesuffix(".csv"): columns(c) for n, c in contents(folder / trace).items()}
        for trace in traces
    }


def test_itp_has_the_real_size_shortest_duration_and_powers_of_two(
    written: dict[str, dict[str, Table]], real_data: Path
) -> None:
    ours = written["microsoft-itp-2021"]
    real = contents(real_data / "microsoft-itp-2021")
    assert {n: len(t["job_id"]) for n, t in ours.items()} == {
        name.removesuffix(".csv"): content.count(b"\n") for name, content in real.items()
    }
    durations = [int(d) for table in ours.values() for d in table["duration"]]
    assert min(durations) >= 600
    assert max(durations) > 50 * mean(durations)
    gpus = [int(g) for table in ours.values() for g in table["num_gpu"]]
    assert set(gpus) == {1, 2, 4, 8, 16, 32, 64}
    one = 57_682 / 69_351
    assert mean(g == 1 for g in gpus) == pytest.approx(one, abs=4 * sqrt(one * (1 - one) / 69_351))
    for table in ours.values():
        submitted = list(map(int, table["submission_time"]))
        assert submitted == sorted(submitted)
        assert max(submitted) < 60 * 86_400


def test_elasticflow_holds_the_same_jobs(written: dict[str, dict[str, Table]]) -> None:
    jobs, plans = written["microsoft-itp-2021"], written["elasticflow-2023"]
    assert set(plans) == {*jobs, "195job"}
    for cluster, table in jobs.items():
        assert {name: plans[cluster][name] for name in table} == table


def test_deadlines_are_uniform_about_the_duration(written: dict[str, dict[str, Table]]) -> None:
    ratios = [
        (int(deadline) - int(submitted) + 0.5) / int(duration)
        for table in written["elasticflow-2023"].values()
        for deadline, submitted, duration in zip(
            table["deadline"], table["submission_time"], table["duration"], strict=True
        )
    ]
    assert min(ratios) > 0.499
    assert max(ratios) < 1.501
    n = len(ratios)
    assert mean(ratios) == pytest.approx(1, abs=4 / sqrt(12 * n))
    below = sorted(ratios)
    # Kolmogorov's distance from U(0.5, 1.5): 1.95 / sqrt(n) is passed by chance once in a thousand
    assert max(abs(i / n - (r - 0.5)) for i, r in enumerate(below)) < 1.95 / sqrt(n) + 1 / n


def test_iterations_are_what_the_throughput_allows(written: dict[str, dict[str, Table]]) -> None:
    bounds: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, float("inf")])
    names = ("model_name", "batch_size", "num_gpu", "num_iteration", "duration")
    for table in written["elasticflow-2023"].values():
        for model, batch, gpus, iterations, duration in zip(
            *(table[n] for n in names), strict=True
        ):
            bound = bounds[model, batch, gpus]
            bound[0] = max(bound[0], int(iterations) / int(duration))
            bound[1] = min(bound[1], (int(iterations) + 1) / int(duration))
    assert len(bounds) > 90
    # one rate a kind of plan explains them all, but for the last digit of a float
    assert all(low <= high * (1 + 1e-12) for low, high in bounds.values())


def test_the_testbed_repeats_consecutive_jobs_of_one_cluster(
    written: dict[str, dict[str, Table]],
) -> None:
    testbed = written["elasticflow-2023"]["195job"]
    cluster = written["elasticflow-2023"]["cluster02"]
    first = cluster["job_id"].index(testbed["job_id"][0])
    for name in ("job_id", "submission_time", "num_gpu", "duration"):
        assert testbed[name] == cluster[name][first : first + 195]
    assert testbed["deadline"] != cluster["deadline"][first : first + 195]


def test_openb_pods_have_the_real_shares(written: dict[str, dict[str, Table]]) -> None:
    pods = written["alibaba-openb-2023"]["openb_pod_list_default"]
    n = len(pods["name"])
    assert n == 8152
    pairs = list(zip(pods["qos"], pods["pod_phase"], strict=True))
    for pair, count in {
        ("BE", "Failed"): 1627,
        ("BE", "Pending"): 441,
        ("LS", "Running"): 3837,
        ("LS", "Failed"): 203,
        ("Burstable", "Succeeded"): 39,
        ("Guaranteed", "Running"): 7,
    }.items():
        share = count / 8152
        error = 4 * sqrt(share * (1 - share) / n)
        assert pairs.count(pair) / n == pytest.approx(share, abs=error)


def test_a_pending_pod_was_never_scheduled(written: dict[str, dict[str, Table]]) -> None:
    pods = written["alibaba-openb-2023"]["openb_pod_list_default"]
    names = ("pod_phase", "creation_time", "scheduled_time", "deletion_time")
    for phase, created, scheduled, deleted in zip(*(pods[c] for c in names), strict=True):
        assert (scheduled == "") == (phase == "Pending")
        assert int(created) <= int(scheduled or created) <= int(deleted)
    assert set(pods["gpu_spec"]) == {""}
    for gpus, milli in zip(pods["num_gpu"], pods["gpu_milli"], strict=True):
        assert 0 < int(milli) <= 1000 if gpus == "1" else milli == ("0" if gpus == "0" else "1000")


def test_openb_nodes_without_gpus_have_no_model(written: dict[str, dict[str, Table]]) -> None:
    nodes = written["alibaba-openb-2023"]["openb_node_list_all_node"]
    assert len(nodes["sn"]) == 1523
    assert sum(map(int, nodes["gpu"])) > 6_200
    for gpus, model in zip(nodes["gpu"], nodes["model"], strict=True):
        assert (gpus == "0") == (model == "")
