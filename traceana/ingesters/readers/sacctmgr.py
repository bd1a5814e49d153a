"""Node events of Slurm, as ``sacctmgr show event --parsable2`` prints them."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from traceana.ingesters.readers import csv
from traceana.ingesters.readers.reader import Reader

if TYPE_CHECKING:
    from traceana.ingesters.files import CsvFile

_NAMES: Final = {"NodeName", "TimeStart", "TimeEnd", "State", "Reason"}


def _detect(file: CsvFile) -> bool:
    return set(csv.read_header(file.head, "|")) >= _NAMES


READER: Final = Reader(
    "sacctmgr",
    _detect,
    csv.READER.open,
    (".txt", ".csv"),
    files("traceana.ingesters.mappings").joinpath("sacctmgr.toml").read_text(encoding="utf-8"),
)
"""Reader of node events; events of the whole cluster have no node and are rejected."""
