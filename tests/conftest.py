"""What tests share: where the publishers' real files lie. Nothing else knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the publishers' files, one folder a trace; tests that need it are else skipped."""
    beside_the_repository = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TRACEANA_TEST_DATA") or beside_the_repository)
    if not folder.is_dir():
        pytest.skip(
            f"the publishers' files are not at {folder}; TRACEANA_TEST_DATA names another place"
        )
    return folder
