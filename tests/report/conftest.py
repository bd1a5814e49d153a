"""A small store of synthetic traces, and the page made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import make_once
from tests.generator import write_sample
from tests.report.reader import Element, read_page
from traceana.ingesters import ingest
from traceana.report import build_report
from traceana.store import Store, open_store


@pytest.fixture(scope="session")
def sample(shared_folder: Path) -> Path:
    """All six traces, small: their files, and a store of them."""

    def make(folder: Path) -> None:
        ingest(write_sample(folder / "files", scale=0.001, seed=5), store=folder / "store")

    return make_once(shared_folder / "sample", make)


@pytest.fixture(scope="session")
def store(sample: Path) -> Store:
    """The store of all six traces."""
    return open_store(sample / "store")


@pytest.fixture(scope="session")
def report(store: Store, shared_folder: Path) -> Path:
    """The page made from it, beside its Markdown."""
    place = shared_folder / "page"
    return make_once(place, lambda out: build_report(store.path, out=out)) / "index.html"


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
def zeus_store(sample: Path, shared_folder: Path) -> Store:
    """A store that holds nothing but the Zeus traces."""
    files = sample / "files" / "zeus-2023"
    return open_store(make_once(shared_folder / "a store", lambda out: ingest(files, store=out)))


@pytest.fixture(scope="session")
def zeus_page(zeus_store: Store, shared_folder: Path) -> Element:
    """The page made from it."""
    place = shared_folder / "zeus-page"
    made = make_once(place, lambda out: build_report(zeus_store.path, out=out))
    return read_page((made / "index.html").read_text(encoding="utf-8"))
