"""``traceana simulate batching``: a job, the sweep, and the replay of the synthetic sample."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana import open_store, replay_batching, simulate_batching
from traceana.cli import app
from traceana.errors import DataError
from traceana.ingesters import ingest


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minibatch")
    files = write_sample(folder / "sample", traces="alibaba-minibatch-2020", scale=0.02)
    ingest(files, store=folder / "store")
    return folder / "store"


def run(*asked: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "batching", *asked])
    if isinstance(done.exception, DataError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_split_of_the_paper_is_simulated_under_every_controller(tmp_path: Path) -> None:
    out = tmp_path / "batches.parquet"
    shown = run("--throughputs", "h-level-2", "--out", str(out))
    rows = {line.split()[0]: line for line in shown.splitlines()[1:]}
    controllers = [
        "uniform",
        "static",
        "measured",
        "proportional",
        "smoothed",
        "damped",
        "omnilearn",
        "oracle",
    ]
    assert list(rows) == ["Controller", *controllers]
    job = simulate_batching([(0.0, float(cores)) for cores in (9, 12, 18)], controller="damped")
    assert f"{job.speedup:.3f}" in rows["damped"]
    written = pl.read_parquet(out)
    assert written["controller"].unique(maintain_order=True).to_list() == controllers
    assert written.filter(controller="damped").drop("controller").equals(job.batches)


def test_a_replay_says_that_it_is_synthetic(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "steps.csv"
    asked = ("--store", str(store), "--controllers", "proportional,oracle")
    told = json.loads(run(*asked, "--json", "--out", str(out)))
    samples = open_store(store).scan("alibaba-minibatch-2020", "worker_samples")
    replay = replay_batching(samples, controllers=["proportional", "oracle"])
    assert told["synthetic"]
    assert told["jobs"] == replay.jobs.to_dicts()
    assert pl.read_csv(out).height == replay.steps.height
    shown = run("alibaba-minibatch-2020", *asked).splitlines()
    assert shown[0].startswith("SYNTHETIC")
    assert sum(line.startswith("job_") for line in shown) >= replay.jobs["job_id"].n_unique()


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (("--throughputs", "1,x"), "--throughputs '1,x': expected numbers separated by commas"),
        (("--throughputs", "0,1"), "every throughput must be a number of samples/s above 0"),
        (("--throughputs", "1e308,1e308"), "every throughput must be"),
        (("--throughputs", "1,2", "--controllers", "magic"), "no controller is called 'magic'"),
        (("job", "--throughputs", "1,2"), "leave one of them out"),
        (("--throughputs", "1,2", "--out", "x.txt"), "the ending must be one of"),
    ],
)
def test_a_users_mistake(asked: tuple[str, ...], line: str) -> None:
    with pytest.raises(DataError, match=line) as told:
        run(*asked)
    assert "\n" not in str(told.value)


def test_no_cell_is_cropped_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    shown = run("--throughputs", "12,12,8,16")
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "proportional" in shown


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    for ending in ("csv", "json", "parquet"):
        out = tmp_path / f"taken.{ending}"
        out.mkdir()
        with pytest.raises(DataError, match=r"cannot be written \(.*directory.*\); name another"):
            run("--throughputs", "1,2", "--out", str(out))


def test_a_controller_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_controller.py").write_text(
        "from traceana.simulate import Proportional\n"
        "once = Proportional(dead_band=0.5, name='once')\n"
    )
    monkeypatch.chdir(tmp_path)
    names = ("--throughputs", "10,30", "--controllers", "uniform,own_controller:once")
    _, once = json.loads(run(*names, "--json"))["results"]
    assert once["controller"] == "once"
    with pytest.raises(DataError, match="--controllers own_controller:none"):
        run("--throughputs", "1,2", "--controllers", "own_controller:none")
