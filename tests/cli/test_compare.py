"""`traceana compare` lists what several traces have, and why the rest is not compared."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from typer.testing import CliRunner

import traceana
from traceana.cli import app


def test_only_measures_that_several_traces_have_are_rows(tmp_path: Path) -> None:
    for name, runtime in (("one", [10.0, 20.0, 30.0]), ("two", [100.0, 200.0, 300.0])):
        jobs = pl.DataFrame({"job_id": ["a", "b", "c"], "runtime_s": runtime})
        if name == "two":
            jobs = jobs.with_columns(submit_s=pl.lit(0.0), start_s=pl.lit(5.0))
        title = f"Cluster {name} [red]" + 60 * "x"
        traceana.add_table(jobs, trace=name, table="jobs", store=tmp_path, title=title)
    result = CliRunner().invoke(app, ["compare", "one", "two", "--store", str(tmp_path)])
    assert result.exit_code == 0
    table, _, rest = result.stdout.partition("Not compared")
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert [line for line in table.splitlines() if "(" in line] == [
        "Median runtime including running jobs (s)"
    ]
    table = " ".join(table.split())
    assert table.index("1. Cluster two 200") < table.index("2. Cluster one 20.0")
    assert "[red]" in table
    assert "Queueing: no times of submission and start (Cluster one" in " ".join(rest.split())
    assert "no step times of workers are recorded (all traces)" in " ".join(rest.split())


def test_files_are_compared_with_a_mapping_and_may_fail_a_job(tmp_path: Path) -> None:
    for name, wait in (("last week", 60), ("this week", 90)):
        lines = [f"{job},{1000 * job},{1000 * job + wait},10,done" for job in range(1, 40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,asked,began,took,state", *lines]))
    (tmp_path / "own.toml").write_text(
        '[trace]\nreader = "csv"\n[jobs]\njob_id = "id"\nsubmit_s = "asked"\nstart_s = "began"\n'
        'runtime_s = "took"\nstatus = { column = "state", values = { done = "completed" } }\n'
    )
    command = ["compare", *(str(tmp_path / f"{name} week.csv") for name in ("last", "this"))]
    command += ["--mapping", str(tmp_path / "own.toml"), "--fail-if"]
    failed = CliRunner().invoke(app, [*command, "median_wait_s > 1.2 * before"])
    assert failed.exit_code == 1
    assert "median_wait_s" in failed.stdout
    assert CliRunner().invoke(app, [*command, "median_wait_s > 2 * before"]).exit_code == 0
    unnamed = CliRunner().invoke(app, ["compare", "one", "two", "--mapping", "own.toml"])
    assert "are for files" in str(unnamed.exception)


def test_failures_of_a_definition_of_the_publisher_are_named_so(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"submit_s": [1000.0 * job for job in range(40)]}).with_columns(
        job_id=pl.int_range(40).cast(pl.String),
        start_s="submit_s",
        runtime_s=pl.lit(10.0),
        status=pl.lit("completed"),
    )
    columns = "".join(f'{name} = "{name}"\n' for name in jobs.columns)
    own = 'failure_statuses = ["failed", "cancelled"]\nfailure_definition = "Only D is a success."'
    for name, facts in (("own", own), ("usual", "")):
        mapping = f"[trace]\n{facts}\n[jobs]\n{columns}"
        traceana.add_table(jobs, trace=name, table="jobs", store=tmp_path, mapping=mapping)
        command = ["compare", name, "--split", "20000", "--store", str(tmp_path)]
        text = " ".join(CliRunner().invoke(app, command).stdout.split())
        assert ("Failures of the published definition: Only D is a success." in text) is bool(facts)


def test_the_time_before_is_above_the_time_after(tmp_path: Path) -> None:
    draw = pl.int_range(60)
    jobs = pl.DataFrame({"submit_s": [1000.0 * job for job in range(60)]}).with_columns(
        job_id=draw.cast(pl.String),
        start_s="submit_s",
        runtime_s=pl.when(draw < 30).then(10.0).otherwise(20.0) + draw % 7,
        status=pl.lit("completed"),
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    command = ["compare", "mine", "--split", "30000", "--store", str(tmp_path)]
    lines = [line.strip() for line in CliRunner().invoke(app, command).stdout.splitlines()]
    at = next(row for row, line in enumerate(lines) if line.startswith("Median runtime"))
    assert lines[at + 1].startswith("mine (until")
    assert lines[at + 2].startswith("mine (since")
