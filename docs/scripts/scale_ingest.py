"""Measure ways to store the large instance table, for docs/explanation/scale.md.

Usage: python docs/scripts/scale_ingest.py CSV (instances as published, without a header). One
thread, processor seconds, best of three; takes a minute or two and is not run by the tests.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from findings import as_table, write_measured

from tests.generator.pai import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES = 200_000_000
TIMES = ["start_time", "end_time"]
IDS = ["job_name", "inst_name", "worker_name", "inst_id"]
NAMES = list(COLUMNS["pai_instance_table"])
TEXT = [name for name in NAMES if name not in TIMES]
OF_A_JOB = ["job_name", "inst_id"]  # each stands in all rows of its job
WORDS = [name for name in TEXT if name not in IDS]
AGAIN = WORDS + OF_A_JOB
APART = dict.fromkeys(["inst_name", "worker_name"], "DELTA_LENGTH_BYTE_ARRAY")
ALL_APART = dict.fromkeys(IDS, "DELTA_LENGTH_BYTE_ARRAY")
CHOSEN = {"compression_level": 1, "use_dictionary": AGAIN, "column_encoding": APART}


def processor_seconds(work: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    return min(once() for _ in range(3))


def read(path: Path) -> pl.DataFrame:
    with path.open("rb") as file:
        data = file.read(BYTES)
    schema = {name: pl.Float64 if name in TIMES else pl.String for name in NAMES}
    lines = data[: data.rfind(b"\n") + 1]
    return pl.read_csv(lines, has_header=False, schema=schema, quote_char=None).rechunk()


def write(table: pa.Table, to: Path, options: dict[str, object], *, group: int = 1 << 17) -> None:
    settings = {
        "compression": "zstd",
        "write_statistics": TIMES,
        "write_batch_size": 1 << 14,
        **options,
    }
    with pq.ParquetWriter(to, table.schema, **settings) as writer:
        writer.write_table(table, row_group_size=group)


def binary(frame: pl.DataFrame) -> pa.Table:
    """Turn the identifiers' digits into half as many bytes with one table look-up a pair."""
    pairs = np.zeros(1 << 16, np.uint8)
    for byte in range(256):
        pairs[int.from_bytes(f"{byte:02x}".encode(), "little")] = byte
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    for name in IDS:
        text = frame[name].to_arrow(compat_level=pl.CompatLevel.oldest())
        digits = np.frombuffer(text.buffers()[2], np.uint16, count=len(text.buffers()[2]) // 2)
        width = len(digits) // len(text)
        values = pa.py_buffer(pairs[digits].tobytes())
        column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(text), [None, values])
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def main() -> None:
    """Measure, and write the page."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pa.set_cpu_count(1)
    frame = read(Path(sys.argv[1]))
    table = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    ways: dict[str, tuple[dict[str, object], int]] = {
        "default: zstd 1, dictionary for repeated text, lengths apart": (CHOSEN, 1 << 17),
        "default, job names not as dictionary": (
            {**CHOSEN, "use_dictionary": WORDS, "column_encoding": ALL_APART},
            1 << 17,
        ),
        "zstd 1, dictionary for all text": (
            {"compression_level": 1, "use_dictionary": TEXT},
            1 << 17,
        ),
        "zstd 1, no dictionary for identifiers": (
            {"compression_level": 1, "use_dictionary": WORDS},
            1 << 17,
        ),
        "default, minimum and maximum of text too": (
            {**CHOSEN, "write_statistics": True},
            1 << 17,
        ),
        "default, zstd 3": ({**CHOSEN, "compression_level": 3}, 1 << 17),
        "default, lz4": (
            {**CHOSEN, "compression": "lz4", "compression_level": None},
            1 << 17,
        ),
        "default, snappy": (
            {**CHOSEN, "compression": "snappy", "compression_level": None},
            1 << 17,
        ),
        "default, not compressed": (
            {**CHOSEN, "compression": "none", "compression_level": None},
            1 << 17,
        ),
        "default, groups of 32,768 rows": (CHOSEN, 1 << 15),
        "default, groups of 524,288 rows": (CHOSEN, 1 << 19),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "rows.parquet"

        def measure(way: str, work: Callable[[], object]) -> None:
            write_s = processor_seconds(work)
            ids_s = processor_seconds(lambda: pl.read_parquet(to, columns=IDS[:1] + TIMES))
            megabytes = to.stat().st_size / 1e6
            rows.append((way, write_s, megabytes, ids_s))

        for way, (options, group) in ways.items():
            measure(way, lambda o=options, g=group: write(table, to, o, group=g))
        plain = {
            "compression_level": 1,
            "use_dictionary": WORDS,
            "compression": dict.fromkeys(WORDS + TIMES, "zstd") | dict.fromkeys(IDS, "none"),
        }
        plain["compression_level"] = dict.fromkeys(WORDS + TIMES, 1)
        measure(
            "identifiers as 96 and 240 bits, not compressed, converted while writing",
            lambda: write(binary(frame), to, plain),
        )
    told = pl.DataFrame(
        rows,
        schema=["storage", "CPU s to write", "MB", "CPU s to read job and times"],
        orient="row",
    )
    size = f"{frame.height:,} synthetic instances ({BYTES / 1e6:.0f} MB of CSV)"
    machine = f"{os.cpu_count()} cores, one used; Polars {pl.__version__}, pyarrow {pa.__version__}"
    text = f"{size}; {machine}; {time.strftime('%Y-%m-%d')}.\n\n{as_table(told)}"
    write_measured("scale.md", text, name="storage")
    print(text)


if __name__ == "__main__":
    main()
