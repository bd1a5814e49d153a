"""GPUs of the cluster of each group, throughput of jobs, and how well recorded waits are met."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.simulate.frames import read_columns
from traceana.stats.arguments import is_number
from traceana.store.frames import column_names
from traceana.tables.formatting import duration, listed

_CHANGE: Final = re.compile(r"([+-]\d+(?:\.\d+)?) ?%")
_DEFAULT_NODE: Final = 8
_LARGEST: Final = 1e9
ALL: Final = "all"
OWN: Final = ("machines", "capacity of the trace", "nodes seen", "largest demand")
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
    """Return the capacity of each group of jobs [group, submit_s, runtime_s, gpus]."""
    change = _read_change(gpus) if isinstance(gpus, str) else 0.0
    of_machines = _of_machines(machines) if machines is not None else {}
    of_manifest, result = capacity or {}, {}
    for (group,), of_group in jobs.group_by("group", maintain_order=True):
        name = str(group)
        stated = of_manifest.get(name) or of_manifest.get(ALL)
        count = _stated(gpus, name) or of_machines.get(name) or of_machines.get(ALL)
        if count is None and stated and stated.gpus:
            source = getattr(stated, "source", OWN[1])
            count = GroupCapacity(float(stated.gpus), stated.gpus_per_node, source)
        count = count or of_demand(of_group)
        if change:
            changed = math.floor(count.gpus * (1 + change) + 0.5)
            label = f"{count.source}, {change:+.0%}"
            count = GroupCapacity(changed, count.gpus_per_node, label)
        result[name] = replace(count, slot_s=stated.slot_s) if stated else count
    return result


def _read_change(gpus: str) -> float:
    match = _CHANGE.fullmatch(gpus.strip())
    if match is None or float(match[1]) <= -100:
        raise DataError(f"gpus must be a number or a change such as '+10%'; it is {gpus!r}")
    return float(match[1]) / 100


def _stated(gpus: float | str | Mapping[str, float] | None, group: str) -> GroupCapacity | None:
    given = gpus.get(group) if isinstance(gpus, Mapping) else gpus
    if given is None or isinstance(given, str):
        return None
    if not (is_number(given) and 0 < given < _LARGEST):
        raise DataError(
            f"gpus must be above 0 and below {_LARGEST:,.0f}; of group {group} it is {given!r}"
        )
    return GroupCapacity(float(given), _DEFAULT_NODE, "as stated")


def _of_machines(machines: IntoFrame) -> dict[str, GroupCapacity]:
    kinds: dict[str, type[pl.DataType]] = {"gpus": pl.Float64}
    group = pl.lit(ALL)
    if "cluster" in column_names(machines):
        kinds["cluster"], group = pl.String, pl.col("cluster").fill_null(ALL)
    rows = read_columns(machines, kinds, "machines").filter(pl.col("gpus") > 0)
    sums = rows.group_by(group=group).agg(pl.col("gpus").sum(), most=pl.col("gpus").max())
    return {name: GroupCapacity(total, int(most), OWN[0]) for name, total, most in sums.iter_rows()}


def of_demand(jobs: pl.DataFrame, /) -> GroupCapacity:
    """Return the largest number of GPUs that jobs request at one time, started as recorded."""
    submit, runtime, gpus = (jobs[name].to_numpy() for name in ("submit_s", "runtime_s", "gpus"))
    start = jobs["start_s"].to_numpy() if "start_s" in jobs.columns else submit
    start = np.where(np.isnan(start), submit, start)
    times = np.concatenate([start + runtime, start])  # ends first at equal times
    steps = np.concatenate([-gpus, gpus])
    running = np.cumsum(steps[np.argsort(times, kind="stable")])
    most = max(running.max(initial=0.0), gpus.max(initial=0.0))
    return GroupCapacity(float(math.ceil(most - 1e-9)), _DEFAULT_NODE, OWN[-1])


_POLICIES: Final = ("fifo", "easy")
_FACTOR: Final = 2.0
_CLOSE_S: Final = 60.0
_CLOSE: Final = "within a minute or a factor of two of the recorded one"
_NO_STARTS: Final = (
    "Calibration: the log has no start times, so simulated waits cannot be compared with its own."
)


def calibrate(groups: pl.DataFrame, /) -> str:
    """Return sentences that compare the median waits of FIFO and EASY with those of the log."""
    simulated = groups.filter(
        pl.col("policy").is_in(_POLICIES), pl.col("capacity").is_in(OWN)
    ).drop_nulls("wait_s_median")
    if simulated.is_empty():
        return ""
    rows = simulated.drop_nulls("wait_s_recorded")
    if rows.is_empty():
        return _NO_STARTS
    if rows["group"].n_unique() == 1:
        of_policies = rows.select("policy", "wait_s_median").rows()
        medians = (f"{duration(median)} under {policy}" for policy, median in of_policies)
        return (
            f"Calibration: on the log's own cluster the median wait is {listed(medians)}; "
            f"{duration(rows['wait_s_recorded'][0])} recorded."
        )
    ours, theirs = pl.col("wait_s_median"), pl.col("wait_s_recorded")
    factor = ours.is_between(theirs / _FACTOR, theirs * _FACTOR)
    close = rows.group_by("policy", maintain_order=True).agg(
        n=((ours - theirs).abs().le(_CLOSE_S) | factor).sum(), all=pl.len()
    )
    counts = (f"{n} of {total} groups under {policy}" for policy, n, total in close.rows())
    return (
        f"Calibration: on the log's own clusters the median wait is {_CLOSE} in {listed(counts)}."
    )


_RATES: Final[dict[str, type[pl.DataType]]] = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "gpus": pl.Int64,
    "iterations_per_s": pl.Float64,
}
_SIZE: Final = "global_batch_size"


@dataclass(frozen=True)
class Profile:
    """Iterations per second of one model and batch size on increasing numbers of GPUs."""

    gpus: tuple[int, ...]
    rates: tuple[float, ...]

    def rate(self, gpus: int, /) -> float:
        """Return the iterations per second on a profiled number of GPUs."""
        try:
            return self.rates[self.gpus.index(gpus)]
        except ValueError:
            counts = ", ".join(map(str, self.gpus))
            raise DataError(
                f"a policy gave {gpus:g} GPUs to a job; its profile has {counts}"
            ) from None

    def below(self, most: int, /) -> Profile:
        """Return the part of the profile up to a number of GPUs."""
        n = bisect_right(self.gpus, most)
        return self if n == len(self.gpus) else Profile(self.gpus[:n], self.rates[:n])

    def rising(self) -> Profile:
        """Return the part of the profile on which each further step makes the job faster."""
        n = 1
        while n < len(self.rates) and self.rates[n] > self.rates[n - 1]:
            n += 1
        return Profile(self.gpus[:n], self.rates[:n])


Profiles = dict[tuple[str, int], Profile]


def read_profiles(profiles: IntoFrame | Path | str, /) -> Profiles:
    """Return the profiles by model and batch size, of a frame or of a folder with a CSV per model.

    Rates that are missing or 0 are left out, and so are more GPUs than samples in a batch.
    """
    frame = _read_folder(Path(profiles)) if isinstance(profiles, (str, Path)) else profiles
    rows = read_columns(frame, _RATES, "profiles").drop_nulls()
    rows = rows.filter(pl.col("iterations_per_s") > 0, pl.col("gpus") <= pl.col("batch_size"))
    if rows.select("model", "batch_size", "gpus").is_duplicated().any():
        raise DataError("profiles: (model, batch_size, gpus) must be unique, and one occurs twice")
    if rows.is_empty():
        raise DataError("profiles: no row has a model, a batch size, GPUs and a rate above 0")
    table = rows.sort("gpus").group_by("model", "batch_size", maintain_order=True)
    return {
        (str(model), int(str(batch))): Profile(
            tuple(of_pair["gpus"]), tuple(of_pair["iterations_per_s"])
        )
        for (model, batch), of_pair in table
    }


def _read_folder(folder: Path) -> pl.DataFrame:
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise DataError(
            f"{folder}: there is no CSV file; --profiles names a folder with one per model"
        )
    tables = []
    for file in files:
        table = pl.read_csv(file, infer_schema=False)
        counts = [name for name in table.columns if name.isdecimal()]
        if _SIZE not in table.columns or not counts:
            raise DataError(f"{file}: the columns must be {_SIZE} and numbers of GPUs")
        rates = table.unpivot(counts, index=_SIZE, variable_name="gpus", value_name="rate")
        tables.append(
            rates.select(
                pl.lit(file.stem).alias("model"),
                pl.col(_SIZE).cast(pl.Int64, strict=False).alias("batch_size"),
                pl.col("gpus").cast(pl.Int64),
                pl.col("rate").cast(pl.Float64, strict=False).alias("iterations_per_s"),
            )
        )
    return pl.concat(tables).with_columns(pl.col("iterations_per_s").fill_nan(None))


def implied_rates(plans: pl.DataFrame, /) -> pl.DataFrame:
    """Return the rates that plans imply: iterations = floor(rate * runtime) for each job.

    The rate is the middle of the bounds where those of all jobs overlap, else the median.
    """
    ratio, low, high = (
        pl.col("iterations") / pl.col("runtime_s"),
        pl.col("lowest"),
        pl.col("highest"),
    )
    return (
        plans.drop_nulls(["model", "batch_size", "iterations"])
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .group_by("model", "batch_size", "gpus")
        .agg(
            n=pl.len().cast(pl.Int64),
            median=ratio.median(),
            spread=(ratio.max() - ratio.min()) / ratio.median(),
            lowest=ratio.max(),
            highest=((pl.col("iterations") + 1) / pl.col("runtime_s")).min(),
        )
        .sort("model", "batch_size", "gpus")
        .with_columns(is_one_rate=low < high)
        .with_columns(
            iterations_per_s=pl.when("is_one_rate").then((low + high) / 2).otherwise("median")
        )
    )
