"""How the sample's files are written: marked in their names, the same bytes every time."""

from __future__ import annotations

import lzma
import tarfile
from typing import TYPE_CHECKING, Final

from isal import igzip_threaded

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

MARK: Final = "SYNTHETIC-"
"""Every file's name begins with it; the ingesters strip it and mark the ledger."""


def write_csv(frame: pl.DataFrame, path: Path, *, end: str = "\n") -> int:
    """Write a frame with its header and return its rows; `end` follows the last row."""
    # polars would quote the nameless index column of the mini-batch files
    text = frame.write_csv(null_value="", quote_style="never").removesuffix("\n") + end
    content = text.encode()
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return frame.height


def write_tables(
    folder: Path, tables: dict[str, pl.DataFrame], *, end: str = "\n"
) -> dict[str, int]:
    """Write each frame to the file of its name, marked, and return the rows by file."""
    return {
        f"{MARK}{name}": write_csv(table, folder / f"{MARK}{name}", end=end)
        for name, table in tables.items()
    }


def pack(archive: Path, members: list[Path]) -> None:
    """Move files into a `.tar.gz`, streaming; neither their times nor their owners are kept.

    Blocks are compressed in two threads, each on its own, so that the bytes are always the same.
    """
    with (
        igzip_threaded.open(archive, "wb", compresslevel=1, threads=2) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar,
    ):
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size = member.stat().st_size
            with member.open("rb") as content:
                tar.addfile(info, content)
            member.unlink()
