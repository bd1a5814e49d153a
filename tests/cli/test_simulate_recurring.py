"""``traceana simulate recurring`` on the synthetic sample."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana.cli import app
from traceana.errors import DataError, TraceanaError
from traceana.ingesters import add_table, ingest

ONE = ("--gpu", "v100", "--dataset", "cifar100")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zeus")
    ingest(write_sample(folder / "sample", traces="zeus-2023"), store=folder / "store")
    return folder / "store"


def run(store: Path, *asked: str) -> str:
    command = ["simulate", "recurring", "--store", str(store), *asked]
    done = CliRunner().invoke(app, command)
    if isinstance(done.exception, TraceanaError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_one_job_says_what_it_chose_and_that_it_is_synthetic(store: Path) -> None:
    lines = run(store, *ONE).splitlines()
    assert lines[0].startswith("SYNTHETIC")
    assert lines[1] == "cifar100 on v100 to 0.6, policy zeus, eta 0.5, beta 2, seed 1"
    assert any(line.startswith("Recurrence") for line in lines)


def test_json_is_alone_and_is_what_is_written_to_a_file(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.parquet"
    told = json.loads(run(store, *ONE, "--json", "--out", str(out)))
    assert told["synthetic"]
    assert told["totals"][0]["runs"] == len(told["history"])
    assert pl.read_parquet(out).to_dicts() == told["history"]


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_sweep(store: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"sweep.{ending}"
    asked = ("--gpu", "v100", "--seeds", "2", "--out", str(out))
    told = json.loads(run(store, *asked, "--json"))
    assert len(told["summary"]) == 6
    read = pl.read_csv(out) if ending == "csv" else pl.read_json(out)
    assert read.height == 12
    shown = run(store, *asked)
    assert "SYNTHETIC" in shown
    assert shown.count("v100  ") == 6


def test_a_users_mistake(store: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the ending must be one of .csv, .json, .parquet"):
        run(store, *ONE, "--out", str(tmp_path / "runs.xlsx"))
    with pytest.raises(DataError, match="there is no folder"):
        run(store, *ONE, "--out", str(tmp_path / "no" / "runs.csv"))
    with pytest.raises(DataError, match="gpu: 'h100' is unknown; found a40, p100"):
        run(store, "--gpu", "h100", "--dataset", "squad")


def test_a_policy_of_ones_own_and_another_trace(store: Path) -> None:
    named = "traceana.simulate.recurring.policies:_default"
    told = json.loads(run(store, *ONE, "--policy", named, "--json"))
    assert {row["batch_size"] for row in told["history"]} == {1024}
    with pytest.raises(DataError, match=r"--policy no\.where:x"):
        run(store, *ONE, "--policy", "no.where:x")
    with pytest.raises(TraceanaError, match="is not in the store"):
        run(store, "nowhere", *ONE)


def test_groups_of_recurring_jobs(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.parquet"
    told = json.loads(run(store, "--groups", "--gpu", "v100", "--json", "--out", str(out)))
    assert told["synthetic"]
    total = told["by_dataset"][-1]
    assert total["dataset"] is None
    assert total["runs"] == pl.read_parquet(out).height
    by_dataset = told["by_dataset"][:-1]
    assert total["recurrences"] == sum(row["recurrences"] for row in by_dataset)
    lines = run(store, "--groups", "--gpu", "v100", "--policy", "default").splitlines()
    assert lines[1].endswith("groups of recurring jobs on v100, eta 0.5")
    assert any(line.startswith("default  ") for line in lines)


def test_jobs_with_groups_alone_take_the_workloads_of_another_trace(store: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": [f"{number}" for number in range(60)],
            "group": [f"g{number % 20}" for number in range(60)],
            "start_s": [100.0 * number for number in range(60)],
            "end_s": [100.0 * number + 10 * (1 + number % 20) ** 2 for number in range(60)],
        }
    )
    add_table(jobs, trace="mine", table="jobs", store=store)
    told = json.loads(run(store, "mine", "--json"))
    assert (told["trace"], told["workloads"]) == ("mine", "zeus-2023")
    assert told["by_dataset"][-1]["recurrences"] == 60
    for asked, line in (
        (("mine", "--dataset", "squad"), "groups have their own jobs"),
        ((*ONE, "--policy", "zeus,grid"), "pass one policy, or --groups"),
    ):
        with pytest.raises(DataError, match=line):
            run(store, *asked)
