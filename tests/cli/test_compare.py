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
    assert [line for line in table.splitlines() if "(" in line] == ["Median runtime (s)"]
    table = " ".join(table.split())
    assert table.index("1. Cluster two 200") < table.index("2. Cluster one 20.0")
    assert "[red]" in table
    assert "Queueing: no times of submission and start (Cluster one" in " ".join(rest.split())
    assert "no step times of workers are recorded (all traces)" in " ".join(rest.split())
