"""Rate of faults, time to repair, availability, repeat offenders and concurrent faults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import ndtri, stdtrit

from traceana.cohorts.overlap import merge_times
from traceana.errors import DataError
from traceana.questions.reliability.tables import (
    ConcurrentFaults,
    FaultCounts,
    FaultDispersion,
    FaultPeriods,
    MachineFaults,
    MachineReliability,
    ReliabilityResult,
)
from traceana.stats.arguments import (
    MOST_RESAMPLES,
    as_generator,
    check_confidence,
    check_count,
    is_number,
)
from traceana.stats.arrays import Floats, Integers
from traceana.stats.intervals import (
    dispersion_index,
    dispersion_pvalue,
    fit_negative_binomial,
    negative_binomial_tail,
    rate_interval,
)
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.survival import censored_quantiles, product_limit, restricted_mean
from traceana.stats.time_blocks import DAY_S, LONGEST_S
from traceana.store.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.tables.declare import schema_of
from traceana.tables.formatting import duration

Window = tuple[float | datetime, float | datetime]


@dataclass(frozen=True)
class FaultLog:
    """Faults in an observation window.

    `rows` has the faults that began in the window: [*keys, machine, start, end, is_open]; end is
    that of the window where the repair had not ended (`is_open`), and null where it is unknown.
    `downs` has [*keys, machine, start, end] of all faults that reach into the window, cut at its
    end; an unknown end is the start. The machine is null where several are named, one of which
    failed.
    """

    rows: pl.DataFrame
    downs: pl.DataFrame
    machine: str
    total_machines: int
    is_stated: bool
    window_s: tuple[float, float]
    has_ends: bool
    n_missing: int
    n_outside: int

    @property
    def span_s(self) -> float:
        """Length of the window."""
        return self.window_s[1] - self.window_s[0]

    @property
    def node_days(self) -> float:
        """Machines times days."""
        return self.total_machines * self.span_s / DAY_S

    @property
    def down_s(self) -> pl.Expr:
        """Length of an outage within the window."""
        return pl.col("end") - pl.col("start").clip(self.window_s[0])

    def outages(self, keys: Sequence[str] = (), /) -> pl.DataFrame:
        """Return the times that each machine is down [*keys, machine, start, end], merged."""
        is_unknown, columns = pl.col(self.machine).is_null(), [*keys, self.machine, "start", "end"]
        merged = merge_times(self.downs.filter(~is_unknown), columns[:-2], "start", "end")
        return pl.concat([merged.select(columns), self.downs.filter(is_unknown).select(columns)])


def read_log(
    faults: IntoFrame,
    /,
    by: Names = (),
    *,
    machine: str,
    start: str,
    end: str | None,
    total_machines: int | None,
    window: Window | None,
) -> FaultLog:
    """Read the faults of a log; see :func:`~traceana.machine_reliability` for the parameters."""
    keys = as_names(by)
    measures = {"start": start} if end is None else {"start": start, "end": end}
    opened = open_frame(
        faults, keys=(*keys, machine), measures=measures, roles={"machine": machine}
    )
    ends = nw.lit(None, nw.Float64) if end is None else nw.col(end)
    read = collect(opened.select(*keys, machine, start=nw.col(start), end=ends))
    read = read.cast({"start": pl.Float64, "end": pl.Float64})
    if machine in ("start", "end") or {*keys} & {"start", "end", "is_open"}:
        raise DataError("columns named start, end or is_open cannot be grouped by; rename them")
    table = read.drop_nulls([machine, "start"]).sort("start", machine, *keys, nulls_last=True)
    if (table["end"] < table["start"]).any():
        raise DataError(f"a fault ends before it starts: {end} is below {start}")
    first, last = _window(window, table)
    names = pl.concat_list(machine)
    if table.schema[machine] == pl.String:  # the machine is null where several are named
        names = pl.col(machine).str.split(",")
    named = table.select("start", "end", name=names).explode("name")
    if table.schema[machine] == pl.String:
        alone = ~pl.col(machine).str.contains(_LIST)
        table = table.with_columns(pl.when(alone).then(machine).alias(machine))
    begun, until = pl.col("start"), pl.col("end")
    is_last = until.is_null() & (begun == begun.max().over(machine))  # also after the window
    is_last &= pl.col(machine).is_not_null()
    has_ends = bool(table["end"].count())  # also of faults outside of the window
    is_open = pl.lit(has_ends) & (is_last | (until > last)).fill_null(value=False)
    inside = table.with_columns(is_open=is_open).filter(
        begun <= last, (begun >= first) | (until >= first)
    )
    marked = inside.with_columns(end=pl.when("is_open").then(last).otherwise("end"))
    in_window = named.filter(pl.col("start") <= last, pl.coalesce("end", "start") >= first)
    failed = in_window["name"].n_unique()
    if total_machines is not None and not is_number(total_machines, whole=True):
        raise DataError(f"total_machines must be a whole number; it is {total_machines!r}")
    if total_machines is not None and total_machines < max(failed, 1):
        raise DataError(
            f"total_machines is {total_machines:,}, and {failed:,} machines have a fault in the "
            "window; state all machines that the log is about"
        )
    if total_machines is None and not failed:
        raise DataError("no fault is in the window; state total_machines")
    return FaultLog(
        rows=marked.filter(pl.col("start") >= first),
        downs=marked.with_columns(end=pl.coalesce("end", "start")).drop("is_open"),
        machine=machine,
        total_machines=total_machines or failed,
        is_stated=total_machines is not None,
        window_s=(first, last),
        has_ends=has_ends,
        n_missing=read.height - table.height,
        n_outside=table.height - inside.height,
    )


def _window(window: Window | None, table: pl.DataFrame) -> tuple[float, float]:
    """Return the stated window in seconds, or that of the first to the last time."""
    if window is None and table.is_empty():
        raise DataError("the log has no fault with a machine and a start; state window=")
    first: Any
    last: Any
    ends: Any = window
    if window is None:
        ends = table["start"][0], pl.concat([table["start"], table["end"]]).max()
    try:
        first, last = (
            (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
            if isinstance(time, datetime)
            else time
            for time in ends
        )
    except (TypeError, ValueError):
        first = last = None
    if not (is_number(first) and is_number(last)):
        raise DataError(
            f"window must be its beginning and end, in seconds or as datetimes; it is {window!r}"
        )
    if not last > first:
        raise DataError(
            f"the observation window has no length (from {first:g} s to {last:g} s); state window="
        )
    return float(first), float(last)


def steps_of(outages: pl.DataFrame, window_s: tuple[float, float], /) -> pl.DataFrame:
    """Return the machines down over time, [time_s, machines_down], from the window's beginning."""
    lasting, unit = outages.filter(pl.col("end") > pl.col("start")), pl.lit(1, pl.Int64)
    first = pl.DataFrame({"time_s": [window_s[0]], "change": [0]})
    begins = lasting.select(time_s=pl.col("start").clip(window_s[0]), change=unit)
    edges = pl.concat([first, begins, lasting.select(time_s="end", change=-unit)])
    changes = edges.group_by("time_s").agg(pl.col("change").sum()).sort("time_s")
    return changes.select("time_s", machines_down=pl.col("change").cum_sum()).filter(
        pl.col("time_s") < window_s[1]
    )


