"""Lists of pods and nodes of the Kubernetes scheduler simulator, with or without times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.ingesters.readers import csv
from traceana.ingesters.readers.frames import FrameBlock
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_PODS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_NODES: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def _reads(file: CsvFile) -> bool:
    """Return whether the columns, in any order, are those of pods or of nodes."""
    columns = set(csv.read_header(file.head))
    pods = columns >= {"name", "num_gpu", "gpu_milli"}
    return pods or columns >= set(_NODES) or {"sn", "gpu"} <= columns <= set(_NODES)


def _open(file: CsvFile, timezone: str) -> Rows:
    rows = csv.READER.rows(file, timezone)
    expected = _NODES if "sn" in rows.columns else _PODS
    absent = [name for name in expected if name not in rows.columns]

    def blocks(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
        for part in (part for block in rows.blocks(kinds) for part in block.parts()):
            nulls = (pl.lit(None, pl.String).alias(name) for name in absent)
            cells = part.cells.with_columns(nulls)
            lines = pl.int_range(part.first_line, part.first_line + part.lines, eager=True)
            texts = part.text_of(lines)
            yield FrameBlock(cells, kinds, part.first_line, texts, part.bad, part.header_lines)

    return replace(rows, columns=(*rows.columns, *absent), blocks=blocks)


READER: Final = Reader(
    "openb-pods",
    _reads,
    _open,
    suffixes=(".csv",),
    mapping=own_mapping("openb_pods"),
)
