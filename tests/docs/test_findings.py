"""The parts of the appendix are what their scripts measure on the published files."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from traceana.store import Store

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(path.stem.removesuffix("_findings") for path in DOCS.glob("scripts/*_findings.py"))


@pytest.mark.parametrize("name", NAMES)
def test_the_appendix_has_what_each_script_measures(
    kept_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DOCS / "scripts")
    try:
        script = importlib.import_module(f"{name}_findings")
        page = (DOCS / "explanation" / "measured.md").read_text(encoding="utf-8")
        _, rest = page.split(f"<!-- measured: {name} begin -->\n")
        measured, _ = rest.split(f"<!-- measured: {name} end -->")
        assert measured.strip() == script.measure(kept_store).strip()
    finally:
        for module in ("findings", f"{name}_findings"):
            sys.modules.pop(module, None)
