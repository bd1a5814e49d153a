"""Node events of Slurm, as ``sacctmgr show event --parsable2`` prints them."""

from __future__ import annotations

from typing import Final

from traceana.ingesters.readers import csv
from traceana.ingesters.readers.reader import Reader, own_mapping

_NAMES: Final = {"NodeName", "TimeStart", "TimeEnd", "State", "Reason"}


READER: Final = Reader(
    "sacctmgr",
    lambda file: set(csv.read_header(file.head, "|")) >= _NAMES,
    csv.READER.open,
    (".txt", ".csv"),
    own_mapping("sacctmgr"),
)
"""Reader of node events; events of the whole cluster have no node and are rejected."""
