"""A small store of synthetic traces, and the page made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.reader import Element, read_page
from traceana.ingesters import ingest
from traceana.report import build_report
from traceana.samples import write_sample
from traceana.store import Store, open_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """All six traces, small."""
    folder = tmp_path_factory.mktemp("report")
    ingest(write_sample(folder / "files", scale=0.001, seed=5), store=folder / "store")
    return open_store(folder / "store")


@pytest.fixture(scope="session")
def report(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page made from it, beside its Markdown."""
    return build_report(store.path, out=tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def html(report: Path) -> str:
    """The page, as text."""
    return report.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def markdown(report: Path) -> str:
    """The Markdown, as text."""
    return report.with_suffix(".md").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(html: str) -> Element:
    """The same, as elements."""
    return read_page(html)


@pytest.fixture(scope="session")
def zeus_store(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store that holds nothing but the Zeus traces."""
    folder = tmp_path_factory.mktemp("zeus") / "a store"
    ingest(store.path.parent / "files" / "zeus-2023", store=folder)
    return open_store(folder)


@pytest.fixture(scope="session")
def zeus_page(zeus_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Element:
    """The page made from it."""
    page = build_report(zeus_store.path, out=tmp_path_factory.mktemp("page"))
    return read_page(page.read_text(encoding="utf-8"))
