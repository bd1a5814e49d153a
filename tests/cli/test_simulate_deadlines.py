"""``traceana simulate deadlines`` on the synthetic sample and on files of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana import add_table, simulate_deadlines, synthesize_deadlines
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
    sample = write_sample(folder / "sample", traces="elasticflow-2023", scale=0.1)
    ingest(sample, store=folder / "store")
    return folder / "store"


def run(*asked: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "deadlines", *asked])
    if isinstance(done.exception, DataError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_policies_are_those_of_the_functions(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "policies.parquet"
    told = json.loads(run("--store", str(store), "--json", "--out", str(out)))
    jobs = open_store(store).scan("elasticflow-2023", "jobs").collect()
    results = simulate_deadlines(jobs, plans=synthesize_deadlines(jobs))
    # an interval would be that of the random numbers
    results = results.with_columns(
        pl.lit(None, pl.Float64).alias(end) for end in ("ci_low", "ci_high")
    )
    assert told["synthetic"]
    assert told["policies"] == results.to_dicts()
    assert pl.read_parquet(out).equals(results)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_jobs_of_a_file(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"jobs.{ending}"
    JOBS.write_csv(file) if ending == "csv" else JOBS.write_parquet(file)
    lines = run(str(file), "--policies", "fifo").splitlines()
    assert lines[0] == f"{file}: 3 jobs, SYNTHETIC deadlines"
    assert [line.split()[0] for line in lines[2:]] == ["all", "east"]


def test_what_is_wrong_is_told_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    with pytest.raises(DataError, match="cannot be read"):
        run(str(file))
    JOBS.drop("gpus").write_csv(file)
    with pytest.raises(DataError, match="column gpus"):
        run(str(file))
    with pytest.raises(DataError, match=r"one of \.csv, \.parquet"):
        run(str(tmp_path / "jobs.txt"))
    JOBS.head(2).tail(1).write_csv(file)
    with pytest.raises(DataError):
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
        ("fifo", 1),
        ("edf", 0),
    ]
    for wrong, line in (
        (("--policies", "lifo"), "no policy is called 'lifo'"),
        (("--deadline", "none"), "column none"),
        (("--capacity", "-1"), "capacity must be"),
    ):
        with pytest.raises(DataError, match=line):
            run(str(file), *wrong)


def test_survivors_of_a_time_before_the_window_do_not_size_the_cluster(tmp_path: Path) -> None:
    # for 10 h one GPU in use; one job of half a year before is listed because it lasted
    hours = pl.DataFrame({"submit_s": [1.6e7 + 3600.0 * hour for hour in range(10)]})
    jobs = pl.concat([pl.DataFrame({"submit_s": [0.0]}), hours]).with_row_index("job_id")
    jobs = jobs.with_columns(
        pl.col("job_id").cast(pl.String),
        start_s="submit_s",
        end_s=pl.when(pl.col("submit_s") == 0).then(1.6e7).otherwise(pl.col("submit_s") + 3600),
        gpus=1.0,
        status=pl.lit("completed"),
    ).with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    columns = "".join(f'{name} = "{name}"\n' for name in jobs.columns)
    mapping = f"[trace]\nlists_only_survivors = true\n[jobs]\n{columns}"
    add_table(jobs, trace="t", table="jobs", store=tmp_path, mapping=mapping)
    lines = run("t", "--store", str(tmp_path), "--policies", "fifo").splitlines()
    assert lines[0] == "t: 10 jobs, SYNTHETIC deadlines; 1 submitted before the window are left out"
    assert lines[2].split()[2:4] == ["2", "10"]  # 1 / 0.8 GPUs, rounded up