_LIST: Final = r",|\[\d[\d,-]*[,-]"  # what a name of several machines has: n1,n5 or n[1-3]
_BLOCKS: Final = 10
"""Blocks of time at least, of a week each where the window has so many weeks, else of a day."""
_PERIODS_S: Final = (DAY_S, 7 * DAY_S, 30 * DAY_S)
_MOST_PERIODS: Final = 40


def machine_reliability(
    faults: IntoFrame,
    /,
    by: Names = (),
    *,
    machine: str = "machine_id",
    start: str = "start_s",
    end: str | None = "end_s",
    total_machines: int | None = None,
    window: Window | None = None,
    confidence: float = 0.95,
    resamples: int = 999,
    rng: int | np.random.Generator = 1,
) -> ReliabilityResult:
    """Compute fault rate, time to repair, availability and repeat offenders.

    The rate is the number of faults that begin in the window over machines times days, and MTBF its
    inverse. Its interval is about another such window: Garwood's, scaled by the dispersion of the
    faults, d = max(1, d_m, d_t, d_m + d_t - 1) with that over machines (d_m) and over blocks of
    time (d_t), as in two-way clustering (Cameron, Gelbach and Miller, Journal of Business &
    Economic Statistics 29, 2011).

    Time to repair is estimated by Kaplan-Meier: a fault without an end that is the last of its
    machine is taken as not repaired when the window ends (censored). A fault without an end before
    another fault of its machine has an unknown end: it counts as a fault, without downtime.
    Overlapping faults of a machine are merged for downtime and availability.

    Parameters
    ----------
    faults
        One row per fault: `machine`, `start`, `end` and `by`; eager or lazy, of any supported
        engine. Rows without a machine or a start are excluded and counted in the note. A name of
        several machines (n1,n5 or n[1-3]), such as the nodes of a job, is one fault of one of them,
        unknown which: it counts in the rate, and for no machine.
    by
        Columns to group faults by, such as class; null is a group of its own. The rate of a group
        is over all machines. None by default.
    machine
        Column of the machine.
    start, end
        Columns of the beginning of the fault and of the end of its repair (seconds or datetimes).
        ``end=None``: the log has single events.
    total_machines
        Number of machines that were observed, with those that never failed, which no fault log
        lists. None: the machines with a fault, which overestimates the rate.
    window
        Beginning and end of the observation (seconds or datetimes). None: from the first start to
        the last time of the log, which overestimates the rate of short logs.
    confidence
        Coverage of the intervals, in (0, 1).
    resamples, rng
        Random assignments of the faults, for p of the dispersion; their seed or generator.

    Returns
    -------
    ReliabilityResult
        ``.overall``, ``.groups``, ``.machines`` (compared with chance), ``.offenders``,
        ``.counts``, ``.dispersion``, ``.concurrent``, ``.periods`` and ``.down``.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({
    ...     "machine_id": ["a", "a", "b"], "start_s": [0.0, 86_400.0, 172_800.0],
    ...     "end_s": [3600.0, 90_000.0, None],
    ... })
    >>> result = traceana.machine_reliability(faults, total_machines=4, window=(0, 864_000))
    >>> result.overall.select("n", "rate", "n_open", "availability").rows()
    [(3, 75.0, 1, 0.79...)]
    """
    check_confidence(confidence)
    check_count("resamples", resamples, most=MOST_RESAMPLES)
    generator, keys = as_generator(rng), as_names(by)
    refuse_clash(keys, {**MachineReliability.columns(), "outage": None})
    columns: dict[str, Any] = {"by": keys, "machine": machine, "start": start, "end": end}
    log = read_log(faults, total_machines=total_machines, window=window, **columns)
    down = steps_of(log.outages(), log.window_s) if log.has_ends else None
    return ReliabilityResult(
        total_machines=log.total_machines,
        is_stated=log.is_stated,
        window_s=log.window_s,
        overall=_rows(log, (), confidence),
        groups=_rows(log, keys, confidence) if keys else None,
        machines=_machines(log),
        counts=_counts(log),
        dispersion=measure_dispersion(log, resamples=resamples, rng=generator),
        concurrent=None if down is None else _concurrent(log, down),
        periods=_periods(log, confidence),
        down=down,
    )


