"""``traceana simulate energy`` on the synthetic sample."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana import energy_to_accuracy
from traceana.cli import app
from traceana.errors import TraceanaError
from traceana.ingesters import ingest
from traceana.store import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zeus")
    ingest(write_sample(folder / "sample", traces="zeus-2023"), store=folder / "store")
    return folder / "store"


def run(store: Path, *asked: str) -> str:
    done = CliRunner().invoke(app, ["simulate", "energy", "--store", str(store), *asked])
    if isinstance(done.exception, TraceanaError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_configuration_of_a_data_set(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    asked = ("--gpu", "a40", "--dataset", "cifar100", "--eta", "0.3")
    told = json.loads(run(store, *asked, "--json", "--out", str(out)))
    runs, power = (
        open_store(store).scan("zeus-2023", table) for table in ("training_runs", "power_profiles")
    )
    rows = energy_to_accuracy(runs, power, gpu="a40", dataset="cifar100", eta=0.3)
    assert told["synthetic"]
    assert_frame_equal(pl.DataFrame(told["configurations"]), rows)
    assert_frame_equal(pl.read_parquet(out), rows)
    at_eta = next(row for row in told["by_eta"] if row["eta"] == 0.3)
    assert at_eta["cost_j"] == pytest.approx(min(rows["cost_j"]))


def test_the_best_of_every_data_set(store: Path) -> None:
    lines = run(store, "zeus-2023", "--gpu", "v100", "--eta", "1").splitlines()
    assert lines[0].startswith("SYNTHETIC")
    assert lines[1] == "v100: configuration of least cost by data set, eta 1"
    assert len(lines) == 3 + 6


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (("--eta", "1.5"), "eta must lie from 0"),
        (("--gpu", "h100"), "gpu: 'h100' is unknown; found a40"),
        (("--dataset", "x"), "'x' is unknown"),
    ],
)
def test_a_users_mistake(store: Path, asked: tuple[str, ...], line: str) -> None:
    with pytest.raises(TraceanaError, match=line) as told:
        run(store, *asked)
    assert "\n" not in str(told.value)
