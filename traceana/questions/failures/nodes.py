"""Nodes that fail or are slow, jobs that fail again and again, and failing positions of arrays."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import gammainc, gammaincinv, ndtr, stdtr, stdtrit, xlogy

from traceana.cohorts.cohort import with_adjusted
from traceana.cohorts.ends import (
    END_CLASS,
    OUTCOMES,
    open_outcomes,
    with_end_class,
    without_numbers,
)
from traceana.questions.failures.tables import NodeFailures
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats
from traceana.stats.time_blocks import DAY_S
from traceana.store import Trace
from traceana.store.frames import (
    Names,
    as_names,
    collect,
    column_names,
    refuse_clash,
    with_seconds,
)
from traceana.tables.declare import declared, returns

STRATA: Final = ("cluster", "gpu_type", "queue", "user", "job_name")
SIGNIFICANT: Final = 0.01  # adjusted p below which a node is named
_FEWEST_ROWS: Final = 20
_WITHOUT: Final = 0.2  # factor of p without the stratum of the largest excess
_TOGETHER_S: Final = 300.0
"""Time after a job that a crash of a node ended in which others are ended by the same."""
_MOST_NAMED: Final = 100
_ROUNDING: Final = 1e-9


@returns(NodeFailures)
def node_failures(
    jobs: IntoFrame,
    /,
    *,
    node: str = "NodeList",
    strata: Names = STRATA,
    status: str = "status",
    end_reason: str = "end_reason",
    end: str = "end_s",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Find nodes with more failures than comparable jobs on other nodes.

    Jobs are comparable if they have the same values of `strata`, both use GPUs or neither does, and
    run on a similar number of nodes (up to the next power of two). A value of the last stratum with
    fewer than 20 jobs is merged with the others; numbers at the end of a job_name are left out.
    Jobs that all fail, wherever they run, are not compared. A job counts for each of its nodes. Of
    the jobs that one crash of a node ended, each at most 5 min after the one before, the first one
    counts. The ratio is indirect standardization: failures over the sum of the rates of comparable
    jobs on other nodes.
    The number of failures has, given the totals of the strata, the mean and variance of the
    Cochran-Mantel-Haenszel test and a scaled Poisson distribution. The scale is the design effect
    of the strata, at least 1: the squared residuals of the node's strata over those of its jobs, at
    the rate of the node. p is at least a fifth of that without the stratum of the largest excess,
    so that the failures of one user, or one array, do not name a node. Of 1,800 simulated logs
    without a bad node, in most of which users fail in bursts on one node, 19 name one; of 320 in
    which users have a favorite node and another failure rate each week, 10. Of 20 nodes of which
    1 or 4 fail by 14 percentage points more, 0.8 and 2.6 are named (4,000 jobs of 20 users, 8 %
    fail). The node with the smallest p below 0.01 (Holm) is taken out with its jobs, and the rest
    is compared again, since jobs on several nodes fail on all of them.

    Parameters
    ----------
    jobs
        One row per job: `node`, `status` and those of the other columns that are there; eager or
        lazy, of any supported engine. Only completed and failed jobs with a node count. The columns
        gpus and runtime_s, if there, set the GPU-hours lost.
    node, strata
        Columns of the nodes of a job, separated by commas, and those within whose values jobs are
        compared, of which the frame may lack some.
    status, end_reason, end
        Columns of the status, of the end reason and, if there, of the end (seconds or datetimes).
        Ends of class user limit or scheduler (see :func:`with_end_class`) are no failure of a node:
        such jobs count as jobs without failure.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per node, the smallest adjusted p first, with the column `node` and
        {columns}

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
    named = [name for name in (*by, end_reason, end, "gpus", "runtime_s") if name in names]
    keys = tuple(dict.fromkeys((node, *named)))
    success, failure = ("completed",), ("failed",)
    opened, _, _ = open_outcomes(jobs, keys, status=status, success=success, failure=failure)
    for time in {end, "runtime_s"} & {*names}:
        opened = with_seconds(opened, time)
    rows = collect(opened).filter(
        pl.col(status).is_in([*success, *failure]), pl.col(node).is_not_null()
    )
    reasons = {"end_reason": end_reason} if end_reason in names else {}
    classes = with_end_class(rows.select(status=status, **reasons))
    hosts = pl.col(node).cast(pl.String).str.split(",")
    hours = pl.col("gpus") * pl.col("runtime_s") / 3600
    failed = classes[END_CLASS].is_in(["job", "machine"]).fill_null(value=False)
    texts = {name: pl.col(name).cast(pl.String) for name in by}
    if "job_name" in by:
        texts["job_name"] = without_numbers(texts["job_name"])[0]
    rows = rows.select(
        **texts,
        node=hosts,
        failure=failed.cast(pl.Int64),
        hours=hours if {"gpus", "runtime_s"} <= {*names} else pl.lit(None, pl.Float64),
        end=pl.col(end) if end in names else pl.lit(None, pl.Float64),
        crashed=classes[END_CLASS] == "machine",
        uses_gpus=pl.col("gpus") > 0 if "gpus" in names else pl.lit(value=True),
        size=hosts.list.len().log(2).ceil(),
    )
    kind = [*by[:-1], "uses_gpus", "size"]
    enough = pl.len().over(*kind, *by[-1:]) >= _FEWEST_ROWS
    last = pl.col(by[-1]) if by else pl.lit("")
    last = pl.when(enough).then(pl.concat_str(pl.lit("="), last)).otherwise(pl.lit("others"))
    rows = rows.with_columns(last=last).with_row_index("job")
    stratum = pl.struct(*kind, "last").rank("dense").alias("stratum")
    on_node = rows.select("job", "node", "end", "crashed", stratum, "failure", "hours")
    on_node = on_node.explode("node").sort("end", "job")
    crashes = on_node.filter("crashed")
    again = crashes.filter(pl.col("end").diff().over("node") <= _TOGETHER_S)
    on_node = on_node.join(again, on=["job", "node"], how="anti")
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
    comparable = cells.filter(others > 0, failed < total).with_columns(
        expected=n * (failed - pl.col("failures")) / others,
        mean=n * failed / total,
        variance=product / (total**2 * pl.max_horizontal(total - 1, 1)),
    )
    own = pl.col("failures").sum().over("node") / pl.col("mean").sum().over("node")
    rate = (own * failed / total).fill_nan(0).clip(0, 1)
    excess = pl.col("failures") - pl.col("mean")
    is_rest = excess.rank("ordinal", descending=True).over("node") > 1
    comparable = comparable.with_columns(
        of_strata=(pl.col("failures") - n * rate) ** 2,
        of_jobs=pl.col("failures") * (1 - 2 * rate) + n * rate**2,
        rest=pl.col("failures") * is_rest,
        rest_mean=pl.col("mean") * is_rest,
    )
    summed = ["n", "failures", "expected", "mean", "variance", "hours", "known"]
    summed += ["of_strata", "of_jobs", "rest", "rest_mean"]
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
    columns = ("failures", "expected", "mean", "variance", "rest", "rest_mean")
    of = {name: table[name].to_numpy().astype(float) for name in columns}
    failures, expected, mean, variance = (of[name] for name in columns[:4])
    testable = variance > 0

    def pvalue(number: Floats, usual: Floats) -> Floats:
        return np.where(number > 0, gammainc(number / scale, usual / scale), 1.0)

    with np.errstate(divide="ignore", invalid="ignore"):
        # rounding leaves residuals of nothing over nothing
        of_strata = np.where(table["of_jobs"] > _ROUNDING, table["of_strata"], 0.0)
        dispersion = np.fmax(of_strata / table["of_jobs"].to_numpy(), 1.0)
        scale = dispersion * variance / mean
        without = _WITHOUT * pvalue(of["rest"], of["rest_mean"])
        p = np.fmax(pvalue(failures, mean), np.where(of["rest_mean"] > 0, without, 0.0))
        tail = (1 - confidence) / 2
        low = np.where(failures > 0, gammaincinv(failures / scale, tail), 0.0)
        high = gammaincinv(failures / scale + 1, 1 - tail)
        missing = np.where(testable, 1.0, np.nan)
        present = np.where(expected > 0, missing, np.nan)
        return {
            "pvalue": p * missing,
            "ci_low": low * scale / expected * present,
            "ci_high": high * scale / expected * present,
        }


_PRIOR: Final = 5  # jobs by which the variance of a stratum is shrunk to that of all
_FEWEST_CELLS: Final = 3
_LONGER: Final = 1.1
_APART: Final = 3.0
"""Standard errors between jobs of a name and others from which they are stated apart."""
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
        found.append(SlowNode(row["node"], part.height, ratio, low, high, p, lost, _by_name(part)))
        rows = rows.filter(~pl.col("job").is_in(part["job"].implode()))


def _rows(jobs: pl.DataFrame, node: str) -> pl.DataFrame:
    by = [name for name in (*STRATA, "gpus") if name in jobs.columns]
    hosts = pl.col(node).cast(pl.String).str.split(",")
    gpus = pl.col("gpus") if "gpus" in jobs.columns else pl.lit(None, pl.Float64)
    names = pl.lit(None, pl.String)
    if "job_name" in by:
        jobs = jobs.with_columns(without_numbers(pl.col("job_name").cast(pl.String))[0])
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


def _by_name(part: pl.DataFrame) -> tuple[str, float, float] | None:
    """Return the name with most of the excess, if its jobs alone are slower."""
    most: Any = part.group_by("name").agg(pl.col("score").sum()).drop_nulls("name")
    most = most.sort("score", "name", descending=[True, False])["name"].first()
    ratios, errors = [], 0.0
    for jobs in (part.filter(name=most), part.filter(pl.col("name") != most)):
        days = jobs.group_by("day").agg(pl.col("score", "unit").sum())
        unit = float(days["unit"].sum() or 0)
        if days.height < _FEWEST_CELLS or not unit:
            return None
        ratios.append(float(days["score"].sum()) / unit)
        errors += float(((days["score"] - days["unit"] * ratios[-1]) ** 2).sum()) / unit**2
    if ratios[0] - ratios[1] < _APART * np.sqrt(errors):
        return None
    return str(most), float(np.exp(ratios[0])), float(np.exp(ratios[1]))


AGAIN_S: Final = 3600.0
"""Longest time from a failure to the submission of the next try, of a short series."""
FIRST_S: Final = 60.0  # runtime below which a failure is a crash at start
_CHANCE: Final = 0.01
_FEWEST: Final = 20
_MOSTLY: Final = 0.5
_MANY: Final = 0.05
_TIMES: Final = 2
"""Crashes of a named group: so many, this fraction of its failures and that of all failures, and
so many times the fraction of its completed jobs that end as early."""


class Repeats(NamedTuple):
    """Series of failures by user and job name, crashes at start by user or name, all failures."""

    series: pl.DataFrame
    crashes: pl.DataFrame
    names: pl.DataFrame
    """Names of jobs by failures, the most first: [job_name, failed, ended, hours, reason, with]."""
    failures: int
    ended: int
    tries: int
    unit: str  # GPU, or CPU where no job has GPUs
    hours: float


def fewest_tries(jobs: int, /, *, soon: bool = True) -> int:
    """Return the length k from which a series of failures is rare by chance.

    If half of n jobs fail, and half follow the end of the one before soon, n / 2 * 4^(1 - k) series
    have k failures, at most 0.01; n / 2 * 2^(1 - k) if they may follow later.
    """
    return 1 + math.ceil(math.log(max(jobs, 1) / 2 / _CHANCE, 4 if soon else 2))


def find_repeats(trace: Trace, /) -> Repeats:
    """Find jobs that failed again and again, and groups whose failures are crashes at start."""
    # time limits and faults of machines are no failures of a job here: it goes on after them
    stated = {*trace.manifest.tables["jobs"].columns}
    users = [nw.col(name).cast(nw.String) for name in ("user", "account") if name in stated]
    runtime, status = nw.col("runtime_s"), nw.col("status").cast(nw.String)
    reason = nw.col("end_reason").cast(nw.String) if "end_reason" in stated else status
    limit = reason.str.contains("(?i)^(time|deadline)").fill_null(value=False)
    by_machine = nw.col(END_CLASS).is_in(["machine"]).fill_null(value=False)
    name = nw.col("job_name").cast(nw.String) if "job_name" in stated else nw.lit(None, nw.String)
    jobs = nw.from_native(with_end_class(trace.rows("jobs").to_native()))
    rows = collect(
        jobs.filter(status.is_in([*OUTCOMES["success"], *OUTCOMES["failure"]])).select(
            *("submit_s", "end_s", "runtime_s"),
            user=nw.coalesce(*users) if users else nw.lit(None, nw.String),
            job_name=name,
            reason=reason,
            failed=(failed := status.is_in([*OUTCOMES["failure"]])),
            own=failed & ~limit & ~by_machine,
            **{
                unit: (nw.col(column) if column in stated else 0) * runtime / 3600
                for unit, column in (("GPU", "gpus"), ("CPU", "cpus"))
            },
        )
    )
    unit = "GPU" if rows["GPU"].sum() else "CPU"
    rows = rows.rename({unit: "hours"})
    rows = rows.with_columns(job_name=without_numbers(pl.col("job_name"))[0])
    failures, tries = int(rows["failed"].sum()), fewest_tries(rows.height)
    crashes = [_crashes(rows, name, failures) for name in ("user", "job_name")]
    hours = float(rows["hours"].sum() or 0)
    series, ended = _series(rows, tries), rows.height
    return Repeats(series, pl.concat(crashes), _names(rows), failures, ended, tries, unit, hours)


def _names(rows: pl.DataFrame) -> pl.DataFrame:
    reason = pl.col("reason").filter("failed").drop_nulls().mode().sort().first()
    return (
        rows.drop_nulls("job_name")
        .group_by("job_name")
        .agg(
            pl.col("hours").filter("failed").sum(),
            reason=reason,
            of_reason=(pl.col("reason").filter("failed") == reason).sum(),
            failed=pl.col("failed").sum(),
            ended=pl.len(),
        )
        .sort("failed", "job_name", descending=[True, False])
    )


def _series(rows: pl.DataFrame, tries: int) -> pl.DataFrame:
    """Return jobs by user and name whose failures followed each other, the most costly first.

    Either soon, or without a job that completed in between: then a series is longer.
    """
    keys = ["user", "job_name"]
    rows = rows.drop_nulls(["job_name", "submit_s"]).sort("submit_s", maintain_order=True)
    of_late = fewest_tries(rows.height, soon=False)
    # a window over a million users takes minutes, and most have too few failures for a series
    rows = rows.filter(pl.col("own").sum().over(keys) >= min(tries, of_late))
    gap = pl.col("submit_s") - pl.col("end_s").shift().over(keys)
    later = pl.col("own").shift().over(keys) & (gap >= 0)
    places = {"soon": later & (gap <= AGAIN_S), "later": later & pl.col("own")}
    rows = rows.with_columns(
        (~goes_on.fill_null(value=False)).cum_sum().over(keys).alias(name)
        for name, goes_on in places.items()
    )
    length = {name: pl.len().over(*keys, name) for name in places}
    return (
        rows.filter("own")
        .filter((length["soon"] >= tries) | (length["later"] >= of_late))
        .group_by(keys)
        .agg(
            pl.col("hours").sum(),
            pl.col("runtime_s").median(),
            failures=pl.len(),
            first_s=pl.col("submit_s").min(),
            last_s=pl.col("end_s").max(),
        )
        .sort("hours", "failures", "first_s", descending=[True, True, False])
    )


def _crashes(rows: pl.DataFrame, by: str, failures: int) -> pl.DataFrame:
    """Return the groups most of whose failures, and many of all, are crashes at start."""
    early, crashed = pl.col("runtime_s") < FIRST_S, pl.col("own") & (pl.col("runtime_s") < FIRST_S)
    completed = early.filter(~pl.col("failed"))
    return (
        rows.drop_nulls([by, "runtime_s"])
        .group_by(pl.lit(by).alias("by"), pl.col(by).alias("group"))
        .agg(
            pl.col("hours").filter(crashed).sum(),
            crashes=crashed.sum(),
            own=pl.col("own").sum(),
            ended=pl.len(),
            usual=completed.mean().fill_null(0.0),
            job_name_most=pl.col("job_name").filter(crashed).drop_nulls().mode().sort().first(),
        )
        .filter(
            pl.col("crashes") >= max(_FEWEST, _MANY * failures),
            pl.col("crashes") >= _MOSTLY * pl.col("own"),
            pl.col("crashes") > _TIMES * pl.col("usual") * pl.col("ended"),
        )
        .sort("crashes", "group", descending=[True, False])
    )


_FEWEST_ARRAYS: Final = 3
_ALPHA: Final = 0.001
_NEEDED: Final = ("array_id", "status", "job_name", "user")


def failing_positions(trace: Trace, /) -> list[dict[str, Any]]:
    """Find names whose array tasks fail more often from, or up to, a position in the array.

    Of each user and name with three arrays or more. Within an array, failed tasks are ranked by
    position among the ended ones (Wilcoxon); the sum has the variance of a random order of each
    array and, with t, that between arrays. The larger p, two-sided and times the number of names,
    is below 0.001. The position divides the tasks of all arrays with the largest likelihood.
    """
    if not trace.has("jobs", _NEEDED):
        return []
    status = pl.col("status").cast(pl.String)
    rows = with_end_class(trace.scan("jobs")).filter(status.is_in(["completed", "failed"]))
    failed = status.is_in([*OUTCOMES["failure"]]) & (pl.col(END_CLASS) == "job").fill_null(
        value=True
    )
    table = rows.select(
        "array_id",
        "user",
        name=without_numbers(pl.col("job_name").cast(pl.String))[0],
        at=pl.col("job_id").str.extract(r"_(\d+)(?:@|$)").cast(pl.Float64),
        failed=failed.fill_null(value=False),
    ).drop_nulls()
    names = table.collect().partition_by("user", "name", maintain_order=True)
    tested = [(part, p) for part in names if (p := _pvalue(part)) is not None]
    found = [_divided(part) for part, p in tested if p * len(tested) < _ALPHA]
    return sorted(found, key=lambda row: (-row["failures"], row["name"]))


def _pvalue(part: pl.DataFrame) -> float | None:
    rank, failed = pl.col("at").rank(), pl.col("failed")
    n, n_failed = pl.len(), failed.sum()
    arrays = part.group_by("array_id").agg(
        excess=rank.filter(failed).sum() - n_failed * (n + 1) / 2,
        variance=n_failed * (n - n_failed) * (n + 1) / 12,
    )
    mixed = arrays.filter(pl.col("variance") > 0)
    excess, variance = mixed.select("excess", "variance").to_numpy().T
    if len(excess) < _FEWEST_ARRAYS:
        return None
    between = np.sqrt(len(excess)) * excess.std(ddof=1)
    of_arrays = 2 * stdtr(len(excess) - 1, -abs(excess.sum()) / between) if between else 0.0
    return float(max(of_arrays, 2 * ndtr(-abs(excess.sum()) / np.sqrt(variance.sum()))))


def _divided(part: pl.DataFrame) -> dict[str, Any]:
    """Return the position from which tasks fail at another rate, and both rates."""
    at, failed = part.sort("at").select("at", "failed").to_numpy().astype(float).T
    cuts = np.unique(at)[1:]
    below = np.searchsorted(at, cuts)
    n = np.stack([below, len(at) - below])
    n_failed = np.stack([np.cumsum(failed)[below - 1], failed.sum() - np.cumsum(failed)[below - 1]])
    fits = (xlogy(n_failed, n_failed / n) + xlogy(n - n_failed, 1 - n_failed / n)).sum(axis=0)
    best = int(fits.argmax())
    (before, after), (few, more) = n[:, best], n_failed[:, best]
    return {
        **part.row(0, named=True),
        "arrays": part["array_id"].n_unique(),
        "from": int(cuts[best]),
        "sides": ((int(few), int(before)), (int(more), int(after))),
        "failures": int(failed.sum()),
    }
