"""Node events of Slurm, as ``sacctmgr show event --parsable2`` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.ingesters.readers import csv
from traceana.ingesters.readers.reader import Reader, own_mapping

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
    own_mapping("sacctmgr"),
)
"""Reader of node events; events of the whole cluster have no node and are rejected."""
