"""Nodes that fail more often than comparable jobs on other nodes."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import gammainc, gammaincinv

from traceana.cohorts.cohort import with_adjusted
from traceana.cohorts.ends import END_CLASS, open_outcomes, with_end_class
from traceana.questions.failures.tables import NodeFailures
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats
from traceana.store.frames import Names, as_names, collect, column_names, refuse_clash
from traceana.tables.declare import declared, returns

STRATA: Final = ("gpu_type", "queue", "user")
SIGNIFICANT: Final = 0.01
"""Adjusted p below which a node is named."""
_FEWEST_ROWS: Final = 20
_FEWEST_NODES: Final = 10
_MEDIAN_OF_ABSOLUTE: Final = 0.6745  # of a standard normal variable
_MOST_NAMED: Final = 100


@returns(NodeFailures)
def node_failures(
    jobs: IntoFrame,
    /,
    *,
    node: str = "NodeList",
    strata: Names = STRATA,
    status: str = "status",
    end_reason: str = "end_reason",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Find nodes with more failures than comparable jobs on other nodes.

    Jobs are comparable if they have the same values of `strata`, both use GPUs or neither does, and
    run on a similar number of nodes (up to the next power of two). A value of the last stratum with
    fewer than 20 jobs is merged with the others. A job counts for each of its nodes. The ratio is
    indirect standardization: failures over the sum of the rates of comparable jobs on other nodes.
    The number of failures has, given the totals of the strata, the mean and variance of the
    Cochran-Mantel-Haenszel test and a scaled Poisson distribution. From ten nodes on, the variance
    is multiplied by the dispersion of the nodes, (median of abs(z) / 0.6745)^2, at least 1
    (Spiegelhalter, Statistics in Medicine 24, 2005). The node with the smallest p below 0.01
    (Holm) is taken out with its jobs, and the rest is compared again, since jobs on several nodes
    fail on all of them.

    Parameters
    ----------
    jobs
        One row per job: `node`, `status` and those of the other columns that are there; eager or
        lazy, of any supported engine. Only completed and failed jobs with a node count. The columns
        gpus and runtime_s, if there, set the GPU-hours lost.
    node
        Column of the nodes of a job, separated by commas.
    strata
        Columns within whose values jobs are compared; those that the frame lacks are left out.
    status, end_reason
        Columns of the status and of the end reason. Ends of class user limit or scheduler (see
        :func:`with_end_class`) are no failure of a node: such jobs count as jobs without failure.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per node, the smallest adjusted p first, with the column `node` and
        {columns}

    Raises
    ------
    DataError
        If a column is missing or a status is unknown.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"NodeList": ["n1"] * 50 + ["n2"] * 50 + ["n3"] * 50,
    ...      "status": ["failed"] * 25 + ["completed"] * 25 + (["failed"] * 5 + ["completed"] * 45)
    ...      * 2}
    ... )
    >>> found = traceana.node_failures(jobs)
    >>> found.select("node", "failures", "expected", "ratio").row(0)
    ('n1', 25, 5.0, 5.0)
    """
    check_confidence(confidence)
    names = column_names(jobs)
    by = [name for name in as_names(strata) if name in names]
    refuse_clash(by, NodeFailures.columns())
    named = [name for name in (*by, end_reason, "gpus", "runtime_s") if name in names]
    keys = tuple(dict.fromkeys((node, *named)))
    success, failure = ("completed",), ("failed",)
    opened, _, _ = open_outcomes(jobs, keys, status=status, success=success, failure=failure)
    rows = collect(opened).filter(
        pl.col(status).is_in([*success, *failure]), pl.col(node).is_not_null()
    )
    reasons = {"end_reason": end_reason} if end_reason in names else {}
    classes = with_end_class(rows.select(status=status, **reasons))
    hosts = pl.col(node).cast(pl.String).str.split(",")
    hours = pl.col("gpus") * pl.col("runtime_s") / 3600
    failed = classes[END_CLASS].is_in(["job", "machine"]).fill_null(value=False)
    rows = rows.select(
        *by,
        node=hosts,
        failure=failed.cast(pl.Int64),
        hours=hours if {"gpus", "runtime_s"} <= {*names} else pl.lit(None, pl.Float64),
        uses_gpus=pl.col("gpus") > 0 if "gpus" in names else pl.lit(value=True),
        size=hosts.list.len().log(2).ceil(),
    )
    kind = [*by[:-1], "uses_gpus", "size"]
    enough = pl.len().over(*kind, *by[-1:]) >= _FEWEST_ROWS
    last = pl.col(by[-1]).cast(pl.String) if by else pl.lit("")
    last = pl.when(enough).then(pl.concat_str(pl.lit("="), last)).otherwise(pl.lit("others"))
    rows = rows.with_columns(last=last).with_row_index("job")
    stratum = pl.struct(*kind, "last").rank("dense").alias("stratum")
    on_node = rows.select("job", "node", stratum, "failure", "hours").explode("node")
    parts: list[pl.DataFrame] = []
    while len(parts) < _MOST_NAMED:
        compared = _compare(on_node, confidence)
        worst = compared.filter(pl.col("pvalue_adjusted") < SIGNIFICANT).head(1)
        if worst.is_empty():
            break
        parts.append(worst)
        its = on_node.filter(pl.col("node") == worst["node"].item()).select("job")
        on_node = on_node.join(its, on="job", how="anti")
    whole = pl.concat([*parts, compared])
    whole = whole.unique("node", keep="first", maintain_order=True)
    return declared(
        whole.sort("pvalue_adjusted", "pvalue", "node", nulls_last=True), NodeFailures, by=("node",)
    )


