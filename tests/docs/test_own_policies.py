"""The page on own policies: its code runs as it stands, also from the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.generator import write_sample
from traceana.cli import app
from traceana.ingesters import add_table, ingest

if TYPE_CHECKING:
    import polars as pl

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-policies.md"


@pytest.fixture
def blocks() -> list[str]:
    return re.findall(r"```(?:python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_own_optimizers(
    blocks: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = write_sample(tmp_path / "sample", traces="zeus-2023")
    ingest(files, store=tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACEANA_STORE", str(tmp_path / "store"))
    page: dict[str, Any] = {}
    exec(compile(blocks[0] + blocks[1], "own-policies.md", "exec"), page)  # noqa: S102
    name, recurrences, _ = capsys.readouterr().out.split()
    assert (name, recurrences) == ("climb", str(page["result"].recurrences.height))
    chosen = page["result"].history["power_limit_w"].unique().to_list()
    assert chosen == [100.0]  # the lowest limit of a V100, as the policy asks
    (tmp_path / "climb.py").write_text(blocks[0])
    asked = ["--gpu", "v100", "--dataset", "cifar100", "--policy", "climb:climb"]
    shown = CliRunner().invoke(app, ["simulate", "recurring", *asked])
    assert shown.exit_code == 0, shown.output
    assert "policy climb" in shown.output


def test_own_controller(
    blocks: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    exec(compile(blocks[2], "own-policies.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == blocks[3]
    (tmp_path / "four.py").write_text(blocks[2])
    monkeypatch.chdir(tmp_path)
    asked = ["--throughputs", "100,300,50", "--controllers", "uniform,four:FourSamples"]
    shown = CliRunner().invoke(app, ["simulate", "batching", *asked])
    assert shown.exit_code == 0, shown.output
    assert "four-samples" in shown.output


def test_own_speed(blocks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks[4], "own-policies.md", "exec"), {})  # noqa: S102
    assert capsys.readouterr().out == blocks[5]


def test_own_schedule(blocks: list[str]) -> None:
    page: dict[str, Any] = {}
    exec(compile(blocks[6], "own-policies.md", "exec"), page)  # noqa: S102
    missed: pl.DataFrame = page["missed"]
    assert missed["policy"].to_list() == ["fifo", "edf", "smallest_first"]
    assert set(missed["n"]) == {200}


def test_own_placement(blocks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (each for each in blocks if "class SpareMachines" in each)
    page: dict[str, Any] = {}
    exec(compile(block, "own-policies.md", "exec"), page)  # noqa: S102
    placed: pl.DataFrame = page["placed"]
    assert placed["arrived"].to_list() == list(range(10, 131, 10))
    (tmp_path / "spare.py").write_text(block)
    for table in ("jobs", "machines"):
        rows = page[table].with_row_index(f"{table[:-1]}_id")
        add_table(rows, trace="mine", table=table, store=tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    asked = ["mine", "--policy", "fgd,spare:SpareMachines", "--seeds", "1", "--store", "store"]
    shown = CliRunner().invoke(app, ["simulate", "place", *asked])
    assert shown.exit_code == 0, shown.output
    assert "spare:SpareMachines" in shown.output