def machine_counts(log: FaultLog, rows: pl.DataFrame | None = None, /) -> Integers:
    """Return the faults of each machine, also of those without one."""
    counts = np.zeros(log.total_machines, dtype=np.int64)
    named = (log.rows if rows is None else rows).drop_nulls(log.machine)
    of_machines = named.group_by(log.machine).len()["len"].to_numpy()
    counts[: len(of_machines)] = np.sort(of_machines)[::-1]
    return counts


def time_blocks(log: FaultLog, /) -> Floats:
    """Return the edges of equal blocks of the window: about a week, or a day, or a tenth."""
    sizes = (7 * DAY_S, DAY_S) if log.span_s <= LONGEST_S else ()
    length = next((s for s in sizes if log.span_s >= _BLOCKS * s), log.span_s / _BLOCKS)
    return np.linspace(*log.window_s, int(log.span_s / length) + 1)


def measure_dispersion(
    log: FaultLog, /, *, resamples: int, rng: np.random.Generator
) -> pl.DataFrame:
    """Return the dispersion of the number of faults over machines and over blocks of time."""
    edges = time_blocks(log)
    blocks = np.histogram(log.rows["start"].to_numpy(), edges)[0]
    rows = [
        {
            "across": across,
            "n": len(counts),
            "mean": float(counts.mean()),
            "dispersion": _or_none(dispersion_index(counts)),
            "pvalue": _or_none(dispersion_pvalue(counts, resamples=resamples, rng=rng)),
            "alpha": _or_none(fit_negative_binomial(counts)[0]),
            "note": note,
        }
        for across, counts, note in (
            ("machines", machine_counts(log), None),
            ("time", blocks, f"blocks of {duration(edges[1] - edges[0])}"),
        )
    ]
    return pl.DataFrame(rows, schema=schema_of(FaultDispersion))