def _compare(on_node: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Compare each node with the other nodes of its strata."""
    cells = on_node.group_by("node", "stratum").agg(
        n=pl.len().cast(pl.Int64),
        failures=pl.col("failure").sum(),
        hours=(pl.col("hours") * pl.col("failure")).sum(),
        known=pl.col("hours").count(),
    )
    # in order: sums in another order differ in their last digits
    cells = cells.sort("node", "stratum").with_columns(
        total=pl.col("n").sum().over("stratum"), failed=pl.col("failures").sum().over("stratum")
    )
    n, total, failed = (pl.col(name).cast(pl.Float64) for name in ("n", "total", "failed"))
    others = total - n
    product = n * others * failed * (total - failed)
    comparable = cells.filter(others > 0).with_columns(
        expected=n * (failed - pl.col("failures")) / others,
        mean=n * failed / total,
        variance=product / (total**2 * pl.max_horizontal(total - 1, 1)),
    )
    summed = ("n", "failures", "expected", "mean", "variance", "hours", "known")
    table = comparable.group_by("node").agg(pl.col(*summed).sum()).sort("node")
    table = with_adjusted(table.with_columns(**_test(table, confidence)).fill_nan(None))
    excess = 1 - pl.col("expected") / pl.col("failures")
    return (
        table.with_columns(
            ratio=pl.when(pl.col("expected") > 0).then(pl.col("failures") / pl.col("expected")),
            lost_gpu_hours=pl.when(pl.col("known") > 0).then(
                pl.when(pl.col("failures") > 0).then(pl.col("hours") * excess.clip(0)).otherwise(0)
            ),
            note=pl.when(pl.col("variance") == 0).then(pl.lit("no comparable job failed")),
        )
        .select("node", *NodeFailures.columns())
        .sort("pvalue_adjusted", "node", nulls_last=True)
    )


def _test(table: pl.DataFrame, confidence: float) -> dict[str, Floats]:
    """Return p and the interval of the ratio; NaN where no job of the strata failed."""
    columns = ("failures", "expected", "mean", "variance")
    failures, expected, mean, variance = (table[c].to_numpy().astype(float) for c in columns)
    testable = variance > 0
    z = (failures - mean)[testable] / np.sqrt(variance[testable])
    dispersion = 1.0
    if testable.sum() >= _FEWEST_NODES:
        dispersion = max(1.0, float(np.median(np.abs(z)) / _MEDIAN_OF_ABSOLUTE) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = dispersion * variance / mean
        pvalue = np.where(failures > 0, gammainc(failures / scale, mean / scale), 1.0)
        tail = (1 - confidence) / 2
        low = np.where(failures > 0, gammaincinv(failures / scale, tail), 0.0)
        high = gammaincinv(failures / scale + 1, 1 - tail)
        missing = np.where(testable, 1.0, np.nan)
        present = np.where(expected > 0, missing, np.nan)
        return {
            "pvalue": pvalue * missing,
            "ci_low": low * scale / expected * present,
            "ci_high": high * scale / expected * present,
        }
