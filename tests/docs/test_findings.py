"""The measured parts of pages are what their scripts measure on the published files."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from traceana.ingesters import ingest
from traceana.store import Store, open_store

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(path.stem.removesuffix("_findings") for path in DOCS.glob("scripts/*_findings.py"))


@pytest.fixture(scope="module")
def published(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = tmp_path_factory.mktemp("store")
    for trace in (
        *("zeus-2023", "microsoft-itp-2021", "elasticflow-2023"),
        *("alibaba-openb-2023", "alibaba-minibatch-2020", "alibaba-pai-2020"),
        "bytedance-stragglers-2025",
    ):
        ingest(real_data / trace, store=store)
    return open_store(store)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_its_script_measures(
    published: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DOCS / "scripts")
    try:
        script = importlib.import_module(f"{name}_findings")
        page = (DOCS / "explanation" / f"{name}.md").read_text(encoding="utf-8")
        _, rest = page.split("<!-- measured: begin -->\n")
        measured, _ = rest.split("<!-- measured: end -->")
        assert measured.strip() == script.measure(published).strip()
    finally:
        for module in ("findings", f"{name}_findings"):
            sys.modules.pop(module, None)
