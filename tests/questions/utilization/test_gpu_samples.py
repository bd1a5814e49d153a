"""Samples of GPUs joined with jobs: planted usage, and a join compared with a loop over pairs."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana import assign_gpu_samples, sampled_gpu_usage
from traceana.errors import DataError
from traceana.questions.utilization.gpu_samples import unlike_gpus

# two GPUs of n1, every 30 s for an hour: GPU 0 is half idle under eva, GPU 1 idle without a job
TIMES = [30.0 * number for number in range(120)]
SAMPLES = pl.concat(
    [
        pl.DataFrame({"time_s": TIMES}).with_columns(
            machine_id=pl.lit(machine), gpu=pl.lit(gpu), utilization=used, power_w=power
        )
        for machine, gpu, used, power in (
            ("n1", "0", pl.when(pl.col("time_s") < 1800).then(0.0).otherwise(0.8), pl.lit(200.0)),
            ("n2", "0", pl.lit(0.0), pl.lit(50.0)),
        )
    ]
)
JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b"],
        "user": ["eva", "tom"],
        "start_s": [0.0, 7200.0],
        "end_s": [3600.0, None],
        "NodeList": ["n1, n3", "n2"],
    }
)


def test_idle_hours_by_user_and_power_by_job() -> None:
    found = sampled_gpu_usage(SAMPLES, jobs=JOBS, machine="NodeList")
    assert found.select("user", "gpus", "n").rows() == [("eva", 1, 120), (None, 1, 120)]
    assert found["gpu_hours"].to_list() == pytest.approx([1, 1])
    assert found["idle_gpu_hours"].to_list() == pytest.approx([0.5, 1])
    by_job = sampled_gpu_usage(SAMPLES, jobs=JOBS, by="job_id", machine="NodeList").row(
        0, named=True
    )
    assert by_job["utilization_mean"] == pytest.approx(0.4)
    assert by_job["power_w_mean"] == pytest.approx(200)
    assert by_job["energy_kwh"] == pytest.approx(0.2)
    assert by_job["memory_gib_max"] is None


def test_a_dead_gpu_is_found() -> None:
    # four machines of four GPUs, in use two thirds of the time; GPU 3 of n2 never
    rows = [
        (f"n{machine}", str(gpu), 30.0 * time, time % 3 > 0 and (machine, gpu) != (2, 3))
        for machine in range(1, 5)
        for gpu in range(4)
        for time in range(300)
    ]
    samples = pl.DataFrame(rows, ["machine_id", "gpu", "time_s", "busy"], orient="row")
    samples = samples.with_columns(utilization=pl.when("busy").then(0.95).otherwise(0.0))
    idle = unlike_gpus(samples)
    assert idle.select("machine_id", "gpu", "n", "others").rows() == [
        ("n2", "3", 300, pytest.approx(2 / 3))
    ]
    assert unlike_gpus(samples.filter(pl.col("machine_id") != "n2")).is_empty()


def test_a_row_per_measure_counts_as_one_sample() -> None:
    long = pl.concat([SAMPLES.drop("power_w"), SAMPLES.drop("utilization")], how="diagonal")
    options = {"by": "job_id", "machine": "NodeList"}
    assert sampled_gpu_usage(long, jobs=JOBS, **options).equals(  # type: ignore[arg-type]
        sampled_gpu_usage(SAMPLES, jobs=JOBS, **options)  # type: ignore[arg-type]
    )


def test_a_gap_counts_as_one_interval() -> None:
    samples = pl.DataFrame(
        {"machine_id": "n", "gpu": "0", "time_s": [0.0, 60.0, 120.0, 9000.0], "utilization": 0.5}
    )
    found = sampled_gpu_usage(samples, by="machine_id")
    assert found["gpu_hours"].item() == pytest.approx(4 * 60 / 3600)


def test_several_jobs_on_a_machine_are_not_guessed_but_an_own_id_counts() -> None:
    jobs = JOBS.with_columns(start_s=pl.lit(0.0), end_s=pl.lit(3600.0), NodeList=pl.lit("n1"))
    found = sampled_gpu_usage(SAMPLES, jobs=jobs, machine="NodeList")
    assert found.select("user", "n_ambiguous").rows() == [(None, 120)]
    assert found["gpu_hours"].item() == pytest.approx(2)
    owned = SAMPLES.with_columns(job_id=pl.lit("b"))
    found = sampled_gpu_usage(owned, jobs=jobs, machine="NodeList")
    assert found.select("user", "n_ambiguous").rows() == [("tom", 0)]
    assert found["gpu_hours"].item() == pytest.approx(2)


def test_a_job_on_part_of_a_machine_is_not_charged_with_its_free_gpus() -> None:
    both = pl.DataFrame({"gpu": ["0", "1"], "utilization": [0.9, 0.0]})
    samples = pl.DataFrame({"time_s": TIMES}).join(both, how="cross")
    samples = samples.with_columns(machine_id=pl.lit("n1"))
    job = pl.DataFrame({"job_id": "a", "user": "eva", "start_s": 0.0, "end_s": 3600.0, "gpus": [1]})
    part = job.with_columns(machine_id=pl.lit("n1"))
    found = sampled_gpu_usage(samples, jobs=part)
    assert found.select("user", "n_ambiguous").rows() == [(None, 240)]
    for whole in (
        part.with_columns(gpus=pl.lit(2)),
        part.with_columns(gpus=pl.lit(4), machine_id=pl.lit("n1,n2")),
        part.drop("gpus"),
    ):
        found = sampled_gpu_usage(samples, jobs=whole)
        assert found.select("user", "n_ambiguous").rows() == [("eva", 0)]
        assert found["fraction_idle"].item() == pytest.approx(0.5)


@given(
    st.lists(st.tuples(st.sampled_from("mn"), st.integers(0, 9)), min_size=1, max_size=9),
    st.lists(
        st.tuples(st.sampled_from(["m", "n", "m,n"]), st.integers(0, 9), st.integers(0, 5)),
        max_size=4,
    ),
)
def test_the_join_is_that_of_every_pair(
    samples: list[tuple[str, int]], jobs: list[tuple[str, int, int]]
) -> None:
    rows = pl.DataFrame(
        [(machine, "0", float(time), 0.5) for machine, time in samples],
        schema=["machine_id", "gpu", "time_s", "utilization"],
        orient="row",
    )
    table = pl.DataFrame(
        [
            (str(number), on, float(begin), float(begin + long))
            for number, (on, begin, long) in enumerate(jobs)
        ],
        schema={
            "job_id": pl.String,
            "machine_id": pl.String,
            "start_s": pl.Float64,
            "end_s": pl.Float64,
        },
        orient="row",
    )
    found = assign_gpu_samples(rows, table)
    for machine, time, job, at_once in found.select(
        "machine_id", "time_s", "job_id", "jobs_at_once"
    ).iter_rows():
        running = [
            str(number)
            for number, (on, begin, long) in enumerate(jobs)
            if machine in on.split(",") and begin <= time < begin + long
        ]
        assert at_once == len(running)
        assert job == (running[0] if len(running) == 1 else None)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(DataError, match=r"column machine_id is missing; found .*; pass machine="):
        assign_gpu_samples(SAMPLES, JOBS)
    with pytest.raises(DataError, match="idle_below must be from 0 to 1; it is 2"):
        sampled_gpu_usage(SAMPLES, jobs=JOBS, idle_below=2)
    with pytest.raises(DataError, match="by cannot name gpus"):
        sampled_gpu_usage(SAMPLES, jobs=JOBS, by="gpus")