def dispersion_of_total(log: FaultLog, rows: pl.DataFrame, /) -> float:
    """Return the variance of the number of faults over its mean, at least 1."""
    blocks = np.histogram(rows["start"].to_numpy(), time_blocks(log))[0]
    machines, time = (
        _or_none(dispersion_index(counts)) or 1.0 for counts in (machine_counts(log, rows), blocks)
    )
    # of few blocks of time it is itself uncertain, which Student's t allows for
    time *= float(stdtrit(len(blocks) - 1, 0.975) / ndtri(0.975)) ** 2 if time > 1 else 1
    return max(1.0, machines, time, machines + time - 1)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _rows(log: FaultLog, keys: tuple[str, ...], confidence: float) -> pl.DataFrame:
    outages = log.outages(keys).group_by(keys or pl.lit(0)).agg(log.down_s.sum())
    lost = {tuple(group) if keys else (): value for *group, value in outages.iter_rows()}
    parts: dict[tuple[Any, ...], pl.DataFrame] = {(): log.rows}
    if keys:
        parts = log.rows.partition_by(keys, as_dict=True, maintain_order=True)
    rows = []
    for group, of_group in parts.items():
        n, days = of_group.height, log.node_days
        low, high = rate_interval(
            n, days, dispersion=dispersion_of_total(log, of_group), confidence=confidence
        )
        downtime = lost.get(group, 0.0) if log.has_ends else None
        rows.append(
            dict(zip(keys, group, strict=True))
            | {
                "n": n,
                "machines_failed": of_group[log.machine].drop_nulls().n_unique(),
                "rate": 1000 * n / days,
                "ci_low": 1000 * float(low),
                "ci_high": 1000 * float(high),
                "mtbf_s": days * DAY_S / n if n else None,
                "downtime_s": downtime,
                "availability": None if downtime is None else 1 - downtime / (days * DAY_S),
            }
            | _repairs(of_group, log)
        )
    types = {key: log.rows.schema[key] for key in keys}
    table = pl.DataFrame(rows, schema={**types, **schema_of(MachineReliability)})
    return table.sort("n", *keys, descending=[True] + [False] * len(keys), nulls_last=True)


def _repairs(rows: pl.DataFrame, log: FaultLog) -> dict[str, Any]:
    """Return mean and median time to repair by Kaplan-Meier, and what they lack."""
    table = rows.drop_nulls("end")
    unknown = rows[log.machine].null_count()
    notes = {
        "machines without a fault are not counted": not log.is_stated,
        f"{unknown:,} faults are of one of several machines: they count in the rate, and for no "
        "machine": unknown,
        f"{log.n_missing:,} rows without a machine or a start are excluded": log.n_missing,
        f"{log.n_outside:,} rows outside of the window are excluded": log.n_outside,
        "the log has no ends: repair and availability are unknown": not log.has_ends,
        "ends are missing: machines without an end failed again, so that repairs taken as not "
        "ended may have ended, and MTTR may be too long": log.has_ends
        and table.height < rows.height
        and rows["is_open"].any(),
    }
    times = (table["end"] - table["start"]).to_numpy()
    censored = table["is_open"].to_numpy()
    mean = median = None
    if len(table) and log.has_ends:
        steps, place = np.unique(times, return_inverse=True)
        cut = np.bincount(place[censored], minlength=len(steps))
        surviving = product_limit(np.bincount(place) - cut, cut)
        mean = restricted_mean(steps, surviving, np.zeros(len(steps)), float(steps[-1]))[0]
        median = _or_none(float(censored_quantiles(times, censored, [0.5])[0]))
        notes["the longest repair had not ended: MTTR is a lower bound"] = surviving[-1] > 1e-12
    return {
        "n_open": int(rows["is_open"].sum()),
        "n_missing": rows.height - table.height if log.has_ends else None,
        "mttr_s": mean,
        "median_s": median,
        "note": "; ".join(note for note, holds in notes.items() if holds) or None,
    }


