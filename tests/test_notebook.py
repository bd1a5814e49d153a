"""What a notebook shows: short tables, pictures and progress."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

import traceana
from traceana.figures import plot_gpu_demand

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c"],
        "gpus": [1, 2, 4],
        "start_s": [0.0, 60.0, 90.0],
        "runtime_s": [60.0, 90.0, -1.0],
    }
)


def test_stores_and_ledgers_are_tables_with_their_counts(tmp_path: Path) -> None:
    ledger = traceana.add_table(JOBS, trace="mine", table="jobs", store=tmp_path)
    assert repr(ledger) == "Ledger(tables: 1; rows: 3 read, 2 kept, 1 rejected)"
    for name in ("rows_read", "rows_kept", "rows_rejected", "<td>3</td><td>2</td><td>1</td>"):
        assert name in ledger._repr_html_()
    store = traceana.open_store(tmp_path)
    assert "<td>2</td><td>1</td>" in store._repr_html_()
    assert str(tmp_path) in store._repr_html_()
    assert len(repr(ledger.entries[0])) < 300


def test_axes_of_a_new_figure_are_a_picture() -> None:
    kept = JOBS.head(2)
    axes = plot_gpu_demand(traceana.gpu_demand(kept, runtime="runtime_s", bin_s=30))
    assert axes._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_a_report_shows_its_progress_in_notebooks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traceana.add_table(JOBS, trace="mine", table="jobs", store=tmp_path / "store")
    place, out = tmp_path / "store", tmp_path / "out"
    traceana.build_report(place, out=out, only="data-quality")
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    traceana.build_report(place, out=out, only="data-quality")
    assert "2/2" in capsys.readouterr().err
