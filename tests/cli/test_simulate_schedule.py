"""``traceana simulate schedule``: rows of JSON, replications, and jobs that cannot run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from typer.testing import CliRunner

from traceana import add_table
from traceana.cli import app
from traceana.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400


def run(store: Path, jobs: pl.DataFrame, *asked: str) -> list[dict[str, Any]]:
    add_table(jobs, trace="mine", table="jobs", store=store)
    done = CliRunner().invoke(
        app, ["simulate", "schedule", "mine", *asked, "--json", "--store", str(store)]
    )
    if isinstance(done.exception, DataError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout)["results"])


def log(**columns: list[float]) -> pl.DataFrame:
    n = len(next(iter(columns.values())))
    default = {"submit_s": [0.0] * n, "runtime_s": [60.0] * n, "gpus": [1.0] * n}
    return pl.DataFrame(default | columns).with_row_index("job_id").cast({"job_id": pl.String})


def test_rows_by_policy_follow_those_of_the_log_itself(tmp_path: Path) -> None:
    jobs = log(submit_s=[0, 0, 0], start_s=[0, 60, 120], runtime_s=[60, 60, 60])
    jobs = jobs.with_columns(end_s=pl.col("start_s") + pl.col("runtime_s"))
    rows = run(tmp_path, jobs, "--policy", "fifo,sjf", "--gpus", "1")
    assert [row["policy"] for row in rows] == ["recorded", "fifo", "sjf"]
    assert [row["wait_s_mean"] for row in rows] == [60.0, 60.0, 60.0]
    assert {row["gpus"] for row in rows} == {None, 1.0}


def test_replications_give_an_interval_of_the_mean_wait(tmp_path: Path) -> None:
    # in one week of three, jobs arrive two at a time on one GPU: half of them wait for 100 s
    busy = [7 * DAY + 1000.0 * (i // 2) for i in range(40)]
    quiet = [1000.0 * i for i in range(40)] + [14 * DAY + 1000.0 * i for i in range(40)]
    jobs = log(submit_s=quiet + busy, runtime_s=[100.0] * 120)
    asked = ("--policy", "fifo,easy", "--gpus", "1", "--replications", "40")
    rows = run(tmp_path, jobs, *asked)
    for row in rows:
        assert row["wait_s_mean"] == pytest.approx(100 / 6)
        assert row["wait_s_ci_low"] == 0
        assert 100 / 3 <= row["wait_s_ci_high"] <= 50  # two or three busy weeks
    assert rows == run(tmp_path, jobs, *asked)


def test_replications_need_two_weeks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two weeks or more"):
        run(tmp_path, log(submit_s=[0.0, 10.0]), "--policy", "fifo", "--replications", "5")


def test_jobs_that_cannot_run_are_counted(tmp_path: Path) -> None:
    jobs = log(gpus=[16.0, 1.0, 1.0, 0.0], runtime_s=[60.0, 0.0, 0.0, 60.0])
    (row,) = run(tmp_path, jobs, "--policy", "easy", "--gpus", "4")
    assert (row["jobs"], row["n_excluded"], row["n_too_large"], row["n_ended"]) == (3, 1, 1, 2)
    assert row["wait_s_mean"] == 0


def test_the_text_states_how_many_jobs_are_excluded(tmp_path: Path) -> None:
    jobs = log(gpus=[1, 0, 1]).with_columns(runtime_s=pl.Series([60.0, 60.0, None]))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    asked = ["simulate", "schedule", "mine", "--policy", "fifo,easy", "--store", str(tmp_path)]
    head = CliRunner().invoke(app, asked).stdout.splitlines()[0]
    assert head == "mine: 3 jobs; 2 without submission, runtime or GPUs are excluded"


def test_recorded_waits_are_in_the_order_of_the_groups(tmp_path: Path) -> None:
    jobs = log(submit_s=[0, 0, 0], start_s=[0, 0, 0]).with_columns(
        end_s=pl.lit(60.0), user=pl.Series(["c", "a", "b"])
    )
    rows = run(tmp_path, jobs, "--policy", "fifo", "--group", "user")
    assert [(row["policy"], row["group"]) for row in rows] == [
        (policy, user) for policy in ("recorded", "fifo") for user in "abc"
    ]
    asked = ["simulate", "schedule", "mine", "--group", "user", "--store", str(tmp_path)]
    head = CliRunner().invoke(app, asked).stdout.splitlines()[0]
    assert head == "mine: 3 jobs; a cluster of its own for each user"


def test_groups_may_be_numbers(tmp_path: Path) -> None:
    rows = run(tmp_path, log(gpus=[1, 8, 1]), "--policy", "fifo", "--group", "gpus")
    assert [(row["group"], row["jobs"]) for row in rows] == [("1.0", 2), ("8.0", 1)]


def test_running_jobs_hold_their_gpus_as_on_the_page(tmp_path: Path) -> None:
    jobs = log(submit_s=[0, 10], start_s=[0, 100], runtime_s=[0, 900], gpus=[1, 1]).with_columns(
        runtime_s=pl.Series([None, 900.0]),
        end_s=pl.Series([None, 1000.0]),
        status=pl.Series(["running", "completed"]),
    )
    rows = run(tmp_path, jobs, "--policy", "fifo", "--gpus", "1")
    # the second job starts on the only GPU when the first one is seen for the last time
    assert [row["wait_s_mean"] for row in rows] == [45.0, 495.0]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--replications", "-1"), "--replications must be a whole number from 0 to 1,000,000"),
        (("--gpus", "1e12"), "gpus must be above 0 and below 1,000,000,000; of group all"),
        (("--gpus", "x"), r"gpus must be a number or a change such as '\+10%'; it is 'x'"),
        (("--scale-load", "inf"), "scale_load must be above 0 and below 1,000,000; it is inf"),
        (("--profiles", "none"), "none: there is no CSV file; --profiles names a folder"),
        (("--group", "none"), "jobs have no such column; use job_id, submit_s, runtime_s, gpus$"),
        (("--policy", "fifo,,"), "no policy is called ''; there are fifo"),
    ],
)
def test_errors(tmp_path: Path, asked: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        run(tmp_path, log(gpus=[1.0]), *asked)
