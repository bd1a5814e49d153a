"""The PAI sample against the published counts (papers' numbers, not the module's)."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import sqrt
from statistics import mean, stdev
from typing import TYPE_CHECKING

import pytest

from tests.samples.published import headed

if TYPE_CHECKING:
    from pathlib import Path

TASKS = 1_261_050
PUBLISHED = {
    "status": {"Terminated": 885_073, "Failed": 256_762, "Running": 115_501, "Waiting": 3_714},
    "plan_gpu": {
        "100.0": 442_591,
        "25.0": 272_243,
        "": 223_965,
        "50.0": 136_701,
        "10.0": 116_648,
        "200.0": 16_312,
        "800.0": 4_943,
    },
    "inst_num": {"1.0": 963_703},
    "gpu_type": {
        "MISC": 696_000,
        "T4": 227_000,
        "": 218_000,
        "P100": 73_000,
        "V100": 29_000,
        "V100M32": 19_000,
    },
}
Table = dict[str, list[str]]


@pytest.fixture(scope="module")
def tables(larger_pai: Path) -> dict[str, Table]:
    names = ["job", "task", "instance", "sensor", "group_tag"]
    found = {name: headed(larger_pai, f"pai_{name}_table") for name in names}
    return found | {n: headed(larger_pai, f"pai_{n}") for n in ("machine_metric", "machine_spec")}


@pytest.mark.parametrize(
    ("column", "value", "count"),
    [(column, value, n) for column, of in PUBLISHED.items() for value, n in of.items()],
)
def test_task_shares_are_the_published_ones(
    column: str, value: str, count: int, tables: dict[str, Table]
) -> None:
    cells = tables["task"][column]
    expected = count / TASKS
    # the tasks of a job share its fate: clusters of 1 to 3, hence half as much again
    error = sqrt(1.5 * expected * (1 - expected) / len(cells))
    assert cells.count(value) / len(cells) == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("job", 1_055_501),
        ("task", 1_261_050),
        ("instance", 7_522_002),
        ("sensor", 3_033_232),
        ("group_tag", 1_055_032),
        ("machine_metric", 2_009_423),
        ("machine_spec", 1_897),
    ],
)
def test_rows_are_the_scales_share_of_the_real_tables(
    table: str, rows: int, tables: dict[str, Table]
) -> None:
    assert len(next(iter(tables[table].values()))) == round(rows * 0.05)


def lost(cells: list[str]) -> float:
    return mean(cell in {"", "0.0"} for cell in cells)


def test_ends_are_lost_as_published(tables: dict[str, Table]) -> None:
    task = tables["task"]
    ends = defaultdict(list)
    for status, end in zip(task["status"], task["end_time"], strict=True):
        ends[status].append(end)
    assert lost(ends["Terminated"]) == 0
    error = sqrt(0.1 * 0.9 * 1.5 / len(ends["Failed"]))
    assert 1 - lost(ends["Failed"]) == pytest.approx(0.1, abs=4 * error)
    assert lost(ends["Running"]) == 1
    for table in ("task", "job"):
        either = [
            "" if "" in pair or "0.0" in pair else "known"
            for pair in zip(tables[table]["start_time"], tables[table]["end_time"], strict=True)
        ]
        assert 0.27 < lost(either) < 0.3
    assert "0.0" in task["end_time"]
    assert "0.0" in task["start_time"]


def runtimes(tables: dict[str, Table], *, success: bool) -> dict[str, list[float]]:
    """Runtime of each task by GPU type: last end less first start of its instances."""
    inst = tables["instance"]
    spans: dict[tuple[str, str], list[float]] = {}
    columns = ("job_name", "task_name", "start_time", "end_time")
    for job, name, start, end in zip(*(inst[c] for c in columns), strict=True):
        if float(start or 0) and float(end or 0):
            span = spans.setdefault((job, name), [float(start), float(end)])
            span[:] = min(span[0], float(start)), max(span[1], float(end))
    found = defaultdict(list)
    task = tables["task"]
    columns = ("job_name", "task_name", "gpu_type", "status")
    for job, name, gpu_type, status in zip(*(task[c] for c in columns), strict=True):
        if (job, name) in spans and (status == "Terminated") == success:
            first, last = spans[job, name]
            found[gpu_type].append(last - first)
    return found


def test_mean_runtimes_of_success_are_in_the_published_order(tables: dict[str, Table]) -> None:
    of_type = runtimes(tables, success=True)
    means = {gpu_type: mean(values) for gpu_type, values in of_type.items()}
    published = {"T4": 2876.3, "MISC": 5197.2, "P100": 7669.9, "V100": 9707.03, "V100M32": 11905.27}
    order = list(published)
    assert sorted(order, key=lambda gpu_type: means[gpu_type]) == order
    for gpu_type, expected in published.items():
        assert means[gpu_type] == pytest.approx(expected, rel=0.15)


def test_mean_runtimes_of_failure_are_near_the_published(tables: dict[str, Table]) -> None:
    of_type = runtimes(tables, success=False)
    for gpu_type, expected in {"MISC": 5993.6, "T4": 5064.8}.items():
        values = of_type[gpu_type]
        # the jobs of a group have alike runtimes: the error is larger than of as many single ones
        error = 1.5 * stdev(values) / sqrt(len(values))
        assert mean(values) == pytest.approx(expected, abs=4 * error)


def test_some_tasks_run_still_though_their_instances_ended(tables: dict[str, Table]) -> None:
    running = {
        (job, name)
        for job, name, status in zip(
            *(tables["task"][c] for c in ("job_name", "task_name", "status")), strict=True
        )
        if status == "Running"
    }
    inst = tables["instance"]
    columns = ("job_name", "task_name", "status", "end_time")
    ended = {
        (job, name)
        for job, name, status, end in zip(*(inst[c] for c in columns), strict=True)
        if (job, name) in running and status == "Terminated" and end not in {"", "0.0"}
    }
    assert 0.05 < len(ended) / len(running) < 0.3


def test_instances_have_a_heavy_tail(tables: dict[str, Table]) -> None:
    sizes = sorted(map(float, tables["task"]["inst_num"]))
    assert sum(sizes) == len(tables["instance"]["job_name"])
    assert 1_000 < sizes[-1] <= 6_330
    assert sizes[int(0.95 * len(sizes))] < 50


def test_keys_lead_from_table_to_table(tables: dict[str, Table]) -> None:
    job, task, inst = tables["job"], tables["task"], tables["instance"]
    assert len(set(job["job_name"])) == len(job["job_name"])
    assert set(task["job_name"]) == set(job["job_name"])
    keys = list(zip(task["job_name"], task["task_name"], strict=True))
    assert len(set(keys)) == len(keys)
    counted = Counter(zip(inst["job_name"], inst["task_name"], strict=True))
    named = dict(zip(keys, map(float, task["inst_num"]), strict=True))
    assert counted == named
    assert set(tables["group_tag"]["inst_id"]) <= set(job["inst_id"])
    workers = dict(zip(inst["worker_name"], inst["machine"], strict=True))
    sensor = tables["sensor"]
    assert set(sensor["worker_name"]) <= set(workers)
    assert set(tables["machine_metric"]["worker_name"]) <= set(workers)
    assert set(inst["machine"]) - {""} <= set(tables["machine_spec"]["machine"])


def test_instances_run_on_machines_of_their_tasks_type(tables: dict[str, Table]) -> None:
    spec = tables["machine_spec"]
    type_of = dict(zip(spec["machine"], spec["gpu_type"], strict=True))
    task = tables["task"]
    keys = zip(task["job_name"], task["task_name"], strict=True)
    wanted = dict(zip(keys, task["gpu_type"], strict=True))
    inst = tables["instance"]
    columns = ("job_name", "task_name", "machine", "status")
    for job, name, machine, status in zip(*(inst[c] for c in columns), strict=True):
        if status == "Waiting":
            assert machine == ""
        elif wanted[job, name]:
            assert type_of[machine] == wanted[job, name]


def test_a_worker_may_have_several_rows(tables: dict[str, Table]) -> None:
    inst = tables["instance"]
    columns = ("job_name", "task_name", "worker_name")
    repeated = Counter(zip(*(inst[c] for c in columns), strict=True))
    assert 0 < sum(count > 1 for count in repeated.values()) / len(repeated) < 0.01


def test_groups_recur_for_one_user_and_one_kind_of_request(tables: dict[str, Table]) -> None:
    tag = tables["group_tag"]
    users, sizes = defaultdict(set), Counter(tag["group"])
    for group, user in zip(tag["group"], tag["user"], strict=True):
        users[group].add(user)
    assert all(len(of_group) == 1 for of_group in users.values())
    in_groups_of_five = sum(count for count in sizes.values() if count >= 5)
    assert in_groups_of_five / len(tag["group"]) > 0.6
    tagged = mean(bool(workload) for workload in tag["workload"])
    assert tagged == pytest.approx(0.09, abs=4 * sqrt(0.09 * 0.91 / len(tag["workload"])))


def test_use_exceeds_a_hundred_percent_at_times(tables: dict[str, Table]) -> None:
    for table, column in (("sensor", "gpu_wrk_util"), ("machine_metric", "machine_gpu")):
        over = mean(float(cell or 0) > 100 for cell in tables[table][column])
        assert 0.001 < over < 0.2


def test_submissions_have_a_daily_and_a_weekly_rhythm(tables: dict[str, Table]) -> None:
    # time 0 was a Thursday, 8 in the morning in UTC+8
    times = [float(t) + 8 * 3600 for t in tables["job"]["start_time"] if t not in {"", "0.0"}]
    hours = Counter(int(t // 3600) % 24 for t in times)
    assert sum(hours[h] for h in range(12, 18)) > 1.8 * sum(hours[h] for h in range(6))
    days = Counter(int(t // 86400 + 3) % 7 for t in times)
    assert days[5] + days[6] < 0.5 * (days[1] + days[2] + days[3] + days[4])
    assert 60 < (max(times) - min(times)) / 86400 < 63
    assert times != sorted(times)


def test_memory_stays_modest(larger_pai_and_peak: tuple[Path, int | None]) -> None:
    folder, peak_kib = larger_pai_and_peak
    if peak_kib is None:
        pytest.skip("this system does not tell a process's peak memory in /proc")
    packed = sum(path.stat().st_size for path in folder.iterdir())
    assert packed > 50e6
    assert peak_kib < 450 * 1024
