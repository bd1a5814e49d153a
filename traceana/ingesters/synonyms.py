"""Names that columns of job logs and step times commonly have, and values of their status."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Final

_NAMES: Final[dict[str, dict[str, str]]] = tomllib.loads(
    files("traceana.ingesters").joinpath("synonyms.toml").read_text(encoding="utf-8")
)
JOBS: Final = _NAMES["jobs"]
WORKER_SAMPLES: Final = _NAMES["worker_samples"]
OPERATIONS: Final = _NAMES["operations"]
FAULTS: Final = _NAMES["faults"]
"""Names by column of a table."""
STATUSES: Final = _NAMES["statuses"]
TIME_UNITS: Final = _NAMES["time_units"]
SIZE_UNITS: Final = _NAMES["size_units"]

GPU_COUNT: Final = r"^\s*(?:(\d+)\s*[x\u00d7*]\s*(\S.*)|(\S.*?)\s*[x\u00d7*:]\s*(\d+))\s*$"
"""A type of GPU and their number in one cell: 4x A100, A100-80G x4, a100:4."""

HOSTS: Final = ("host", "hosts", "hostname", "node_name", "nodename", "node_list", "machine")
"""Names of the machines of a job, which are kept as ``node``."""

WAITS: Final = ("queued", "queued_time", "queue_time", "enqueued")
"""Names of a time of submission that may also be that of a wait."""

FAILING: Final = r"fail|fault|down_?time|repair|fixed|root_cause|outage"
"""Part of the name of a column that only a fault log has."""


def split_unit(name: str, units: dict[str, str], /) -> tuple[str, str | None]:
    """Return a column's name in snake case without its unit, and the unit."""
    plain = re.sub(r"([KMGT])iB\b", r"_\1ib", name.rpartition(".")[2])
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    plain = re.sub(r"[^a-z0-9]+", "_", plain.lower().replace("(s)", "")).strip("_")
    plain = re.sub(r"_(?:in|epoch|unix|utc|local)(?=_|$)", "", plain)
    base, _, last = plain.rpartition("_")
    for unit, words in units.items():
        if base and last in words.split():
            return base, unit
    return plain, None


def nested_names(name: str, /) -> dict[str, int]:
    """Return what a column may be called, each with a rank: its name, that with the outer one."""
    *outer, last = name.split(".")
    if not outer:
        return {name: 0}
    generic = last in ("count", "id", "name", "type", "value")
    names = {name: 50 if generic else 0, f"{outer[-1]}_{last}": 0}
    return names | ({outer[-1]: 1} if last in ("id", "name", "value") else {})
