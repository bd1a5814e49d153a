"""The how-to page's own code, run as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from tests.claims.conftest import as_if_real, itp_store
from traceana.claims import PAPERS, check_claims
from traceana.claims.papers import read_paper
from traceana.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-paper.md"


def test_the_page_adds_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    text, module, result = blocks
    example = types.ModuleType("traceana.claims.example")
    monkeypatch.setitem(sys.modules, "traceana.claims.example", example)
    exec(compile(module, "example.py", "exec"), example.__dict__)  # noqa: S102
    monkeypatch.setitem(PAPERS, "example", read_paper("example", text))

    results = check_claims(as_if_real(itp_store(tmp_path), tmp_path / "published"), paper="example")
    assert results.headline == result.strip()
    assert results.table["measured"].to_list() == ["2", "20"]
    nothing = check_claims(Store(tmp_path / "no store"), paper="example")
    assert nothing.table["verdict"].to_list() == ["untested"] * 2
