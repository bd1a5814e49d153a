"""Nodes on which completed jobs run longer than comparable jobs on other nodes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from scipy.special import stdtr, stdtrit

from traceana.cohorts.ends import without_numbers
from traceana.questions.failures.nodes import SIGNIFICANT, STRATA
from traceana.stats.time_blocks import DAY_S

_PRIOR: Final = 5
"""Jobs by which the variance of a stratum is shrunk to that of all."""
_FEWEST_CELLS: Final = 3
_LONGER: Final = 1.1
_APART: Final = 3.0
"""Standard errors between two parts of a node's jobs that are stated apart."""
_UNITS: Final = ("stratum", "day")


class SlowNode(NamedTuple):
    """A node and the ratio of the runtimes on it to those of comparable jobs on other nodes."""

    node: str
    n: int
    ratio: float
    ci_low: float
    ci_high: float
    pvalue_adjusted: float
    lost_gpu_hours: float
    of_name: tuple[str, float, float] | None
    """Name of jobs that alone are slower, their ratio, and that of the others."""
    of_time: tuple[float, float] | None
    """Ratio in the first and in the second half of the node's jobs, if these differ."""


def slow_nodes(jobs: pl.DataFrame, node: str, /) -> list[SlowNode]:
    """Find nodes on which completed jobs run longer, the smallest p first.

    Jobs are comparable within the strata of :func:`node_failures` and GPUs. The ratio is that of
    geometric means, strata weighted by their precision. Its variance is that between strata or
    between days, the larger, with t of the effective number of cells (Kish). The node with the
    smallest p below 0.01 (Bonferroni) and a ratio of 1.1 or more is taken out with its jobs, since
    jobs on several nodes are slow on all of them, and the rest is compared again.
    """
    if not {"start_s", "runtime_s"} <= {*jobs.columns}:
        return []
    rows, found = _rows(jobs, node), list[SlowNode]()
    while True:
        rows = _scored(rows)
        tested = _estimates(rows)
        worst = tested.filter(pl.col("pvalue") * tested.height < SIGNIFICANT).head(1)
        if worst.is_empty() or worst["effect"].item() < np.log(_LONGER):
            return found
        row = worst.row(0, named=True)
        part = rows.filter(node=row["node"])
        effect, half = row["effect"], float(stdtrit(row["cells"] - 1, 0.975)) * row["error"]
        ratio, low, high = np.exp([effect, effect - half, effect + half]).tolist()
        p = row["pvalue"] * tested.height
        lost = float((part["gpu_h"] * (1 - 1 / ratio)).sum())
        parts = _by_name(part), _by_time(part)
        found.append(SlowNode(row["node"], part.height, ratio, low, high, p, lost, *parts))
        rows = rows.filter(~pl.col("job").is_in(part["job"].implode()))


def _rows(jobs: pl.DataFrame, node: str) -> pl.DataFrame:
    by = [name for name in (*STRATA, "gpus") if name in jobs.columns]
    hosts = pl.col(node).cast(pl.String).str.split(",")
    gpus = pl.col("gpus") if "gpus" in jobs.columns else pl.lit(None, pl.Float64)
    names = pl.lit(None, pl.String)
    if "job_name" in by:
        names = without_numbers(pl.col("job_name").cast(pl.String))[0]
        jobs = jobs.with_columns(job_name=names)
        names = pl.col("job_name")
    ran = pl.col("runtime_s") > 0
    done = jobs.filter(pl.col("status").cast(pl.String) == "completed", ran, hosts.is_not_null())
    rows = done.with_row_index("job").select(
        "job",
        "start_s",
        node=hosts,
        stratum=pl.struct(*by, hosts.list.len().alias("n_nodes")).rank("dense"),
        name=names,
        log_s=pl.col("runtime_s").log(),
        gpu_h=(gpus * pl.col("runtime_s") / 3600).fill_null(0),
        day=pl.col("start_s") // DAY_S,
    )
    return rows.sort("start_s", "job").explode("node")


