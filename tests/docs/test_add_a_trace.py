"""The how-to page's own code, run as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from traceana.catalog import model
from traceana.ingesters import ingest
from traceana.ingesters.recipes import INGESTERS
from traceana.store import open_store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-trace.md"


def test_the_page_adds_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```\w+\n(.*?)```", page, flags=re.DOTALL)
    csv, toml, ingester, line, result = blocks

    trace = model._read_trace("example-2026", toml)
    catalog = {**model.load_catalog(), trace.id: trace}
    for module in ("traceana.catalog.model", "traceana.ingesters.discover"):
        monkeypatch.setattr(f"{module}.load_catalog", lambda: catalog)
    example = types.ModuleType("example")
    exec(compile(ingester, "example.py", "exec"), example.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "example", example)
    name, recipes = line.strip().rstrip(",").split(": ")
    monkeypatch.setitem(INGESTERS, name.strip('"'), eval(recipes, {"example": example}))  # noqa: S307

    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "example_jobs.csv").write_text(csv)
    assert str(ingest(folder, store=tmp_path / "store")) == result.strip()
    jobs = open_store(tmp_path / "store").scan("example-2026", "jobs").collect()
    assert jobs["runtime_s"].to_list() == [60.0, None]
    assert jobs["gpus"].to_list() == [0.5, 2.0]
    rejected = open_store(tmp_path / "store").scan_rejected("example-2026", "jobs").collect()
    assert rejected["rule"].to_list() == ["start_not_before_submission"]
