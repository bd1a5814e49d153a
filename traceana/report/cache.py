"""Finished sections, kept in the user's cache folder until data, code or options change."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from platformdirs import user_cache_path

from traceana.store.ledger import ledger_json
from traceana.store.session import code_digest, versions

if TYPE_CHECKING:
    from traceana.report.blocks import Content
    from traceana.report.context import Context

_LIBRARIES: Final = ("matplotlib", "jinja2", "markupsafe")
_MOST_KEPT: Final = 8
"""Reports whose sections are kept; the one that was used longest ago goes first."""
_DIGEST_BYTES: Final = 32


class Cache:
    """The sections of one report: one file each, under a key of all that they depend on.

    A file is written beside and renamed, and begins with the digest of the rest, so that one
    that was cut short or changed counts as none. Where the folder cannot be written, nothing is
    kept and nothing fails.
    """

    def __init__(self, context: Context) -> None:
        self._reports = user_cache_path("traceana") / "report"
        self._folder = self._reports / _key(context)

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


def _key(context: Context) -> str:
    """Return what a section depends on, as one name: data, code, versions, options."""
    ledgers = {name: ledger_json(ledger) for name, ledger in sorted(context.ledgers.items())}
    figures = None if context.figures is None else sorted(context.figures)
    origin = (str(context.origin.place), context.origin.is_sample)
    parts = (code_digest(), versions(*_LIBRARIES), ledgers, origin, context.date, figures)
    engine = (context.master, versions("pyspark") if context.master else None)
    return hashlib.sha256(repr((*parts, context.formats, engine)).encode()).hexdigest()[:24]
