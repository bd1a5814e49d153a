"""Traces side by side: planted numbers, and why a trace cannot answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from traceana.cli import app
from traceana.questions.comparison.compare_traces import compare_traces
from traceana.store import open_store

QUESTIONS = 8


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    n = 200
    base = pl.DataFrame({"i": range(n)}).select(
        job_id=pl.format("j{}", "i"),
        user=pl.format("u{}", pl.col("i") % 40),
        submit_s=pl.col("i") * 10.0,
        start_s=pl.col("i") * 10.0 + 5,
        runtime_s=pl.col("i") + 1.0,
        gpus=pl.when(pl.col("i") % 4 == 0).then(8).otherwise(1),
        status=pl.when(pl.col("i") % 5 == 0).then(pl.lit("failed")).otherwise(pl.lit("completed")),
    )
    longer = base.with_columns(runtime_s=pl.col("runtime_s") * 10).drop("start_s", "user")
    traceana.add_table(base, trace="ours", table="jobs", store=tmp_path, title="Ours")
    traceana.add_table(longer, trace="other", table="jobs", store=tmp_path, title="Other")
    return tmp_path


def rows(store: Path, *traces: str) -> dict[tuple[str, str], dict[str, object]]:
    found = compare_traces([*map(open_store(store).trace, traces)])
    return {(r["question"], r["trace"]): r for r in found.rows(named=True)}


def test_estimates_are_those_planted_and_ranked(store: Path) -> None:
    found = rows(store, "ours", "other")
    assert len(found) == 2 * QUESTIONS
    ours, other = found["Runtime", "Ours"], found["Runtime", "Other"]
    assert (ours["estimate"], other["estimate"]) == (100.5, 1005.0)
    assert (ours["rank"], other["rank"]) == (2, 1)
    assert ours["ci_low"] < 100.5 < ours["ci_high"]  # type: ignore[operator]
    assert found["Size", "Ours"]["estimate"] == 0.25
    assert found["Failure", "Ours"]["estimate"] == 0.2
    delay = found["Queueing", "Ours"]
    assert (delay["estimate"], delay["ci_low"], delay["ci_high"]) == (5, 5, 5)
    assert "the limits are equal" in str(delay["note"])


def test_what_cannot_be_compared_says_why(store: Path) -> None:
    found = rows(store, "ours", "other")
    assert found["Queueing", "Other"]["estimate"] is None
    assert found["Queueing", "Other"]["note"] == "no times of submission and start"
    assert found["Stragglers", "Ours"]["note"] == "no step times of workers are recorded"
    # blocks of one minute of submission are the units of a trace without users
    assert "rows treated as independent" not in str(found["Failure", "Other"]["note"])


def test_the_command_prints_rows_and_splits_one_trace(store: Path) -> None:
    command = ["compare", "ours", "--split", "1000", "--store", str(store), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    runtimes = [row for row in json.loads(result.stdout) if row["question"] == "Runtime"]
    # jobs that run across the split are in both parts, censored in the first, entered in the second
    assert [row["estimate"] for row in runtimes] == pytest.approx([50.5, 150.5], abs=5)
    assert runtimes[0]["n"] == 100 < runtimes[1]["n"]
    for wrong in (["compare", "ours"], ["compare", "ours", "other", "--split", "1"]):
        refused = CliRunner().invoke(app, [*wrong, "--store", str(store)])
        assert "name two traces or more, or one and --split TIME" in str(refused.exception)


def test_failures_are_compared_by_the_same_runtime(tmp_path: Path) -> None:
    for name, scale in (("short", 60.0), ("long", 600.0)):
        runtime = [scale * (1 + job % 50) for job in range(200)]
        jobs = pl.DataFrame(
            {
                "job_id": [str(job) for job in range(200)],
                "status": ["failed" if job % 4 == 0 else "completed" for job in range(200)],
                "submit_s": [float(job) for job in range(200)],
                "start_s": [float(job) for job in range(200)],
                "end_s": [job + seconds for job, seconds in enumerate(runtime)],
                "runtime_s": runtime,
            }
        )
        traceana.add_table(jobs, trace=name, table="jobs", store=tmp_path / "data")
    opened = traceana.open_store(tmp_path / "data")
    compared = compare_traces([opened.trace(name) for name in ("short", "long")])
    by = compared.filter(name="failure_incidence").sort("trace", descending=True)
    (within,) = by["note"].str.extract(r"within ([\d.]+ \w+)").unique()
    limit_s = float(within.split()[0]) * {"min": 60, "h": 3600}[within.split()[1]]
    # all are observed to their end: the incidence is a fraction
    failed = [
        sum(job % 4 == 0 and scale * (1 + job % 50) <= limit_s for job in range(200)) / 200
        for scale in (60.0, 600.0)
    ]
    assert by["estimate"].to_list() == pytest.approx(failed)


def test_medians_of_a_trace_without_short_jobs_are_not_compared(
    store: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b", "c"], "runtime_s": [700.0, 800, 900], "gpus": 2})
    columns = "".join(f'{name} = "{name}"\n' for name in jobs.columns)
    about = f"[jobs]\n{columns}[jobs.about]\nleft_truncated = true\n"
    traceana.add_table(jobs, trace="cut", table="jobs", store=store, title="Cut", mapping=about)
    found = rows(store, "ours", "cut")
    assert "short jobs are missing" in str(found["Runtime", "Cut"]["note"])
    out = tmp_path_factory.mktemp("out")
    options: Any = {"only": "comparison", "formats": "md"}
    page = traceana.build_report(store, out=out, **options).read_text()
    assert "Median runtime: the lowest of 2 traces is 1.68 min (Ours;" in page
    assert "| Cut | 13.3 min (n = 3) |" in page
    (store / "other").rename(out / "other")
    page = traceana.build_report(store, out=out, **options).read_text()
    assert "Median runtime: " not in page
