"""The data source of a report: a store, or the synthetic sample if there is none."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from traceana.errors import DataError, StoreError
from traceana.page.context import DataSource
from traceana.store import Store, open_store, store_path
from traceana.store.cache import code_digest

SEED: Final = 1
"""Seed of the synthetic sample."""
_MADE_BY: Final = ("catalog", "ingesters", "samples", "schema", "stats", "store")
"""Packages whose code determines the store of the sample."""


def find_data_source(store: str | os.PathLike[str] | None = None, /) -> DataSource:
    """Find the data source of a report without reading it.

    Examples
    --------
    >>> import tempfile
    >>> from traceana.report import find_data_source
    >>> find_data_source(tempfile.mkdtemp()).is_sample
    True
    """
    path = store_path(store)
    return DataSource(path, is_sample=not Store(path).traces())


def read_date() -> str | None:
    """Return the date in SOURCE_DATE_EPOCH, if it is set.

    Raises a DataError if it is not a whole number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        raise DataError(
            f"SOURCE_DATE_EPOCH is {epoch!r}; it must be whole seconds since 1970"
        ) from None


def open_data_source(data_source: DataSource, /) -> Store:
    """Open the store, or a cached store of the synthetic sample if there is none.

    The store of the sample is in the user's cache folder, under a name of the version, the seed and
    the digest of the code. It is built beside that name and then renamed. Raises a StoreError if
    the store cannot be read, or the cache folder cannot be written.
    """
    if not data_source.is_sample:
        return open_store(data_source.path)
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    cache = user_cache_path("traceana") / "sample"
    digest = code_digest(*_MADE_BY)
    place = cache / f"{version('traceana')}-seed{SEED}-{digest}"
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
        ingest(write_sample(Path(folder) / "files", seed=SEED), store=beside)
        try:
            beside.rename(place)
        except OSError:
            # another process was faster: its store is as good
            if not place.is_dir():
                raise
