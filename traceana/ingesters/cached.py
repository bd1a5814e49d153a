"""Stores for files and frames that are read without naming one: temporary, or in the cache."""

from __future__ import annotations

import hashlib
import json
import shlex
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from traceana.ingesters.add import add_table, digest_of, to_polars
from traceana.ingesters.discover import name_of
from traceana.ingesters.ingestion import Paths, ingest
from traceana.store.cache import note_command, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.ingesters.build import Progress


def ingest_cached(
    paths: Paths,
    /,
    *,
    mapping: str | PathLike[str] | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    progress: Progress | None = None,
    keep: bool = False,
) -> Path:
    """Ingest files into a store of their own, and return its path.

    The same files with the same options use the same store. It is in the user's cache folder
    (`keep`), or in a temporary folder that is deleted when the process ends. The other parameters
    are those of :func:`~traceana.ingesters.ingest`.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> from pathlib import Path
    >>> from traceana.ingesters import ingest_cached
    >>> folder = Path(tempfile.mkdtemp())
    >>> jobs = pl.DataFrame({"job": ["a", "b"], "gpus": [2, 4], "runtime": [60, 90]})
    >>> jobs.write_csv(folder / "march.csv")
    >>> _ = (folder / "mine.toml").write_text(traceana.propose_mapping(folder / "march.csv"))
    >>> store = ingest_cached(folder / "march.csv", mapping=folder / "mine.toml")
    >>> traceana.open_store(store).tables().select("trace", "table", "rows").rows()
    [('mine', 'jobs', 2)]
    """
    names = [paths] if isinstance(paths, str | PathLike) else list(paths)
    given = [str(Path(path).resolve()) for path in names]
    is_file = mapping is not None and "\n" not in fspath(mapping)
    given.append(str(Path(mapping).resolve()) if mapping and is_file else str(mapping))
    key = json.dumps([version("traceana"), given, reader, timezone])
    store = _store_of(key, keep=keep)
    ingest(
        names,
        trace=None if mapping is None or is_file else name_of(Path(names[0])),
        mapping=mapping,
        reader=reader,
        timezone=timezone,
        store=store,
        replace=True,
        progress=progress,
    )
    named = "M.toml" if mapping and not is_file else Path(fspath(mapping or "")).name
    options = {"--mapping": named, "--reader": reader, "--timezone": timezone}
    words = [word for option, value in options.items() if value for word in (option, value)]
    words = [Path(name).name for name in names] + words
    note_command(store, f"traceana report {shlex.join(words)}")
    return store


def store_frames(frames: Mapping[str, IntoFrame], /) -> Path:
    """Add frames by the names of their tables to a temporary store of their own.

    The same rows use the same store. The trace is called `frames`.
    """
    tables = {name: to_polars(frame) for name, frame in frames.items()}
    key = json.dumps([(name, rows.columns, digest_of(rows)) for name, rows in tables.items()])
    store = _store_of(key, keep=False)
    for name, rows in tables.items():
        add_table(rows, trace="frames", table=name, store=store)
    note_command(store, "traceana.build_report(frames)")
    return store


def _store_of(key: str, *, keep: bool) -> Path:
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return (user_cache_path("traceana") / "read" if keep else temporary_folder()) / digest
