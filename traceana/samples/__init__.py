"""A small synthetic data set in the formats of seven public traces; no row is real."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from traceana.errors import DataError, did_you_mean

__all__ = ["write_sample"]

MARKER: Final = "SYNTHETIC.json"


def write_sample(to: str | Path, /, *, traces: str | Sequence[str] | None = None) -> Path:
    """Write the synthetic sample in the publishers' own formats, ready for `ingest`.

    Each trace has the folder `to/<trace id>`; `to` is returned. File names begin with
    ``SYNTHETIC-``; ``SYNTHETIC.json`` states seed, scale and rows, and ``SYNTHETIC-truth.json`` the
    planted stragglers of the mini-batch trace. No row is real.

    Parameters
    ----------
    to
        Folder to write to: new, empty, or with an earlier sample, whose traces are replaced.
    traces
        Ids of the traces to write; None: all.

    Examples
    --------
    >>> import tempfile, traceana
    >>> folder = traceana.write_sample(tempfile.mkdtemp(), traces="microsoft-itp-2021")
    >>> sorted(path.name for path in folder.glob("*/*"))
    ['SYNTHETIC-raw-traces.tar.gz', 'SYNTHETIC.json']
    """
    folder = Path(to)
    with as_file(files(__name__) / "data") as data:
        names = sorted(path.name for path in data.iterdir())
        wanted = [traces] if isinstance(traces, str) else list(traces or names)
        for trace in wanted:
            if trace not in names:
                hint = did_you_mean(trace, names)
                raise DataError(
                    f"no trace is called {trace!r}{hint}; the traces are {', '.join(names)}"
                )
        try:
            _check_folder(folder, names)
            for trace in wanted:
                shutil.rmtree(folder / trace, ignore_errors=True)
                try:
                    shutil.copytree(data / trace, folder / trace)
                except OSError:
                    shutil.rmtree(folder / trace, ignore_errors=True)
                    raise
        except OSError as error:
            # shutil.Error lists every file that could not be copied
            reason = error.strerror or "not all files could be copied; is the disk full?"
            raise DataError(f"the sample cannot be written to {folder}: {reason}") from error
    return folder


def _check_folder(folder: Path, traces: list[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for the sample")
    for entry in sorted(folder.iterdir()) if folder.exists() else []:
        if entry.name not in traces or (any(entry.iterdir()) and not (entry / MARKER).is_file()):
            raise DataError(
                f"{folder} has {entry.name}, which is no part of an earlier sample; name a new or "
                "empty folder"
            )
