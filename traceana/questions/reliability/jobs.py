"""Mean time to failure of a job, the interval between its checkpoints, and stored traces."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import betainc, gammaln, lambertw, pdtrc, stdtrit

from traceana.cohorts.cohort import with_adjusted
from traceana.cohorts.ends import END_CLASS, OF_MACHINES, with_end_class
from traceana.cohorts.observation import node_column, nodes_seen
from traceana.errors import DataError
from traceana.questions.reliability.machines import (
    FaultLog,
    Window,
    dispersion_of_total,
    machine_counts,
    machine_reliability,
    read_log,
    time_blocks,
)
from traceana.questions.reliability.tables import (
    CheckpointIntervals,
    JobFailureIntervals,
    JobFailureResult,
    JobFaults,
    ReliabilityResult,
)
from traceana.questions.trends.gaps import WEEK, slope_over_time
from traceana.stats.arguments import (
    check_confidence,
    check_count,
    is_number,
)
from traceana.stats.arrays import Floats
from traceana.stats.intervals import dispersion_index, rate_interval
from traceana.stats.time_blocks import DAY_S, LONGEST_S
from traceana.store import Trace
from traceana.store.frames import collect, open_frame
from traceana.tables.declare import declared, returns, schema_of

_MOST_MACHINES = 10**9
_SHUFFLES: Final = 4000
_ROUNDING: Final = 1e-9


def job_failure_interval(
    faults: IntoFrame,
    /,
    machines: int | Iterable[int],
    *,
    machine: str = "machine_id",
    start: str = "start_s",
    end: str | None = "end_s",
    total_machines: int | None = None,
    window: Window | None = None,
    confidence: float = 0.95,
) -> JobFailureResult:
    """Compute the mean time to failure of a job on N machines.

    mean_s is 1 / (r N) with the rate r of faults per machine: exact if faults are independent and
    of one rate. observed_s makes no such assumption: it is the window over the expected number of
    failures of a job whose N machines are drawn at random from those that are up. With k of U
    machines failing at one time, the job fails with probability 1 - C(U - k, N) / C(U, N); faults
    of a machine that is down already do not count. Both assume that a job restarts at once.

    Parameters
    ----------
    faults, machine, start, end, total_machines, window, confidence
        As in :func:`machine_reliability`.
    machines
        Machines N of the job, or several numbers.

    Returns
    -------
    JobFailureResult
        ``.intervals``, one row per number of machines. ``.dispersion`` of
        :func:`machine_reliability` speaks for or against the independence that mean_s assumes.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a", "b"], "start_s": [0, 5000], "end_s": [9, 6000]})
    >>> result = traceana.job_failure_interval(
    ...     faults, machines=2, total_machines=4, window=(0, 864_000)
    ... )
    >>> result.intervals.select("mean_s", "observed_s").row(0)
    (864000.0, 864000.0)
    """
    check_confidence(confidence)
    sizes = list(machines) if isinstance(machines, Iterable) else [machines]
    for size in sizes:
        check_count("machines", size, most=_MOST_MACHINES)
    log = read_log(
        faults, machine=machine, start=start, end=end, total_machines=total_machines, window=window
    )
    n, node_s = log.rows.height, log.node_days * DAY_S
    low, high = rate_interval(
        n, node_s, dispersion=dispersion_of_total(log, log.rows), confidence=confidence
    )
    failing = _failing(log)
    rows = [
        {
            "machines": size,
            "mean_s": node_s / n / size if n else None,
            "ci_low_s": 1 / (float(high) * size),
            "ci_high_s": 1 / (float(low) * size) if n else None,
        }
        | _observed(log, failing, size, confidence)
        for size in map(int, sizes)
    ]
    return JobFailureResult(pl.DataFrame(rows, schema=schema_of(JobFailureIntervals)))


def _failing(log: FaultLog) -> pl.DataFrame:
    """Return the machines that fail at each time and those up before: [start, failing, up]."""
    outages = log.outages()
    begun = outages.group_by("start").agg(failing=pl.len()).sort("start")
    ends = outages["end"].sort()
    earlier = begun["failing"].cum_sum().cast(pl.Int64) - begun["failing"].cast(pl.Int64)
    # a machine that is repaired at that very time is up
    repaired = pl.Series(ends.search_sorted(begun["start"], side="right")).cast(pl.Int64)
    at_once = outages.filter(pl.col("end") == pl.col("start")).group_by("start").len()
    n_failing = begun.join(at_once, on="start", how="left")["len"].fill_null(0).cast(pl.Int64)
    return begun.with_columns(up=log.total_machines - (earlier - (repaired - n_failing)))


def _observed(log: FaultLog, failing: pl.DataFrame, size: int, confidence: float) -> dict[str, Any]:
    """Return the window over the expected failures of a job on random machines that are up."""
    if size > log.total_machines:
        return {"note": f"the log is about {log.total_machines:,} machines: none so large ran"}
    begun = failing.filter(pl.col("start") >= log.window_s[0])
    k, up = (begun[name].to_numpy().astype(float) for name in ("failing", "up"))
    n = np.minimum(size, up)
    ways = _log_choose(np.maximum(up - k, n), n) - _log_choose(up, n)
    fails = 1 - np.where(up - k >= n, np.exp(ways), 0.0)
    expected = float(fails.sum())
    if not expected:
        return {"note": "no fault is in the window"}
    blocks = np.histogram(begun["start"].to_numpy(), time_blocks(log), weights=fails)[0]
    count = len(blocks)
    over_time = max(count * float(blocks.var(ddof=1)), float((fails**2).sum()))
    over_machines = max(dispersion_index(machine_counts(log)) - 1, 0.0) / log.rows.height
    error = np.sqrt(over_time / expected**2 + over_machines)
    factor = float(np.exp(stdtrit(count - 1, (1 + confidence) / 2) * error))
    mean = log.span_s / expected
    if np.isnan(factor):
        note = "no interval: one machine shows no variance between machines"
        return {"observed_s": mean, "note": note}
    ends = {"observed_ci_low_s": mean / factor, "observed_ci_high_s": mean * factor}
    return {"observed_s": mean} | ends


def _log_choose(n: Floats, k: Floats) -> Floats:
    chosen: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return chosen


@returns(CheckpointIntervals)
def checkpoint_interval(
    mttf_s: float | Iterable[float], /, *, checkpoint_s: float, restart_s: float = 0.0
) -> pl.DataFrame:
    """Compute the checkpoint interval that loses least time to failures.

    With mean time to failure M, checkpoint cost d and restart time R:

    - young: sqrt(2 d M) (Young, Communications of the ACM 17, 1974)
    - daly: sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (18 M)) - d for d < 2 M, else M (Daly,
      Future Generation Computer Systems 22, 2006, equation 37)
    - exact: M (1 + W(-exp(-1 - d / M))) with Lambert's W, the maximum of the ratio below

    The effective training time ratio of an interval t is t / (M exp(R / M) (exp((t + d) / M) - 1)),
    the inverse of Daly's expected wall time (equation 20): failures come at a constant rate, also
    during checkpoints and restarts.

    Parameters
    ----------
    mttf_s
        Mean time to failure of the job in s, or several, such as those of
        :func:`job_failure_interval`.
    checkpoint_s
        Time that a checkpoint stops the training, in s.
    restart_s
        Time from a failure until training continues from the last checkpoint, in s.

    Returns
    -------
    DataFrame
        Three rows per mean time to failure:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> found = traceana.checkpoint_interval(24 * 3600, checkpoint_s=300, restart_s=600)
    >>> found.select("method", pl.col("interval_s", "effective_training_ratio").round(3)).rows()
    [('young', 7200.0, 0.913), ('daly', 7001.389, 0.913), ('exact', 7001.404, 0.913)]
    """
    means: list[float] = list(mttf_s) if isinstance(mttf_s, Iterable) else [mttf_s]
    given = [("mttf_s", mean) for mean in means]
    for name, value in (*given, ("checkpoint_s", checkpoint_s), ("restart_s", restart_s)):
        if not (is_number(value) and math.isfinite(value)):
            raise DataError(f"{name} must be a number of seconds; it is {value!r}")
        if value < 0 or (value == 0 and name != "restart_s"):
            raise DataError(f"{name} must be above 0; it is {value!r}")
    cost, rows = float(checkpoint_s), []
    for mean in map(float, means):
        young, ratio = math.sqrt(2 * cost * mean), cost / (2 * mean)
        for method, interval in (
            ("young", young),
            ("daly", young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost if ratio < 1 else mean),
            ("exact", mean * (1 + float(lambertw(-math.exp(-1 - cost / mean)).real))),
        ):
            with np.errstate(over="ignore"):
                wall = mean * np.exp(restart_s / mean) * np.expm1((interval + cost) / mean)
            trains = float(interval / wall)
            writes = trains * cost / interval
            rows.append((mean, method, interval, trains, writes, 1 - trains - writes))
    schema = schema_of(CheckpointIntervals)
    return declared(pl.DataFrame(rows, schema=schema, orient="row"), CheckpointIntervals)


_TOGETHER_S: Final = 300.0
"""Time after a failure of a machine in which its other jobs end by the same."""


@returns(JobFaults)
def faults_of_jobs(
    jobs: IntoFrame,
    /,
    *,
    machine: str = "NodeList",
    end_reason: str = "end_reason",
    end: str = "end_s",
) -> pl.DataFrame:
    """Return the faults of machines that ended jobs.

    A fault is the end of one or more jobs on the same machines, each at most 5 min after the one
    before, with an end reason of class machine (see :func:`with_end_class`). Repair times are not
    known: pass ``end=None`` to :func:`machine_reliability`. A fault of a job on several machines is
    that of one of them: of the one that ended other jobs within 5 min, else it is not known which,
    and all are named.

    Parameters
    ----------
    jobs
        One row per job: `machine`, `end_reason`, `end` and status; eager or lazy, of any supported
        engine. Rows without one of them are excluded.
    machine, end_reason, end
        Columns of the machines, the end reason and the end (seconds or datetimes).

    Returns
    -------
    DataFrame
        One row per fault, in order of time:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "NodeList": ["n1", "n1", "n2"], "end_s": [50.0, 50.0, 90.0],
    ...     "end_reason": ["NODE_FAIL", "NODE_FAIL", "COMPLETED"],
    ...     "status": ["failed", "failed", "completed"],
    ... })
    >>> traceana.faults_of_jobs(jobs).rows()
    [('n1', 50.0, 'NODE_FAIL', 2)]
    """
    opened = open_frame(jobs, keys=(machine, end_reason, "status"), measures={"end": end})
    rows = with_end_class(collect(opened).drop_nulls().rename({end_reason: "end_reason"}))
    ends = rows.filter(pl.col(END_CLASS) == "machine").select(
        pl.col(end).alias("start_s"),
        pl.col(machine).cast(pl.String).alias("machine_id"),
        pl.col("end_reason").cast(pl.String).alias("class"),
    )
    ends = ends.sort("start_s").with_row_index()
    each = ends.with_columns(pl.col("machine_id").str.split(",")).explode("machine_id")
    is_alone = pl.len().over("index") == 1
    alone = each.filter(is_alone).with_columns(one="machine_id").drop("index")
    near: dict[str, Any] = {"strategy": "nearest", "tolerance": _TOGETHER_S}
    near |= {"by": ["machine_id", "class"], "check_sortedness": False}
    shared = each.filter(~is_alone).join_asof(alone, on="start_s", **near)
    shared = shared.group_by("index").agg(pl.col("one").min())
    ends = ends.join(shared, on="index", how="left", maintain_order="left")
    ends = ends.with_columns(machine_id=pl.coalesce("one", "machine_id"))
    of = ["machine_id", "class"]
    is_new = (pl.col("start_s").diff() > _TOGETHER_S).fill_null(value=False)
    faults = ends.group_by(*of, event=is_new.cum_sum().over(of)).agg(
        pl.col("start_s").min(), jobs=pl.len().cast(pl.Int64)
    )
    return declared(faults.drop("event").sort("start_s", *of), JobFaults)


NEEDS: Final = ({"faults": ("machine_id", "start_s")}, {"jobs": ("end_reason", "end_s", "status")})
_FEWEST: Final = 3  # faults of a scheduler's log below which nothing is reported
_FEWEST_OF_TREND: Final = 10
_FEWEST_TOGETHER: Final = 3  # machines
_SURE: Final = 0.01
_VERY_SURE: Final = 0.001
_MORE_OFTEN: Final = 1.5
"""Ratio of fault rates from which a GPU type is named."""
_PLANNED: Final = {
    "class": r"(?i)^(scheduled|planned)?[ _-]?maint",
    "description": r"(?i)\b(scheduled|planned) maint",
}
"""Classes and descriptions of planned maintenance."""
_TRENDS: Final = {
    "class": pl.String,
    **dict.fromkeys(("first", "middle", "last"), pl.Int64),
    "pvalue": pl.Float64,
}


def faults_of(trace: Trace, /) -> pl.LazyFrame:
    """Return the faults of a trace: its table, else the failures of nodes that its jobs show."""
    if trace.has("faults", ("machine_id", "start_s")):
        # several machines that were repaired had a fault each; a job on several ends by one of them
        machine = pl.col("machine_id").cast(pl.String)
        of_job = pl.col("end_s").is_null() | pl.col("class").str.contains(OF_MACHINES)
        names = pl.when(of_job.fill_null(value=False)).then(pl.concat_list(machine))
        one_each = trace.scan("faults").with_columns(names.otherwise(machine.str.split(",")))
        return one_each.explode("machine_id").with_columns(pl.col("machine_id").str.strip_chars())
    jobs = trace.scan("jobs")
    name = node_column(jobs.collect_schema().names())
    if name is None:
        return pl.LazyFrame(schema={"machine_id": pl.String, "start_s": pl.Float64})
    faults = faults_of_jobs(jobs, machine=name)
    return faults.drop("jobs").with_columns(end_s=pl.lit(None, pl.Float64)).lazy()


def count_planned(trace: Trace, /) -> int:
    """Return the faults that are planned maintenance, by their class or description."""
    faults = faults_of(trace)
    names = {*faults.collect_schema().names()}
    is_planned = [
        pl.col(name).cast(pl.String).str.contains(words).fill_null(value=False)
        for name, words in _PLANNED.items()
        if name in names
    ]
    chosen = pl.any_horizontal(pl.lit(value=False), *is_planned)
    return int(faults.select(chosen.sum()).collect().item())


def is_known(trace: Trace, /) -> bool:
    """Return whether a trace has faults that can be reported on."""
    least = 0 if trace.has("faults", ("machine_id", "start_s")) else _FEWEST
    return int(faults_of(trace).select(pl.len()).collect().item()) >= least


def count_machines(trace: Trace, /) -> int | None:
    """Return the machines of a trace, from its table or as stated; None: unknown."""
    # they count in any case
    names = pl.col("machine_id").str.split(",").explode().str.strip_chars()
    failed = faults_of(trace).select(names).unique()
    if trace.has("machines"):
        listed = trace.scan("machines").select("machine_id")
        return int(pl.concat([listed, failed]).unique().select(pl.len()).collect().item())
    stated = sum(group.nodes for group in trace.manifest.capacity.values())
    stated = stated if stated > 1 else 0  # a number of GPUs is stated as that of one node
    if not stated and not trace.has("faults"):
        stated = trace.once(nodes_seen).height
    return max(stated, failed.select(pl.len()).collect().item()) if stated else None


def _options(trace: Trace, total_machines: int | None) -> dict[str, Any]:
    window = trace.manifest.window_start_s, trace.manifest.window_end_s
    return {
        "end": "end_s" if trace.has("faults", ("machine_id", "start_s")) else None,
        "total_machines": total_machines or count_machines(trace),
        "window": None if None in window else window,
    }


def reliability_of(
    trace: Trace, by: str = "", total_machines: int | None = None, /
) -> ReliabilityResult:
    """Return :func:`machine_reliability` of a trace."""
    return machine_reliability(faults_of(trace), by=by or (), **_options(trace, total_machines))


def job_failures_of(
    trace: Trace, machines: Iterable[int], total_machines: int | None = None, /
) -> JobFailureResult:
    """Return :func:`job_failure_interval` of a trace."""
    return job_failure_interval(faults_of(trace), machines, **_options(trace, total_machines))


def fault_trends(trace: Trace, by: str, window_s: tuple[float, float], /) -> pl.DataFrame:
    """Return [class, first, middle, last, pvalue]: faults of classes by third of the window."""
    name, days = pl.col(by).cast(pl.String) if by else pl.lit(""), np.diff(window_s)[0] / DAY_S
    rows = faults_of(trace).select(name.alias("class"), "start_s").drop_nulls().collect()
    rows = rows if days * DAY_S <= LONGEST_S else rows.clear()
    by_class = []
    for (kind,), faults in rows.group_by("class", maintain_order=True):
        start_s = faults["start_s"].to_numpy()
        thirds, daily = (np.histogram(start_s, n, window_s)[0] for n in (3, math.ceil(days)))
        if daily.sum() >= _FEWEST_OF_TREND:
            weeks = np.arange(len(daily)) / WEEK
            *_, p, _ = slope_over_time(weeks, daily.astype(float), np.zeros(len(daily), int))
            by_class.append((kind, *thirds.tolist(), p))
    frame = with_adjusted(pl.DataFrame(by_class, schema=_TRENDS, orient="row"))
    return frame.drop("pvalue").rename({"pvalue_adjusted": "pvalue"})


def failing_type(trace: Trace, /) -> tuple[str, float, int, int] | None:
    """Return the GPU type whose nodes fail most per hour in use, if more than others by chance.

    With the ratio of its rate to that of other nodes, 1.5 or more, and the faults of both. Faults
    are those that ended jobs. See :func:`excess_of_types`.
    """
    if trace.has("faults") or not trace.has("jobs", ("gpu_type", "start_s", "end_s")):
        return None
    nodes = trace.once(nodes_seen).drop_nulls("gpu_type").select("machine_id", kind="gpu_type")
    jobs = trace.scan("jobs")
    hosts = pl.col(node_column(jobs.collect_schema().names()) or "").cast(pl.String).str.split(",")
    runs = jobs.select("start_s", "end_s", machine_id=hosts).drop_nulls().explode("machine_id")
    before = pl.col("end_s").cum_max().shift().over("machine_id").fill_null(-math.inf)
    used = pl.col("end_s") - pl.max_horizontal("start_s", before)
    hours = runs.sort("start_s").select("machine_id", hours=used.clip(0) / 3600)
    in_use = hours.group_by("machine_id").sum().collect()
    machine = pl.col("machine_id").str.split(",").list.first()  # the nodes of a job are alike
    faults = faults_of(trace).select(machine).collect().group_by("machine_id").agg(n=pl.len())
    nodes = nodes.join(in_use, on="machine_id").join(faults, on="machine_id", how="left")
    return excess_of_types(nodes.filter(pl.col("hours") > 0).fill_null(0))


def excess_of_types(nodes: pl.DataFrame, /) -> tuple[str, float, int, int] | None:
    """Return the kind of nodes [kind, hours, n] with the most faults n per hour, if it is certain.

    Given all faults, those of a kind are binomial by its part of the hours, with both divided by
    the variance over the nodes of a kind (Poisson: 1; at least that). p times the kinds is below
    0.001, since that variance is uncertain.
    """
    kinds = nodes.group_by("kind").agg(pl.col("hours", "n").sum(), nodes=pl.len()).sort("kind")
    whole, total = float(kinds["hours"].sum()), float(kinds["n"].sum())
    if kinds.height < 2 or total < _FEWEST_OF_TREND:
        return None
    mean = pl.col("n").sum().over("kind") * pl.col("hours") / pl.col("hours").sum().over("kind")
    squares = nodes.select((pl.col("n") - mean) ** 2 / mean).to_series().fill_nan(0).sum()
    scale = max(squares / max(nodes.height - kinds.height, 1), 1.0)
    rate = pl.col("n") / pl.col("hours")
    kind, hours, n, _ = kinds.sort(rate, "kind").row(-1)
    others = (total - n) / (whole - hours)
    p = betainc(n / scale, (total - n) / scale + 1, hours / whole) * kinds.height
    ratio = n / hours / others if others else math.inf
    return (kind, ratio, n, int(total) - n) if p < _VERY_SURE and ratio >= _MORE_OFTEN else None


def failing_together(trace: Trace, total: int, /) -> tuple[list[str], int] | None:
    """Return the machines that fail at the same times again and again, as those of a rack.

    And how many times. Faults of three machines or more, but not of more than half of all, are
    together if each begins at most 5 min after the one before. Of two such times the machines in
    common are counted, without the machine of the most times; they are more than chance explains
    (Poisson, with the faults of each machine at other times) at p below 0.01.
    """
    faults = faults_of(trace).select(pl.col("machine_id").cast(pl.String), "start_s").drop_nulls()
    faults = faults.filter(~pl.col("machine_id").str.contains(",")).sort("start_s")
    event = (pl.col("start_s").diff() > _TOGETHER_S).cum_sum().fill_null(0)
    each = faults.select("machine_id", event=event).unique(maintain_order=True).collect()
    is_together = pl.len().over("event").is_between(_FEWEST_TOGETHER, total / 2)
    alone = each.filter(~is_together)["machine_id"].value_counts()["count"].to_numpy() + 1.0
    each = each.filter(is_together)
    machines = each["machine_id"].value_counts().filter(pl.col("count") > 1)
    n, sizes = machines["count"].sort().to_numpy(), each["event"].value_counts()["count"].to_numpy()
    common, never = n * (n - 1) / 2, total - len(alone)
    same = ((alone**2).sum() + never) / (alone.sum() + never) ** 2
    expected = (sizes.sum() ** 2 - (sizes**2).sum()) / 2 * same
    if len(n) < _FEWEST_TOGETHER or pdtrc(common[:-1].sum() - 1, expected) >= _SURE:
        return None
    group = each.join(machines, on="machine_id")
    times = group["event"].value_counts().filter(pl.col("count") > 1).height
    return machines["machine_id"].sort().to_list(), times


def group_column(trace: Trace, /) -> str:
    """Return the column by which faults are grouped: class, else level; empty: neither."""
    manifest = trace.manifest
    names = (name for name in ("class", "level") if manifest.has("faults", (name,)))
    return next(names, "" if manifest.has("faults") else "class")


def faulty_groups(trace: Trace, faults: pl.DataFrame, /) -> pl.DataFrame:
    """Return the group of machines with the largest excess of faults, by each text of their table.

    p is from shuffles of the machines over the groups, such as racks, of the largest excess over
    the root of the machines of a group, so that a single bad machine makes no bad group; by
    Bonferroni over the texts. In 3 of 200 simulated logs without bad groups, whose machines differ,
    a p is below 0.01.
    """
    rows: list[dict[str, Any]] = []
    stored = trace.has("machines", ("machine_id",))
    machines = trace.scan("machines").select(pl.col(pl.String)).collect() if stored else faults
    counts = faults.select(pl.col(faults.columns[0]).cast(pl.String).alias("machine_id"), "n")
    names = [name for name in machines.columns if name != "machine_id"] if stored else []
    for name in names:
        known = machines.drop_nulls(name).join(counts, on="machine_id", how="left")
        n, groups = known["n"].fill_null(0).to_numpy(), known[name].unique(maintain_order=True)
        place = known[name].rank("dense").to_numpy() - 1
        sizes = np.bincount(place)
        if not 1 < len(sizes) <= len(n) / 2 or not n.any():
            continue
        draw, expected, root = np.random.default_rng(0), sizes * n.mean(), np.sqrt(sizes)
        shuffled = (n, *(draw.permutation(n) for _ in range(_SHUFFLES)))
        excess = [(np.bincount(place, weights=each) - expected) / root for each in shuffled]
        worst = int(excess[0].argmax())
        p = np.mean([each.max() >= excess[0][worst] - _ROUNDING for each in excess])
        row = {"of": name, "group": groups.sort()[worst], "machines": int(sizes[worst])}
        row |= {"n": int(n[place == worst].sum()), "expected": float(expected[worst])}
        rows.append(row | {"pvalue": min(float(p) * len(names), 1.0)})
    types = {"of": pl.String, "group": pl.String, "machines": pl.Int64, "n": pl.Int64}
    return pl.DataFrame(rows, types | {"expected": pl.Float64, "pvalue": pl.Float64}).sort("pvalue")
