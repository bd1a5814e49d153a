"""GPUs of the cluster of each group, and where the number comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.frames import read_columns
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_CHANGE: Final = re.compile(r"([+-]\d+(?:\.\d+)?) ?%")
_DEFAULT_NODE: Final = 8
_LARGEST: Final = 1e9
ALL: Final = "all"
OWN: Final = ("machines", "capacity of the trace", "largest demand")
"""Sources of the number of GPUs that are those of the log's own cluster."""


@dataclass(frozen=True)
class GroupCapacity:
    """GPUs of a group, those of each node, the source of the number, and stated slots."""

    gpus: float
    gpus_per_node: int
    source: str
    slot_s: float | None = None


def find_capacity(
    jobs: pl.DataFrame,
    /,
    *,
    gpus: float | str | Mapping[str, float] | None,
    machines: IntoFrame | None,
    capacity: Mapping[str, Any] | None,
) -> dict[str, GroupCapacity]:
    """Return the capacity of each group of jobs [group, submit_s, runtime_s, gpus].

    A number of `gpus`; else the machines of the group; else the stated capacity; else the largest
    number of GPUs that the jobs request at one time. A text such as "+10%" changes the latter
    three.
    """
    change = 0.0
    if isinstance(gpus, str):
        match = _CHANGE.fullmatch(gpus.strip())
        if match is None or float(match[1]) <= -100:
            raise DataError(f"gpus must be a number or a change such as '+10%'; it is {gpus!r}")
        change, gpus = float(match[1]) / 100, None
    of_machines = _of_machines(machines) if machines is not None else {}
    result = {}
    for (group,), of_group in jobs.group_by("group", maintain_order=True):
        name = str(group)
        count = _stated(gpus, name) or of_machines.get(name) or of_machines.get(ALL)
        count = count or _of_manifest(capacity or {}, name) or of_demand(of_group)
        if change:
            changed = math.floor(count.gpus * (1 + change) + 0.5)
            label = f"{count.source}, {change:+.0%}"
            count = GroupCapacity(changed, count.gpus_per_node, label)
        stated = (capacity or {}).get(name) or (capacity or {}).get(ALL)
        result[name] = replace(count, slot_s=stated.slot_s) if stated else count
    return result


def _stated(gpus: float | Mapping[str, float] | None, group: str) -> GroupCapacity | None:
    given = gpus.get(group) if isinstance(gpus, Mapping) else gpus
    if given is None:
        return None
    if not (is_number(given) and 0 < given < _LARGEST):
        raise DataError(
            f"gpus must be above 0 and below {_LARGEST:,.0f}; of group {group} it is {given!r}"
        )
    return GroupCapacity(float(given), _DEFAULT_NODE, "gpus")


def _of_machines(machines: IntoFrame) -> dict[str, GroupCapacity]:
    table = read_columns(machines, {"gpus": pl.Float64}, "machines")
    try:
        clusters = read_columns(machines, {"cluster": pl.String}, "machines")
        table = table.with_columns(clusters["cluster"].fill_null(ALL))
    except DataError:
        table = table.with_columns(cluster=pl.lit(ALL))
    rows = table.filter(pl.col("gpus") > 0)
    sums = rows.group_by("cluster").agg(pl.col("gpus").sum(), most=pl.col("gpus").max())
    return {
        group: GroupCapacity(total, int(most), OWN[0])
        for group, total, most in sums.select("cluster", "gpus", "most").iter_rows()
    }


def _of_manifest(capacity: Mapping[str, Any], group: str) -> GroupCapacity | None:
    stated = capacity.get(group) or capacity.get(ALL)
    if stated is None or not stated.gpus:
        return None
    return GroupCapacity(float(stated.gpus), stated.gpus_per_node, OWN[1])


def of_demand(jobs: pl.DataFrame, /) -> GroupCapacity:
    """Return the largest number of GPUs that jobs request at one time, started as recorded."""
    submit, runtime, gpus = (jobs[name].to_numpy() for name in ("submit_s", "runtime_s", "gpus"))
    start = jobs["start_s"].to_numpy() if "start_s" in jobs.columns else submit
    start = np.where(np.isnan(start), submit, start)
    times = np.concatenate([start + runtime, start])  # ends first at equal times
    steps = np.concatenate([-gpus, gpus])
    running = np.cumsum(steps[np.argsort(times, kind="stable")])
    most = max(running.max(initial=0.0), gpus.max(initial=0.0))
    return GroupCapacity(float(math.ceil(most - 1e-9)), _DEFAULT_NODE, OWN[2])
