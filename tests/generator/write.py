"""Write the synthetic sample: all traces, or some, each in a folder of its own."""

from __future__ import annotations

import difflib
import functools
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.generator.itp import write_elasticflow, write_itp
from tests.generator.minibatch import write_minibatch
from tests.generator.openb import write_openb
from tests.generator.operations import write_operations
from tests.generator.pai import write_pai
from tests.generator.zeus import write_zeus
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MARKER: Final = "SYNTHETIC.json"

_WRITERS: Final = {
    "alibaba-minibatch-2020": write_minibatch,
    "microsoft-itp-2021": write_itp,
    "elasticflow-2023": write_elasticflow,
    "alibaba-pai-2020": write_pai,
    "alibaba-openb-2023": write_openb,
    "zeus-2023": write_zeus,
    "bytedance-stragglers-2025": write_operations,
}

SMALL_SCALE: Final = {
    "alibaba-minibatch-2020": 0.5,
    "microsoft-itp-2021": 0.03,
    "elasticflow-2023": 0.03,
    "alibaba-pai-2020": 0.003,
    "alibaba-openb-2023": 0.18,
    "zeus-2023": 0.03,
    "bytedance-stragglers-2025": 0.014,
}
"""Scale of each trace where none is given: enough for every figure, in seconds."""

LARGEST_SCALE: Final = 100


def write_sample(
    to: str | Path,
    /,
    *,
    scale: float | None = None,
    seed: int = 1,
    traces: str | Sequence[str] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Path:
    """Write synthetic traces in the publishers' own formats, ready for `ingest`.

    Each trace has the folder `to/<trace id>`; `to` is returned. File names begin with
    ``SYNTHETIC-``; ``SYNTHETIC.json`` states seed, scale, version and rows, and
    ``SYNTHETIC-truth.json`` the planted stragglers of the mini-batch trace. The same arguments
    with the same numpy and Polars write the same bytes. No row is real.

    Parameters
    ----------
    to
        Folder to write to: new, empty, or with an earlier sample, whose traces are replaced.
    scale
        Rows as a fraction of the real trace's, above 0 and at most 100; None: a small fraction for
        each trace. No file is empty, and the grids of zeus-2023 are always whole.
    seed
        Whole number, 0 or more.
    traces
        Ids of the traces to write; None: all.
    progress
        Called with a trace and the fraction of it that is written.

    Examples
    --------
    >>> import tempfile, traceana
    >>> folder = traceana.write_sample(tempfile.mkdtemp(), traces="microsoft-itp-2021", scale=0.001)
    >>> sorted(path.name for path in folder.glob("*/*"))
    ['SYNTHETIC-raw-traces.tar.gz', 'SYNTHETIC.json']
    """
    wanted = _check_traces(traces)
    if scale is not None and not 0 < scale <= LARGEST_SCALE:
        raise DataError(
            f"the sample's scale is {scale:g}; give a number above 0 and at most {LARGEST_SCALE}"
        )
    if seed < 0:
        raise DataError(f"the sample's seed is {seed}; give a whole number of 0 or more")
    folder = Path(to)
    try:
        _clear_folder(folder)
        for trace in wanted:
            _write_trace(folder, trace, scale or SMALL_SCALE[trace], seed, progress)
            if progress:
                progress(trace, 1)
    except OSError as error:
        raise DataError(
            f"the sample cannot be written to {folder}: {error.strerror or error}"
        ) from error
    return folder


def _check_traces(traces: str | Sequence[str] | None) -> list[str]:
    wanted = [traces] if isinstance(traces, str) else list(traces or _WRITERS)
    for trace in wanted:
        if trace not in _WRITERS:
            close = difflib.get_close_matches(trace.lower(), _WRITERS, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise DataError(
                f"no trace is called {trace!r}{hint}; the traces are {', '.join(sorted(_WRITERS))}"
            )
    return wanted


def _clear_folder(folder: Path) -> None:
    """Raise if there is anything but an earlier sample, and remove what one left half done."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for the sample")
    partials = [_partial(folder, trace) for trace in _WRITERS]
    for entry in sorted(folder.iterdir()) if folder.exists() else []:
        of_sample = entry.name in _WRITERS and entry.is_dir() and _is_sample(entry)
        if not of_sample and entry not in partials:
            raise DataError(
                f"{folder} holds {entry.name}, which is no part of an earlier sample; "
                "name a new or empty folder"
            )
    for partial in partials:
        shutil.rmtree(partial, ignore_errors=True)


def _is_sample(folder: Path) -> bool:
    return (folder / MARKER).is_file() or not any(folder.iterdir())


def _partial(folder: Path, trace: str) -> Path:
    """Where a trace is written before it is moved to its place."""
    return folder / f".{trace}.partial"


def _write_trace(
    folder: Path,
    trace: str,
    scale: float,
    seed: int,
    progress: Callable[[str, float], None] | None,
) -> None:
    partial = _partial(folder, trace)
    partial.mkdir(parents=True)
    try:
        if trace == "alibaba-pai-2020" and progress:
            rows = write_pai(
                partial, scale=scale, seed=seed, progress=functools.partial(progress, trace)
            )
        else:
            rows = _WRITERS[trace](partial, scale=scale, seed=seed)
        marker = {
            "synthetic": True,
            "note": "Drawn by traceana for trying it out; not real data, nor resampled from it.",
            "trace": trace,
            "scale": scale,
            "seed": seed,
            "traceana": version("traceana"),
            "rows": rows,
        }
        (partial / MARKER).write_text(json.dumps(marker, indent=2) + "\n")
        place = folder / trace
        place.mkdir(exist_ok=True)
        # the marker first: what follows lies in a marked folder
        for path in sorted(partial.iterdir(), key=lambda path: (path.name != MARKER, path.name)):
            path.replace(place / path.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