def _machines(log: FaultLog) -> pl.DataFrame:
    lost = log.outages().group_by(log.machine).agg(downtime_s=log.down_s.sum())
    if not log.has_ends:
        lost = lost.with_columns(downtime_s=pl.lit(None, pl.Float64))
    named = log.rows.drop_nulls(log.machine)
    faults = named.group_by(log.machine).agg(n=pl.len().cast(pl.Int64), last_s=pl.max("start"))
    table = faults.join(lost, on=log.machine, how="left")
    table = table.sort("n", log.machine, descending=[True, False])
    counts, total = table["n"].to_numpy(), log.total_machines
    pvalue = scipy.stats.binom.sf(counts - 1, named.height, 1 / total)
    both = (pvalue, _negative_binomial(counts, machine_counts(log)))
    every = (np.append(p, np.ones(total - len(p))) for p in both)
    adjusted, negative_binomial = (adjust_pvalues(p, method="holm")[: len(counts)] for p in every)
    return table.with_columns(
        expected=pl.lit(named.height / total),
        pvalue=pl.Series(pvalue, dtype=pl.Float64),
        pvalue_adjusted=pl.Series(adjusted, dtype=pl.Float64),
        pvalue_negative_binomial=pl.Series(negative_binomial, dtype=pl.Float64),
    ).select(log.machine, *MachineFaults.columns())


def _negative_binomial(counts: Integers, every: Integers) -> Floats:
    """Return P(X >= n) for each machine, with the distribution fitted to all other machines."""
    tails = {}
    for n in np.unique(counts):
        others = np.delete(every, np.flatnonzero(every == n)[0])
        alpha = fit_negative_binomial(others)[0]
        is_fitted = not math.isnan(alpha)
        tails[n] = float(negative_binomial_tail(n, others.mean(), alpha)) if is_fitted else 1.0
    return np.array([tails[n] for n in counts])


def _counts(log: FaultLog) -> pl.DataFrame:
    counts = machine_counts(log)
    faults = np.arange(int(counts.max()) + 1)
    mean, alpha = float(counts.mean()), _or_none(fit_negative_binomial(counts)[0]) or 0.0
    tails = (negative_binomial_tail(faults, mean, dispersion) for dispersion in (0.0, alpha))
    poisson, differing = (log.total_machines * tail for tail in tails)
    columns = {"faults": faults, "machines": [int((counts >= n).sum()) for n in faults]}
    columns |= {"poisson": poisson, "negative_binomial": differing}
    return pl.DataFrame(columns, schema=schema_of(FaultCounts))


def _concurrent(log: FaultLog, down: pl.DataFrame) -> pl.DataFrame:
    held = np.diff(np.append(down["time_s"].to_numpy(), log.window_s[1]))
    counts = down["machines_down"].to_numpy()
    order = np.argsort(counts, kind="stable")
    below = np.cumsum(held[order]) / held.sum()
    p99 = int(counts[order][np.searchsorted(below, 0.99 - 1e-12)])
    mean, most = float((held * counts).sum() / held.sum()), int(counts.max())
    row = {"mean": mean, "p99": p99, "max": most}
    row |= {f"{name}_fraction": value / log.total_machines for name, value in row.items()}
    first = float(down["time_s"][int(counts.argmax())]) if most else None
    return pl.DataFrame([row | {"max_at_s": first}], schema=schema_of(ConcurrentFaults))


def _periods(log: FaultLog, confidence: float) -> pl.DataFrame:
    """Return the faults by day, week or month of 30 days, the shortest with at most 40 periods."""
    first, last = log.window_s
    length = next((s for s in _PERIODS_S if log.span_s <= _MOST_PERIODS * s), None)
    length = length or math.ceil(log.span_s / _MOST_PERIODS / DAY_S) * DAY_S
    edges = np.append(np.arange(first, last, length), last)
    counts = np.histogram(log.rows["start"].to_numpy(), edges)[0]
    days = log.total_machines * np.diff(edges) / DAY_S
    index = _or_none(dispersion_index(machine_counts(log))) or 1.0
    low, high = rate_interval(counts, days, dispersion=max(1.0, index), confidence=confidence)
    columns = {"start_s": edges[:-1], "end_s": edges[1:], "n": counts}
    columns |= {"rate": 1000 * counts / days, "ci_low": 1000 * low, "ci_high": 1000 * high}
    return pl.DataFrame(columns, schema=schema_of(FaultPeriods))
