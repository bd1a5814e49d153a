"""A store in the user's cache folder, for files that are read without naming a store."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.ingesters.add import add_table, digest_of, to_polars
from traceana.ingesters.discover import name_of
from traceana.ingesters.ingestion import Paths, ingest

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
) -> Path:
    """Ingest files into a store in the user's cache folder, and return its path.

    The same files with the same options use the same store. The parameters are those of
    :func:`~traceana.ingesters.ingest`.

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
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    names = [paths] if isinstance(paths, str | PathLike) else list(paths)
    given = [str(Path(path).resolve()) for path in names]
    is_file = mapping is not None and "\n" not in fspath(mapping)
    options = [str(Path(mapping).resolve()) if mapping and is_file else mapping, reader, timezone]
    key = json.dumps([version("traceana"), given, options])
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    store = user_cache_path("traceana") / "read" / digest
    ingest(
        names, trace=None if mapping is None or is_file else name_of(Path(names[0])),
        mapping=mapping, reader=reader, timezone=timezone, store=store, replace=True,
        progress=progress,
    )  # fmt: skip
    return store


def store_frames(frames: Mapping[str, IntoFrame], /) -> Path:
    """Add frames by the names of their tables to a store of their own in the user's cache folder.

    The same rows use the same store. The trace is called `frames`.
    """
    from platformdirs import user_cache_path  # noqa: PLC0415  only where it is needed

    tables = {name: to_polars(frame) for name, frame in frames.items()}
    key = json.dumps([(name, rows.columns, digest_of(rows)) for name, rows in tables.items()])
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    store = user_cache_path("traceana") / "read" / digest
    for name, rows in tables.items():
        add_table(rows, trace="frames", table=name, store=store)
    return store
