"""Read the publishers' files, and the sample's, with nothing of traceana's."""

from __future__ import annotations

import csv
import io
import lzma
import tarfile
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Every table in a folder as CSV, by its file's name without the mark of synthetic data."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in archive.getmembers():
                    stream = archive.extractfile(member)
                    assert stream
                    found[member.name.removeprefix("SYNTHETIC-")] = stream.read()
        elif path.suffix == ".xz":
            found[path.stem.removeprefix("SYNTHETIC-")] = lzma.decompress(path.read_bytes())
        elif path.suffix == ".csv":
            found[path.name.removeprefix("SYNTHETIC-")] = path.read_bytes()
        elif path.suffix == ".parquet":
            table = pl.read_parquet(path).write_csv().encode()
            found[path.name.removeprefix("SYNTHETIC-")] = table
    tables = (".csv", ".parquet")
    return {name: content for name, content in found.items() if name.endswith(tables)}


def rows(content: bytes) -> list[list[str]]:
    """Cells of a CSV, its header first where it has one."""
    return list(csv.reader(io.StringIO(content.decode())))


def headed(folder: Path, table: str) -> dict[str, list[str]]:
    """Columns of a headerless packed CSV, named by the `.header` beside it."""
    with tarfile.open(folder / f"SYNTHETIC-{table}.tar.gz") as archive:
        stream = archive.extractfile(f"SYNTHETIC-{table}.csv")
        assert stream
        content = stream.read()
    names = (folder / f"SYNTHETIC-{table}.header").read_text().rstrip("\n").split(",")
    cells = pl.read_csv(
        content,
        has_header=False,
        new_columns=names,
        infer_schema=False,
    )
    return cells.fill_null("").to_dict(as_series=False)


def columns(content: bytes) -> dict[str, list[str]]:
    """Columns of a CSV by its own header."""
    names, *cells = rows(content)
    return dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