def _scored(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the excess of each job, and that of a ratio of e, by the precision of its stratum."""
    n, excess = pl.len().over("stratum"), pl.col("log_s") - pl.col("log_s").mean().over("stratum")
    rows = rows.with_columns(excess=excess, n=n, on=pl.len().over("stratum", "node"))
    freedom = float((1 - 1 / rows["n"]).sum() or 0)
    whole = float((rows["excess"] ** 2).sum()) / freedom if freedom else 0.0
    squares = (pl.col("excess") ** 2).sum().over("stratum") + _PRIOR * whole
    precision = (pl.col("n") - 1 + _PRIOR) / squares
    rows = rows.filter(pl.col("on") < pl.col("n"), squares > 0).with_columns(weight=precision)
    unit = (1 - pl.col("on") / pl.col("n")) * precision
    return rows.with_columns(score=pl.col("excess") * precision, unit=unit)


def _estimates(rows: pl.DataFrame) -> pl.DataFrame:
    """Return [node, effect, error, cells, pvalue]: the log of the ratio and its standard error."""
    total, weight = pl.col("score").sum(), pl.col("weight").sum()
    nodes = rows.group_by("node").agg(total=total, whole=weight, unit=pl.col("unit").sum())
    for name in _UNITS:
        cells = rows.group_by("node", name).agg(total, weight).join(nodes, on="node")
        rest = pl.col("score") - pl.col("weight") * pl.col("total") / pl.col("whole")
        variance = (rest**2).sum() * pl.len() / (pl.len() - 1).clip(1)
        effective = weight**2 / (pl.col("weight") ** 2).sum()
        of_unit = {f"variance_{name}": variance, f"cells_{name}": effective}
        nodes = nodes.join(cells.group_by("node").agg(**of_unit), on="node")
    variance, least = (
        reduced(f"{what}_{name}" for name in _UNITS)
        for what, reduced in (("variance", pl.max_horizontal), ("cells", pl.min_horizontal))
    )
    nodes = nodes.select(
        "node",
        effect=pl.col("total") / pl.col("unit"),
        error=variance.sqrt() / pl.col("unit"),
        cells=least,
    ).filter(pl.col("cells") >= _FEWEST_CELLS, pl.col("error") > 0)
    p = stdtr((nodes["cells"] - 1).to_numpy(), (-nodes["effect"] / nodes["error"]).to_numpy())
    return nodes.with_columns(pvalue=pl.Series(p)).sort("pvalue", "node")


def _apart(one: pl.DataFrame, other: pl.DataFrame) -> tuple[float, float] | None:
    """Return the ratios of two parts of a node's jobs if they differ by three standard errors."""
    ratios, errors = [], []
    for part in (one, other):
        days = part.group_by("day").agg(pl.col("score", "unit").sum())
        unit = float(days["unit"].sum() or 0)
        if days.height < _FEWEST_CELLS or not unit:
            return None
        ratios.append(float(days["score"].sum()) / unit)
        rest = days["score"] - days["unit"] * ratios[-1]
        errors.append(float((rest**2).sum()) / unit**2)
    if abs(ratios[0] - ratios[1]) < _APART * np.sqrt(sum(errors)):
        return None
    first, second = np.exp(ratios).tolist()
    return first, second


def _by_name(part: pl.DataFrame) -> tuple[str, float, float] | None:
    """Return the name with most of the excess, if its jobs alone are slower."""
    most: Any = part.group_by("name").agg(pl.col("score").sum()).drop_nulls("name")
    most = most.sort("score", "name", descending=[True, False])["name"].first()
    of_name = pl.col("name") == most
    ratios = _apart(part.filter(of_name), part.filter(~of_name))
    return None if ratios is None or ratios[0] < ratios[1] else (str(most), *ratios)


def _by_time(part: pl.DataFrame) -> tuple[float, float] | None:
    half = part.height // 2
    return _apart(part.head(half), part.tail(part.height - half))
