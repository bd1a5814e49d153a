"""The measured parts of pages are what their scripts measure on the published files."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from traceana.store import Store

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(path.stem.removesuffix("_findings") for path in DOCS.glob("scripts/*_findings.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_its_script_measures(
    real_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DOCS / "scripts")
    try:
        script = importlib.import_module(f"{name}_findings")
        page = (DOCS / "explanation" / f"{name}.md").read_text(encoding="utf-8")
        _, rest = page.split("<!-- measured: begin -->\n")
        measured, _ = rest.split("<!-- measured: end -->")
        assert measured.strip() == script.measure(real_store).strip()
    finally:
        for module in ("findings", f"{name}_findings"):
            sys.modules.pop(module, None)
