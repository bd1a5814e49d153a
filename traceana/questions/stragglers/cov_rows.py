"""Match jobs with worker samples to the rows of a published CoV table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.stragglers.iterations import iteration_cov
from traceana.questions.stragglers.tables_variation import CovMatch
from traceana.stats.alignment import best_alignment
from traceana.store.clock import with_seconds
from traceana.store.frames import collect, open_frame
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

_LEAST_OVERLAP: Final = 30
_MOST_SAMPLES: Final = 10_000_000


@returns(CovMatch)
def match_cov_rows(
    samples: IntoFrame,
    cov_samples: IntoFrame,
    /,
    *,
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
) -> pl.DataFrame:
    """Match jobs with worker samples to rows of a CoV table.

    A job's CoV is computed at each time step with all of its workers. It is compared with every row
    of the table at every shift at which both share at least half of the shorter one (and 30
    samples). The best shift has the least mean square difference. Time steps are compared in order,
    whatever their length.

    A match is distinguished from chance by rounding. Worker times are published as integers, so
    each may be off by 1/2. To first order, this changes the CoV c = s / m by at most sum_i abs((x_i
    - m) / ((n - ddof) s m) - s / (n m^2)) / 2. If the row is the job under the right ddof, nearly
    all differences are within that bound.

    Parameters
    ----------
    samples
        `worker_samples`: [job_id, worker, time, value].
    cov_samples
        `cov_samples`: [job_id, sample, cov], each (job_id, sample) once.
    time, worker, value
        As in :func:`iteration_cov`.

    Returns
    -------
    DataFrame
        One row per job and ddof, sorted by them:
        {columns}

        All but job_id and ddof are null if no row is long enough.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> times = np.random.default_rng(1).normal(1, 0.1, size=100)
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": np.repeat(range(50), 2),
    ...                         "worker_id": [0, 1] * 50, "batch_time": times})
    >>> cov = traceana.iteration_cov(samples, ddof=1)["cov"]
    >>> published = pl.DataFrame({"job_id": "job_1", "sample": range(50), "cov": cov})
    >>> found = traceana.match_cov_rows(samples, published)
    >>> found.select("job_id", "ddof", "cov_job_id", "overlap").rows()
    [('a', 0, 'job_1', 50), ('a', 1, 'job_1', 50)]
    """
    published = _read_table(cov_samples)
    rows = {
        _text(name): _fill_gaps(row["sample"].to_numpy(), row["cov"].to_numpy())
        for (name,), row in published.group_by("job_id", maintain_order=True)
    }
    roles = {"time": time, "worker": worker}
    frame = open_frame(
        samples, keys=("job_id", worker, time), measures={"value": value}, roles=roles
    )
    times = collect(with_seconds(frame, time)).select(
        "job_id", worker_id=worker, time_s=pl.col(time).cast(pl.Float64), batch_time=value
    )
    found = [
        _best_row(_text(job), ddof, ticks, rows)
        for ddof in (0, 1)
        for (job,), ticks in _cov_and_bound(times, ddof).group_by("job_id", maintain_order=True)
    ]
    table = pl.DataFrame(found, schema=schema_of(CovMatch), orient="row")
    return declared(table.sort("job_id", "ddof"), CovMatch)


def _read_table(cov_samples: IntoFrame) -> pl.DataFrame:
    frame = open_frame(cov_samples, keys=("job_id",), measures=("sample", "cov"))
    table, sample = collect(frame), pl.col("sample")
    odd = table.filter(sample.is_null() | (sample != sample.floor()) | (sample > _MOST_SAMPLES))
    if not odd.is_empty():
        raise DataError(
            f"sample must be an integer up to {_MOST_SAMPLES:,}; {odd.height} row(s) differ, "
            f"such as {odd['sample'][0]!r}"
        )
    repeated = table.select("job_id", "sample").is_duplicated().sum()
    if repeated:
        raise DataError(f"{repeated} row(s) share their (job_id, sample); keep one row of each")
    return table.with_columns(sample.cast(pl.Int64)).sort("job_id", "sample")


def _text(name: object) -> str | None:
    return None if name is None else str(name)


def _fill_gaps(samples: NDArray[np.int64], cov: NDArray[np.float64]) -> NDArray[np.float64]:
    row = np.full(int(samples.max()) + 1, np.nan)
    row[samples] = cov
    return row


def _cov_and_bound(times: pl.DataFrame, ddof: int) -> pl.DataFrame:
    """Return the CoV, null where a worker is missing, and by how much rounding may change it."""
    ticks = iteration_cov(times, ddof=ddof)
    x, m, s, n = (pl.col(name) for name in ("batch_time", "mean", "std", "n_workers"))
    slope = (x - m) / ((n - ddof) * s * m) - s / (n * m**2)
    whole = (x == x.floor()).all()
    bound = (
        times.join(ticks, on=["job_id", "time_s"], nulls_equal=True)
        .filter(s > 0)
        .group_by("job_id", "time_s")
        .agg(bound=pl.when(whole).then(slope.abs().sum() / 2))
    )
    complete = n == n.max().over("job_id")
    return (
        ticks.join(bound, on=["job_id", "time_s"], how="left", nulls_equal=True)
        .with_columns(cov=pl.when(complete).then("cov"))
        .sort("job_id", "time_s")
    )


def _best_row(
    job: str | None, ddof: int, ticks: pl.DataFrame, rows: dict[str | None, NDArray[np.float64]]
) -> tuple[object, ...]:
    cov = ticks["cov"].to_numpy()
    best = None
    for name, row in rows.items():
        least = max(_LEAST_OVERLAP, min(len(cov), len(row)) // 2)
        found = best_alignment(cov, row, min_overlap=least)
        if found and (best is None or found.mean_square < best[1].mean_square):
            best = name, found
    if best is None:
        return (job, ddof, *[None] * 7)
    name, found = best
    row = rows[name]
    first = max(0, found.shift)
    last = min(len(row), found.shift + len(cov))
    mine = slice(first - found.shift, last - found.shift)
    difference = np.abs(cov[mine] - row[first:last])
    known = np.isfinite(difference)
    bound = ticks["bound"].to_numpy()[mine]
    judged = known & np.isfinite(bound)
    within = float(np.mean(difference[judged] <= bound[judged])) if judged.any() else None
    start = int(np.flatnonzero(known)[0])
    return (
        job,
        ddof,
        name,
        first + start,
        int(known.sum()),
        float(difference[known].max()),
        float(np.median(difference[known])),
        float(ticks["time_s"][mine.start + start]),
        within,
    )
