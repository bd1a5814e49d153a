from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from traceana.catalog import list_traces
from traceana.cli import app
from traceana.ingesters import add_table


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a store with two of PAI's seven tables and all of ITP's one."""
    jobs, machines = (
        pl.DataFrame({"job_id": ["a"]}),
        pl.DataFrame({"machine_id": ["a"], "gpus": [8]}),
    )
    add_table(jobs, trace="alibaba-pai-2020", table="jobs", store=tmp_path)
    add_table(machines, trace="alibaba-pai-2020", table="machines", store=tmp_path)
    add_table(jobs, trace="microsoft-itp-2021", table="jobs", store=tmp_path)
    monkeypatch.setenv("TRACEANA_STORE", str(tmp_path))


def run_traces(*asked: str, columns: int = 80) -> str:
    done = CliRunner().invoke(app, ["traces", *asked], env={"COLUMNS": str(columns)})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("columns", [80, 200])
def test_table_shows_every_trace_whole(columns: int) -> None:
    shown = run_traces(columns=columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert "…" not in shown
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    for row in list_traces().to_dicts():
        assert lines[row["trace"]].split()[-1] == str(len(row["tables"]))
    assert "15,938,137" in lines["alibaba-pai-2020"]
    assert "1.5 GB" in lines["alibaba-pai-2020"]
    assert "CC BY 4.0" in lines["alibaba-pai-2020"]
    assert lines["alibaba-pai-2020"].split()[-3:] == ["2", "of", "7"]
    assert lines["microsoft-itp-2021"].split()[-3:] == ["1", "of", "1"]
    assert lines["zeus-2023"].split()[-3:] == ["0", "of", "3"]
    assert "5,368 +" in lines["zeus-2023"]  # the rows of recurring_jobs are stated nowhere


@pytest.mark.usefixtures("stored")
def test_json_is_alone_on_standard_output() -> None:
    records = {record["trace"]: record for record in json.loads(run_traces("--json"))}
    assert list(records) == list_traces()["trace"].to_list()
    assert records["alibaba-pai-2020"]["in_store"] == ["jobs", "machines"]
    assert records["zeus-2023"]["in_store"] == []
    assert records["zeus-2023"]["license"] == "Apache-2.0"


def test_folder_without_a_store_holds_nothing(tmp_path: Path) -> None:
    records = json.loads(run_traces("--store", str(tmp_path), "--json"))
    assert [record["in_store"] for record in records] == [[]] * len(list_traces())
