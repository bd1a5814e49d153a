"""Mean time to failure of a job on several machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.special import gammaln, stdtrit

from traceana.questions.reliability.log import DAY_S, FaultLog, Window, read_log
from traceana.questions.reliability.machines import (
    dispersion_of_total,
    machine_counts,
    measure_dispersion,
    time_blocks,
)
from traceana.questions.reliability.tables import JobFailureIntervals, JobFailureResult
from traceana.stats.arguments import MOST_RESAMPLES, as_generator, check_confidence, check_count
from traceana.stats.counts import dispersion_index, rate_interval
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_MOST_MACHINES = 10**9


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
    resamples: int = 999,
    rng: int | np.random.Generator = 1,
) -> JobFailureResult:
    """Compute the mean time to failure of a job on N machines.

    mean_s is 1 / (r N) with the rate r of faults per machine: exact if faults are independent and
    of one rate. observed_s makes no such assumption: it is the window over the expected number of
    failures of a job whose N machines are drawn at random from those that are up. With k of U
    machines failing at one time, the job fails with probability 1 - C(U - k, N) / C(U, N); faults
    of a machine that is down already do not count. Both assume that a job restarts at once.

    Parameters
    ----------
    faults, machine, start, end, total_machines, window, resamples, rng
        As in :func:`machine_reliability`.
    machines
        Machines N of the job, or several numbers.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    JobFailureResult
        ``.intervals``, one row per number of machines, and ``.dispersion``: a variance near the
        mean, over machines and over time, supports the independence that mean_s assumes.

    Raises
    ------
    DataError
        As :func:`machine_reliability`, or if `machines` is not a whole number from 1 on.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a", "b"], "start_s": [0, 5000], "end_s": [9, 6000]})
    >>> result = traceana.job_failure_interval(
    ...     faults, machines=2, total_machines=4, window=(0, 864_000)
    ... )
    >>> print(result)
    a job on 2 machines fails every 10 d (10 d from the log)
    """
    check_confidence(confidence)
    check_count("resamples", resamples, most=MOST_RESAMPLES)
    sizes = list(machines) if isinstance(machines, Iterable) else [machines]
    for size in sizes:
        check_count("machines", size, most=_MOST_MACHINES)
    log = read_log(
        faults, machine=machine, start=start, end=end,
        total_machines=total_machines, window=window,
    )  # fmt: skip
    dispersion = measure_dispersion(log, resamples=resamples, rng=as_generator(rng))
    n, node_s = log.rows.height, log.node_days * DAY_S
    low, high = rate_interval(
        n, node_s, dispersion=dispersion_of_total(log, log.rows), confidence=confidence
    )
    failing = _failing(log)
    rows = []
    for size in map(int, sizes):
        row: dict[str, Any] = {
            "machines": size,
            "mean_s": node_s / n / size if n else None,
            "ci_low_s": 1 / (float(high) * size),
            "ci_high_s": 1 / (float(low) * size) if n else None,
        }
        rows.append(row | _observed(log, failing, size, confidence))
    return JobFailureResult(
        rate=1000 * n / log.node_days,
        intervals=pl.DataFrame(rows, schema=schema_of(JobFailureIntervals)),
        dispersion=dispersion,
    )


def _failing(log: FaultLog) -> pl.DataFrame:
    """Return the machines that fail at each time and those up before: [start, failing, up]."""
    outages = log.outages()
    begun = outages.group_by("start").agg(failing=pl.len()).sort("start")
    ends = outages["end"].sort()
    earlier = begun["failing"].cum_sum().cast(pl.Int64) - begun["failing"].cast(pl.Int64)
    # a machine that is repaired at that very time is up
    repaired = pl.Series(ends.search_sorted(begun["start"], side="right")).cast(pl.Int64)
    at_once = outages.filter(pl.col("end") == pl.col("start")).group_by("start").len()
    own = begun.join(at_once, on="start", how="left")["len"].fill_null(0).cast(pl.Int64)
    up = log.total_machines - (earlier - (repaired - own))
    return begun.with_columns(up=up)


def _observed(log: FaultLog, failing: pl.DataFrame, size: int, confidence: float) -> dict[str, Any]:
    """Return the window over the expected failures of a job on random machines that are up."""
    if size > log.total_machines:
        return {"note": f"the log is about {log.total_machines:,} machines: none so large ran"}
    begun = failing.filter(pl.col("start") >= log.window_s[0])
    k, up = (begun[name].to_numpy().astype(float) for name in ("failing", "up"))
    n = np.minimum(size, up)
    missed = np.where(
        up - k >= n,
        np.exp(_log_choose(np.maximum(up - k, n), n) - _log_choose(up, n)),
        0.0,
    )
    fails = 1 - missed
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
    return {
        "observed_s": mean,
        "observed_ci_low_s": mean / factor,
        "observed_ci_high_s": mean * factor,
    }


def _log_choose(n: Floats, k: Floats) -> Floats:
    chosen: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return chosen
