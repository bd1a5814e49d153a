"""``traceana simulate deadlines`` on the synthetic sample and on files of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana import deadline_tightness, synthesize_deadlines
from traceana.cli import app
from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.store import open_store

JOBS = pl.DataFrame(
    {
        "job_id": [1, 2, 3],
        "cluster": [None, None, "east"],
        "submit_s": [0.0, 10.0, 20.0],
        "runtime_s": [900.0, None, 3600.0],
        "gpus": [1, 2, 8],
    }
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    sample = write_sample(folder / "sample", traces="elasticflow-2023", scale=0.3)
    ingest(sample, store=folder / "store")
    return folder / "store"


def run(*asked: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "deadlines", *asked])
    if isinstance(done.exception, DataError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_plans_are_those_of_the_function(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "plans.parquet"
    told = json.loads(run("--store", str(store), "--seed", "4", "--json", "--out", str(out)))
    jobs = open_store(store).scan("elasticflow-2023", "jobs").collect()
    plans = synthesize_deadlines(jobs, rng=4)
    assert pl.read_parquet(out).equals(plans)
    assert told["jobs_synthetic"]
    assert told["plans"] == plans.height
    by_cluster = deadline_tightness(plans, jobs, by="cluster").to_dicts()
    assert told["clusters"][:-1] == by_cluster
    assert told["clusters"][-1]["n_met"] == sum(row["n_met"] for row in by_cluster)
    assert {row["compared"] for row in told["agreement"]} >= {"tightness", "iterations"}


def test_tables_on_a_terminal_are_marked_and_not_cropped(store: Path) -> None:
    told = run("--store", str(store), "--rules")
    assert told.startswith("SYNTHETIC plans for")
    assert "of SYNTHETIC jobs of elasticflow-2023" in told
    assert "tightness is uniform on [0.5, 1.5)" in told
    assert "\N{HORIZONTAL ELLIPSIS}" not in told


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_jobs_of_a_file(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"jobs.{ending}"
    JOBS.write_csv(file) if ending == "csv" else JOBS.write_parquet(file)
    told = run(str(file))
    assert told.startswith(f"SYNTHETIC plans for 2 of 3 jobs of {file}, seed 1; 1 have no runtime")
    clusters = [line.split()[:2] for line in told.splitlines()[5:8]]
    assert clusters == [["all", "1"], ["east", "1"], ["all", "2"]]


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    with pytest.raises(DataError, match="cannot be read"):
        run(str(file))
    JOBS.drop("gpus").write_csv(file)
    with pytest.raises(DataError, match="column gpus is missing; found job_id, cluster"):
        run(str(file))
    JOBS.write_csv(file)
    with pytest.raises(DataError, match=r"published plans, and .* has none"):
        run(str(file), "--rules")
    with pytest.raises(DataError, match="from 0 on"):
        run(str(file), "--seed", "-1")
    with pytest.raises(DataError, match=r"one of \.csv, \.parquet"):
        run(str(tmp_path / "jobs.txt"))
    JOBS.head(2).tail(1).write_csv(file)
    with pytest.raises(DataError, match="no job has all of"):
        run(str(file))


def test_policies_on_jobs_with_deadlines_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_s": [0, 1, 2],
            "runtime_s": [10, 8, 2],
            "gpus": [1, 1, 1],
            "due": [10, 25, 13],
        }
    )
    jobs.write_csv(file)
    asked = (str(file), "--deadline", "due", "--capacity", "1", "--policies", "fifo,edf")
    told = json.loads(run(*asked, "--json"))
    assert [(row["policy"], row["n_missed"]) for row in told["policies"]] == [
        ("fifo", 1), ("edf", 0),
    ]  # fmt: skip
    shown = run(*asked, "--tightness", "2,3", "--distribution", "loguniform")
    assert "Deadlines that jobs miss on shared GPUs, by policy" in shown
    for wrong, line in (
        (("--tightness", "x"), "expected two numbers"),
        (("--tightness", "3,2"), "tightness must be two numbers"),
        (("--policies", "lifo"), "no policy is called 'lifo'"),
        (("--deadline", "none"), "column none is missing"),
        (("--capacity", "-1"), "capacity must be"),
    ):
        with pytest.raises(DataError, match=line):
            run(str(file), *wrong)
    with pytest.raises(DataError, match="pass FILE"):
        run("--deadline", "due")
