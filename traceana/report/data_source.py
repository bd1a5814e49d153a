"""The data source of a report: a store, or the synthetic sample if there is none."""

from __future__ import annotations

import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from traceana.errors import StoreError
from traceana.page.context import DataSource
from traceana.store import Store, open_store, store_path
from traceana.store.cache import code_digest

_MADE_BY: Final = ("catalog", "ingesters", "samples", "schema", "stats", "store")
"""Packages whose code determines the store of the sample."""


def find_data_source(store: str | os.PathLike[str] | None = None, /) -> DataSource:
    """Find the data source of a report without reading it.

    Raises a StoreError if a store is named, here or in TRACEANA_STORE, and there is none.

    Examples
    --------
    >>> from traceana.report import find_data_source
    >>> find_data_source("no/such/store")
    Traceback (most recent call last):
    ...
    traceana.errors.StoreError: no/such/store: no store here (no ledger.json in any folder of it)...
    """
    path = store_path(store)
    if store is not None or os.environ.get("TRACEANA_STORE"):
        return DataSource(open_store(path).path, is_sample=False)
    return DataSource(path, is_sample=not Store(path).traces())


def open_data_source(data_source: DataSource, /) -> Store:
    """Open the store, or a cached store of the synthetic sample if there is none.

    The store of the sample is in the user's cache folder, under a name of the version and
    the digest of the code. It is built beside that name and then renamed. Raises a StoreError if
    the store cannot be read, or the cache folder cannot be written.
    """
    if not data_source.is_sample:
        return open_store(data_source.path)
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    cache = user_cache_path("traceana") / "sample"
    digest = code_digest(*_MADE_BY)
    place = cache / f"{version('traceana')}-{digest}"
    if not place.is_dir():
        try:
            _make_sample_store(cache, place)
        except OSError as error:
            raise StoreError(
                f"{cache}: the store of the synthetic sample cannot be written here "
                f"({error.strerror or error}); name another cache folder in XDG_CACHE_HOME"
            ) from error
    return open_store(place)


def _make_sample_store(cache: Path, place: Path) -> None:
    from traceana.ingesters import ingest  # noqa: PLC0415  only where it is needed
    from traceana.samples import write_sample  # noqa: PLC0415  as above

    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".making-") as folder:
        beside = Path(folder) / "store"
        ingest(write_sample(Path(folder) / "files"), store=beside)
        try:
            beside.rename(place)
        except OSError:
            # another process was faster: its store is as good
            if not place.is_dir():
                raise
