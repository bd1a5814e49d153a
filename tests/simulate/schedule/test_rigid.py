"""Rigid jobs: an independent simulator, closed forms of queues, and hostile input."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana import simulate_schedule
from traceana.errors import DataError
from traceana.simulate.schedule.policy import ScheduleState, SchedulingPolicy
from traceana.simulate.schedule.simulate import POLICIES


def _jobs(*rows: tuple[float, float, float], **more: list[object]) -> pl.DataFrame:
    submit, runtime, gpus = zip(*rows, strict=True) if rows else ((), (), ())
    return pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(len(rows))],
            "submit_s": pl.Series(submit, dtype=pl.Float64),
            "runtime_s": pl.Series(runtime, dtype=pl.Float64),
            "gpus": pl.Series(gpus, dtype=pl.Float64),
            **more,
        }
    )


def _replay(rows: list[tuple[float, float, float]], gpus: int, policy: str) -> list[float | None]:
    """Step through a log event by event, without any data structure; return the ends."""
    left = [runtime for _, runtime, _ in rows]
    end: list[float | None] = [None] * len(rows)
    running: dict[int, float] = {}
    todo = [job for job in range(len(rows)) if rows[job][2] <= gpus]
    now = 0.0
    while todo:
        for job in [job for job in running if running[job] <= now]:
            end[job] = running.pop(job)
            todo.remove(job)
        arrived = sorted((j for j in todo if rows[j][0] <= now), key=lambda j: (rows[j][0], j))
        if policy == "srtf":
            left = [running[j] - now if j in running else left[j] for j in range(len(rows))]
            running.clear()
            for job in sorted(arrived, key=lambda j: (left[j], rows[j][0], j)):
                if sum(rows[j][2] for j in running) + rows[job][2] <= gpus:
                    running[job] = now + left[job]
        else:
            waiting = [job for job in arrived if job not in running]
            if policy == "sjf":
                waiting.sort(key=lambda j: (rows[j][1], rows[j][0], j))
            _start(rows, waiting, running, (now, gpus, policy))
        coming = [rows[j][0] for j in todo if rows[j][0] > now]
        now = min([*running.values(), *coming], default=math.inf)
    return end


def _start(
    rows: list[tuple[float, float, float]],
    waiting: list[int],
    running: dict[int, float],
    at: tuple[float, int, str],
) -> None:
    now, gpus, policy = at

    def held(time: float) -> float:
        return sum(rows[j][2] for j in running if running[j] > time)

    def used() -> float:
        return sum(rows[j][2] for j in running)

    while waiting and used() + rows[waiting[0]][2] <= gpus:
        job = waiting.pop(0)
        running[job] = now + rows[job][1]
    if policy == "easy" and waiting:
        need = rows[waiting[0]][2]
        shadow = min(t for t in running.values() if gpus - held(t) >= need)
        extra = gpus - held(shadow) - need
        for job in waiting[1:]:
            _, runtime, own = rows[job]
            if used() + own <= gpus and (now + runtime <= shadow or own <= extra):
                running[job] = now + runtime
                extra -= own if now + runtime > shadow else 0


logs = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.sampled_from([1, 2, 3, 4, 9])),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "easy"])
@settings(max_examples=30, deadline=None)
@given(rows=logs)
def test_ends_equal_those_of_an_independent_simulator(
    policy: str, rows: list[tuple[float, float, float]]
) -> None:
    found = simulate_schedule(_jobs(*rows), policy=policy, gpus=4).jobs["end_s"]
    assert found.to_list() == _replay(rows, 4, policy)


def _poisson(rng: np.random.Generator, n: int, rate: float, mean: float) -> pl.DataFrame:
    submit = np.cumsum(rng.exponential(1 / rate, n))
    runtime = rng.exponential(mean, n)
    return pl.DataFrame(
        {"job_id": np.arange(n), "submit_s": submit, "runtime_s": runtime, "gpus": 1}
    )


def test_waits_agree_with_erlang_c() -> None:
    servers, rate, mean = 8, 0.7, 10.0
    load = rate * mean
    blocked = load**servers / math.factorial(servers) / (1 - load / servers)
    waits = blocked / (sum(load**k / math.factorial(k) for k in range(servers)) + blocked)
    expected = waits * mean / (servers - load)
    jobs = _poisson(np.random.default_rng(1), 60_000, rate, mean)
    found = simulate_schedule(jobs, policy="fifo", gpus=servers).groups
    assert found["wait_s_mean"].item() == pytest.approx(expected, rel=0.1)
    assert found["utilization"].item() == pytest.approx(load / servers, rel=0.02)


def test_waits_agree_with_pollaczek_khinchine() -> None:
    rng, n, rate = np.random.default_rng(2), 60_000, 0.05
    runtime = rng.uniform(5, 25, n)
    jobs = _poisson(rng, n, rate, 1).with_columns(runtime_s=runtime)
    expected = rate * (runtime**2).mean() / (2 * (1 - rate * runtime.mean()))
    found = simulate_schedule(jobs, policy="fifo", gpus=1).groups["wait_s_mean"].item()
    assert found == pytest.approx(expected, rel=0.1)


RIGID = [name for name in POLICIES if "edf" not in name and name != "elasticflow"]


@pytest.mark.parametrize("policy", RIGID)
def test_hostile_jobs(policy: str) -> None:
    jobs = _jobs((0, 10, 8), (0, 0, 1), (0, 5, 99), (0, 0, 1), (3, 5, 2), user=list("aabba"))
    excluded = jobs.with_columns(runtime_s=pl.when(pl.col("gpus") == 2).then("runtime_s"))
    found = simulate_schedule(pl.concat([jobs, excluded]), policy=policy, gpus=8)
    row = found.groups.row(0, named=True)
    assert found.jobs["end_s"].null_count() == 5
    assert (row["n_too_large"], row["n_excluded"], row["n_ended"]) == (1, 4, 5)
    assert found.jobs["job_id"].to_list() == [*jobs["job_id"], *jobs["job_id"]]
    assert simulate_schedule(jobs[:0], policy=policy).jobs.is_empty()
    first = simulate_schedule(jobs, policy=policy, gpus=8).jobs
    assert simulate_schedule(jobs, policy=policy, gpus=8).jobs.equals(first)


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("allocate", {7: 1}, "gave GPUs to job 7, which neither waits nor runs"),
        ("allocate", {1: 1}, "gave GPUs to job 1, which neither waits nor runs"),
        ("allocate", None, "allocate must return a mapping of GPUs by job; it returned None"),
        ("admit", [1], "admit must return jobs that have just arrived"),
    ],
)
def test_wrong_answers_of_a_policy_are_refused(method: str, answer: object, message: str) -> None:
    policy = type("Wrong", (SchedulingPolicy,), {method: lambda *_: answer})
    with pytest.raises(DataError, match=message):
        simulate_schedule(_jobs((0, 10, 1), (5, 10, 1)), policy=policy, gpus=1)


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_job_beyond_its_time_limit_holds_its_gpus_until_it_ends(policy: str) -> None:
    limits: list[object] = [10.0, 10.0, 10.0, 10.0]
    jobs = _jobs((0, 100, 3), (20, 10, 2), (20, 10, 1), (40, 10, 4), time_limit_s=limits)
    found = simulate_schedule(jobs, policy=policy, gpus=4).jobs
    assert found["start_s"].to_list() == [0, 100, 20, 110]


def test_no_gpus_for_a_waiting_job_leave_it_waiting() -> None:
    class Late(SchedulingPolicy):
        def allocate(self, state: ScheduleState, order: Iterable[int]) -> dict[int, int]:
            return {job: int(state.now >= 5) for job in order}

    found = simulate_schedule(_jobs((0, 10, 1), (5, 10, 1)), policy=Late, gpus=2)
    assert found.jobs["start_s"].to_list() == [5.0, 5.0]


@pytest.mark.parametrize("policy", ["fifo", "sjf", "easy", "srtf"])
def test_hardly_any_gpu_is_the_least_part_of_one(policy: str) -> None:
    jobs = _jobs((0.0, 5.0, 1e-300), (0.0, 5.0, 0.5), (1.0, 5.0, 1.0))
    found = simulate_schedule(jobs, gpus=1, policy=policy).jobs
    assert found["start_s"].to_list() == [0.0, 0.0, 5.0]
