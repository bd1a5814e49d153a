"""Modules by file name, and objects that other packages add."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from traceana.errors import DataError


def import_named(*patterns: str) -> Iterator[ModuleType]:
    """Import the modules of this package whose paths fit a pattern, such as ``*/section*.py``."""
    top = Path(__file__).parent
    for pattern in patterns:
        for path in sorted(top.glob(pattern)):
            parts = path.relative_to(top).with_suffix("").parts
            yield import_module(".".join((__package__ or "", *parts)))


def load_entry_points(group: str, noun: str, /) -> Iterator[tuple[str, str, Any]]:
    """Load what other packages register in a group: its place for messages, name and object."""
    for point in entry_points(group=group):
        where = f"{noun} {point.name} ({point.value})"
        try:
            yield where, point.name, point.load()
        except Exception as error:
            raise DataError(f"{where}: not loaded: {error}") from error
