"""Published results."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def published() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parents[2] / "reference/outcomes.toml").read_text("utf-8"))
