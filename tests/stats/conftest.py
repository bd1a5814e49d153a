"""R's values of small data sets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def r_values() -> dict[str, Any]:
    path = Path(__file__).parents[1] / "reference" / "r_values.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))
