"""Write a frame to the file that a command's ``--out`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl


def frame_writer(out: Path | None) -> Callable[[pl.DataFrame], object]:
    """Return what writes a frame to `out`, by its ending; None writes nothing.

    Raises
    ------
    DataError
        If the ending is none of .csv, .json and .parquet, or there is no such folder.
    """
    from traceana.errors import DataError

    if out is None:
        return lambda _: None
    writers: dict[str, Callable[[pl.DataFrame], object]] = {
        ".csv": lambda frame: frame.write_csv(out),
        ".json": lambda frame: frame.write_json(out),
        ".parquet": lambda frame: frame.write_parquet(out),
    }
    if out.suffix not in writers:
        raise DataError(f"--out {out}: the ending must be one of {', '.join(writers)}")
    if not out.parent.is_dir():
        raise DataError(f"--out {out}: there is no folder {out.parent}; make it first")
    return writers[out.suffix]
