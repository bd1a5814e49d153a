"""Changes against numbers by hand; conditions that hold, and that are refused in one line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from tests.questions.trends.logs import BEGIN_S, DAY_S, slower, stationary
from traceana.cli import app
from traceana.errors import DataError
from traceana.questions.comparison.compare_traces import check_condition, holds

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c", "d"],
        "user": ["ann", "bob", "ann", "ann"],
        "submit_s": [0.0, 0.0, DAY_S, 1.5 * DAY_S],
        "start_s": [60.0, 43_200.0, DAY_S + 600, 1.5 * DAY_S + 1800],
        "end_s": [3660.0, DAY_S + 43_200, DAY_S + 7800, 2 * DAY_S],
        "gpus": [4.0, 1.0, 2.0, 8.0],
        "status": ["completed", "failed", "failed", "completed"],
    }
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    traceana.add_table(JOBS, trace="mine", table="jobs", store=tmp_path)
    return tmp_path


def test_changes_are_exact_and_by_overlap(store: Path) -> None:
    trace = traceana.open_store(store).trace("mine")
    found = {row["measure"]: row for row in traceana.compare(trace, split=DAY_S).to_dicts()}
    hours = found["gpu_hours_per_day"]
    assert (hours["before"], hours["after"]) == pytest.approx((16, 12 + 4 + 92), rel=1e-6)
    assert (found["median_wait_s"]["before"], found["median_wait_s"]["after"]) == (21_630, 1200)
    # b ends after the split: it is no failure of the first day
    assert (found["failure_rate"]["before"], found["failure_rate"]["after"]) == (0, 2 / 3)
    assert found["failure_rate"]["ratio"] is None
    assert (found["users"]["before"], found["users"]["after"]) == (2, 1)
    assert found["jobs_per_day"]["ratio"] == pytest.approx(1)


def test_a_file_is_compared_and_wrong_calls_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trace = traceana.open_store(store).trace("mine")
    path = tmp_path / "sacct.txt"
    path.write_text(
        "JobID|User|State|Submit|Start|End|Elapsed|AllocTRES\n"
        "1|ann|COMPLETED|1970-01-01T00:00:00|1970-01-01T00:00:30|1970-01-01T02:00:30|02:00:00|cpu=2"
        "\n2|bob|COMPLETED|1970-01-01T00:00:00|1970-01-01T00:01:30|1970-01-01T02:01:30|02:00:00|"
        "cpu=2\n"
    )
    found = {row["measure"]: row["ratio"] for row in traceana.compare(path, path).to_dicts()}
    assert found["median_wait_s"] == found["cpu_hours_per_day"] == 1
    assert found["failure_rate"] is None
    with pytest.raises(DataError, match="two traces, or one and split"):
        traceana.compare(trace)
    with pytest.raises(DataError, match=r"must lie within the trace; \S+ is from [^ ]+.* to "):
        traceana.compare(trace, split=9e9)
    with pytest.raises(DataError, match=r"is from 0 s to 2\.02 h$"):
        traceana.compare(traceana.read(path), split=9e9)


def test_the_interval_has_the_planted_ratio(tmp_path: Path) -> None:
    at = BEGIN_S + 45 * DAY_S
    jobs = slower(stationary(5, per_day=300), at, 1.5)
    traceana.add_table(jobs, trace="log", table="jobs", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("log")
    row = traceana.compare(trace, split=at).filter(measure="median_runtime_s").to_dicts()[0]
    assert row["ci_low"] < 1.5 < row["ci_high"]
    assert row["ci_low"] > 1


CHANGES = pl.DataFrame(
    {
        "measure": ["median_wait_s", "failure_rate", "users"],
        "before": [60.0, 0.1, None],
        "after": [90.0, 0.1, 3.0],
    }
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("median_wait_s > 1.2 * before", True),
        ("median_wait_s > 2 * before", False),
        ("after - before >= 30 and median_wait_s > 0", None),
        ("median_wait_s - before >= 30 and failure_rate <= before + 0.02", True),
        ("not failure_rate > before or median_wait_s > 1e9", True),
        ("0 < median_wait_s / before < 1.4", False),
        ("median_wait_s > 100 * failure_rate", True),
        ("users == 3", True),
    ],
)
def test_conditions(condition: str, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(DataError, match="names no measure"):
            holds(CHANGES, condition)
    else:
        assert holds(CHANGES, condition) is expected


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("", "cannot be read"),
        ("median_wait_s", "compares nothing"),
        ("wait > 3", "wait is no measure; measures are jobs_per_day"),
        ("__import__('os').system('true') > 1", "is no measure"),
        ("median_wait_s > 'x'", "only measures, numbers"),
        ("median_wait_s > (lambda: 1)()", "only measures, numbers"),
        ("median_wait_s ** 9 > 1", "only measures, numbers"),
        ("median_wait_s / 0 > 1", "divides by 0"),
        ("median_wait_s in before", "compare; write"),
        ("median_wait_s > before * failure_rate", "stand in one comparison"),
        ("median_wait_s > True", "only measures, numbers"),
    ],
)
def test_a_bad_condition_is_one_clear_line(condition: str, why: str) -> None:
    with pytest.raises(DataError, match=why) as refused:
        check_condition(condition)
    assert "\n" not in str(refused.value)


def test_a_measure_without_a_value_cannot_decide() -> None:
    with pytest.raises(DataError, match="before has no value"):
        holds(CHANGES, "users > before")


def test_the_command_ends_with_1_if_the_condition_holds(store: Path) -> None:
    command = ["compare", "mine", "--split", str(DAY_S), "--store", str(store), "--fail-if"]
    bad = CliRunner().invoke(app, [*command, "failure_rate > before + 0.1"])
    assert bad.exit_code == 1
    assert "--fail-if holds: failure_rate > before + 0.1" in bad.stderr
    assert "failure_rate" in bad.stdout
    good = CliRunner().invoke(app, [*command, "median_wait_s > 1.2 * before", "--json"])
    assert good.exit_code == 0, good.output
    assert '"question": "Change"' in good.stdout
