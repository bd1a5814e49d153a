"""Where a report's data come from: a store, or the synthetic sample where there is none."""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from traceana.errors import DataError, StoreError
from traceana.store import Store, open_store, store_path
from traceana.store.cache import code_digest

SEED: Final = 1
"""Seed of the synthetic sample that a report is made from where there is no store."""
_MADE_BY: Final = ("catalog", "ingesters", "samples", "schema", "stats", "store")
"""Rooms whose code decides what a store made from the sample holds."""

_OF_CODE: Final = (".py", ".toml", ".csv", ".jinja", ".css", ".js", ".mplstyle")


@dataclass(frozen=True)
class Origin:
    """Where a report would look for a store, and whether there is one.

    Attributes
    ----------
    place
        The folder given, else TRACEANA_STORE, else ``data``.
    is_sample
        True where it holds no ledger, so that the synthetic sample takes its place.

    Examples
    --------
    >>> from pathlib import Path
    >>> from traceana.report import Origin
    >>> Origin(Path("data"), is_sample=True).is_sample
    True
    """

    place: Path
    is_sample: bool

    @property
    def option(self) -> str:
        """The place as an option of the command line, quoted where it must be."""
        return f"--store {shlex.quote(str(self.place))}"

    def commands(self, trace: str, /) -> tuple[str, str]:
        """Return the commands that download a public trace and ingest it."""
        return (
            f"traceana fetch {trace} --to files/{trace}",
            f"traceana ingest files/{trace} {self.option}",
        )

    @property
    def notice(self) -> str:
        """One sentence on what was not found and how to ingest."""
        return (
            f"nothing is ingested under {self.place}, so this report is made from the SYNTHETIC "
            f"sample; for one on real files: traceana ingest PATH {self.option}"
        )


def find_origin(store: str | os.PathLike[str] | None = None, /) -> Origin:
    """Return where a report's data will come from; nothing is made or read yet.

    Examples
    --------
    >>> import tempfile
    >>> from traceana.report import find_origin
    >>> find_origin(tempfile.mkdtemp()).is_sample
    True
    """
    place = store_path(store)
    return Origin(place, is_sample=not Store(place).traces())


def read_date() -> str | None:
    """Return the date that SOURCE_DATE_EPOCH asks for; without it a page has none.

    Raises
    ------
    DataError
        If it is not a whole number of seconds.
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


def open_origin(origin: Origin, /) -> Store:
    """Open the store; where there is none, make one from the sample, or take the one made before.

    The sample's store is in the user's cache folder, under a name that changes with the version,
    the seed and the code that makes it. It is made beside that name and moved there when whole.

    Raises
    ------
    StoreError
        If the store cannot be read, or the cache folder cannot be written.
    """
    if not origin.is_sample:
        return open_store(origin.place)
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
