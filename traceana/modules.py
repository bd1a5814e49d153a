"""Modules by file name: those of sections and of figures are found, not listed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType


def import_named(*patterns: str) -> Iterator[ModuleType]:
    """Import the modules of this package whose paths fit a pattern, such as ``*/section*.py``."""
    top = Path(__file__).parent
    for pattern in patterns:
        for path in sorted(top.glob(pattern)):
            parts = path.relative_to(top).with_suffix("").parts
            yield import_module(".".join((__package__ or "", *parts)))
