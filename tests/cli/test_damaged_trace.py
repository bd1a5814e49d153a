"""A trace of a store that cannot be read is stated and left out; the others are analyzed."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.command import run_command
from traceana.ingesters import add_table

JOBS = pl.DataFrame({"job_id": ["a", "b"], "start_s": [0, 9], "end_s": [9, 90], "gpus": [1, 2]})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for trace in ("damaged", "whole"):
        add_table(JOBS, trace=trace, table="jobs", store=tmp_path / "store")
    return tmp_path / "store"


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    file.unlink()
    if how != "missing":
        file.write_bytes(content[:-9] if how == "cut" else b"")


@pytest.mark.parametrize("how", ["missing", "empty", "cut"])
@pytest.mark.parametrize("name", ["ledger.json", "manifest.json", "jobs.parquet"])
def test_each_way_to_damage_a_trace_is_one_line(store: Path, name: str, how: str) -> None:
    damage(store / "damaged" / name, how)
    done = run_command("tables", "--store", store, "--json")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"traceana: left out: {store}/damaged")
    assert name in done.stderr
    assert "again" in done.stderr
    stored = {row["trace"] for row in json.loads(done.stdout) if row["rows"]}
    assert stored == {"whole"}
    (store / "whole" / name).unlink()
    done = run_command("tables", "--store", store)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["traces"], "microsoft-itp-2021"),
        (["claims"], "claims"),
        (["summary"], "no result stands out"),
        (["report", "--only", "data-quality", "--out", "OUT"], "index.html"),
        (["figures", "gpu-demand", "--out", "OUT"], "svg"),
    ],
)
def test_each_command_goes_on_with_the_others(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], printed: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("traceana.report.run.count_workers", lambda: 1)
    damage(store / "damaged" / "ledger.json", "missing")
    words = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    done = run_command(*words, "--store", store)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"left out: {store}/damaged: ledger.json is missing" in done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize("limits", [[], ["--gpus", "4"]])
def test_the_page_names_the_trace_that_it_lacks(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: list[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("traceana.report.run.count_workers", lambda: 1)
    damage(store / "damaged" / "jobs.parquet", "cut")
    run_command("report", "--only", "data-quality", "--out", tmp_path, "--store", store, *limits)
    for name in ("index.md", "index.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Damaged and not on this page: damaged." in text


def test_what_is_left_of_a_trace_is_ingested_anew(store: Path) -> None:
    before = {path.name: path.read_bytes() for path in (store / "damaged").iterdir()}
    for name in ("ledger.json", "jobs.parquet"):
        damage(store / "damaged" / name, "missing" if name == "ledger.json" else "cut")
        add_table(JOBS, trace="damaged", table="jobs", store=store)
        assert {p.name: p.read_bytes() for p in (store / "damaged").iterdir()} == before
