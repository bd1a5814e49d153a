"""Finished sections, kept in the user's cache folder until data, code or options change."""

from __future__ import annotations

import hashlib
import pickle
import platform
import shutil
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from platformdirs import user_cache_path

from traceana.report.origin import digest_of
from traceana.store.ledger import ledger_json

if TYPE_CHECKING:
    from traceana.report.blocks import Content
    from traceana.report.material import Material

_LIBRARIES: Final = (
    *("polars", "pyarrow", "narwhals", "numpy", "scipy", "statsmodels", "matplotlib"),
    *("jinja2", "markupsafe"),
)
_MOST_KEPT: Final = 8
"""Reports whose sections are kept; the one that was used longest ago goes first."""
_DIGEST_BYTES: Final = 32


class Cache:
    """The sections of one report: one file each, under a key of all that they depend on.

    A file is written beside and renamed, and begins with the digest of the rest, so that one
    that was cut short or changed counts as none. Where the folder cannot be written, nothing is
    kept and nothing fails.
    """

    def __init__(self, material: Material) -> None:
        self._reports = user_cache_path("traceana") / "report"
        self._folder = self._reports / _key(material)

    def load(self, section: str, /) -> Content | None:
        """Return a section as it was kept; None where it was not."""
        try:
            stored = self._file(section).read_bytes()
        except OSError:
            return None
        digest, packed = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if hashlib.sha256(packed).digest() != digest:
            return None
        content: Content = pickle.loads(packed)  # noqa: S301  written by this same code
        return content

    def keep(self, section: str, content: Content, /) -> None:
        """Keep a section."""
        packed = pickle.dumps(content)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as beside:
                beside.write(hashlib.sha256(packed).digest() + packed)
            Path(beside.name).replace(self._file(section))

    def tidy(self) -> None:
        """Mark this report's sections as used now, and delete those used longest ago."""
        with suppress(OSError):
            self._folder.touch()
            by_age = sorted(self._reports.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            for folder in by_age[:-_MOST_KEPT]:
                shutil.rmtree(folder, ignore_errors=True)

    def _file(self, section: str) -> Path:
        return self._folder / f"{section}.pickle"


def _key(material: Material) -> str:
    """Return what a section depends on, as one name: data, code, versions, options."""
    ledgers = {name: ledger_json(ledger) for name, ledger in sorted(material.ledgers.items())}
    figures = None if material.figures is None else sorted(material.figures)
    origin = (str(material.origin.place), material.origin.is_sample)
    versions = [platform.python_version(), platform.machine(), *map(_version, _LIBRARIES)]
    parts = (digest_of(files("traceana")), versions, ledgers, origin, material.date, figures)
    engine = (material.master, _version("pyspark") if material.master else None)
    return hashlib.sha256(repr((*parts, material.formats, engine)).encode()).hexdigest()[:24]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
