"""The publishers' tables that analyses are held against, ingested once."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceana.store import Store, ingest, open_store


@pytest.fixture(scope="session")
def real_store(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The jobs tables that are small, and the Zeus traces."""
    store = tmp_path_factory.mktemp("store")
    for trace in ("zeus-2023", "microsoft-itp-2021", "alibaba-openb-2023"):
        ingest(real_data / trace, store=store)
    return open_store(store)
