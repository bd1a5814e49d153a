"""Lists of pods and nodes of the Kubernetes scheduler simulator, with or without times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.ingesters.files import open_csv
from traceana.ingesters.readers.csv import read_header
from traceana.ingesters.readers.reader import Reader, own_mapping

if TYPE_CHECKING:
    from traceana.ingesters.files import CsvFile

_PODS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODES: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_OPTIONAL: Final = (
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)


def _open(file: CsvFile, _timezone: str) -> pl.DataFrame:
    with open_csv(file) as stream:
        rows = pl.read_csv(stream.read(), infer_schema=False)
    if rows.columns[0] == _NODES[0]:
        return rows
    absent = (name for name in _OPTIONAL if name not in rows.columns)
    return rows.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)


READER: Final = Reader(
    "openb-pods",
    lambda file: tuple(read_header(file.head)[:5]) in (_PODS, _NODES),
    _open,
    suffixes=(".csv",),
    mapping=own_mapping("openb_pods"),
)
