"""The publishers' tables that analyses are held against, ingested once."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceana.store import Store, ingest, open_store


@pytest.fixture(scope="session")
def real_store(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Every trace that is at hand."""
    store = tmp_path_factory.mktemp("store")
    ingest(real_data, store=store)
    return open_store(store)
