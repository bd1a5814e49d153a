"""Whether jobs with worker samples are rows of a published CoV table, and with which ddof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import collect, open_frame
from traceana.analysis.variation.iterations import iteration_cov
from traceana.errors import DataError
from traceana.stats.alignment import best_alignment

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

_LEAST_OVERLAP: Final = 30
_MOST_SAMPLES: Final = 10_000_000
_SCHEMA: Final = {
    "job_id": pl.String,
    "cov_job_id": pl.String,
    "first_sample": pl.Int64,
    "overlap": pl.Int64,
    "ddof": pl.Int64,
    "max_abs_difference": pl.Float64,
    "median_abs_difference": pl.Float64,
    "first_time_s": pl.Float64,
    "share_within_rounding": pl.Float64,
}


def match_cov_rows(samples: IntoFrame, cov_samples: IntoFrame, /) -> pl.DataFrame:
    """Find the row of a CoV table that each job of worker samples is most like.

    A job's CoV is taken at each tick that has all the workers the job ever has, and laid along
    every row of the table at every shift at which they share at least half of the shorter one
    (and 30 samples); the best shift has the least mean square difference. Ticks count in order:
    a step that is shorter than the others is one tick too.

    A difference is told from chance by rounding: worker times are published as whole numbers, so
    each may be off by 1/2, which to first order moves the CoV c = s / m by at most
    sum_i abs((x_i - m) / ((n - ddof) s m) - s / (n m^2)) / 2. Where the row is the job under the
    right ddof, nearly all differences are within that.

    Parameters
    ----------
    samples
        `worker_samples`: [job_id, worker_id, time_s, batch_time].
    cov_samples
        `cov_samples`: [job_id, sample, cov].

    Returns
    -------
    DataFrame
        Best match a job and ddof, sorted by them: [job_id, cov_job_id, first_sample, overlap,
        ddof, max_abs_difference, median_abs_difference, first_time_s, share_within_rounding].
        The overlap counts the samples compared; it begins at first_sample of the row and at
        first_time_s of the job. share_within_rounding is null where worker times are not whole
        numbers. All but job_id and ddof are null where no row is long enough.

    Raises
    ------
    DataError
        As :func:`iteration_cov`; if a column of `cov_samples` is missing or out of range, or
        `sample` is not a whole number; or if a (job_id, sample) has two rows.
    """
    published = _read_table(cov_samples)
    rows = {
        _text(name): _fill_gaps(row["sample"].to_numpy(), row["cov"].to_numpy())
        for (name,), row in published.group_by("job_id", maintain_order=True)
    }
    times = collect(
        open_frame(samples, keys=("job_id", "worker_id"), measures=("time_s", "batch_time"))
    )
    found = [
        _best_row(_text(job), ddof, ticks, rows)
        for ddof in (0, 1)
        for (job,), ticks in _cov_and_bound(times, ddof).group_by("job_id", maintain_order=True)
    ]
    return pl.DataFrame(found, schema=_SCHEMA, orient="row").sort("job_id", "ddof")


def _read_table(cov_samples: IntoFrame) -> pl.DataFrame:
    frame = open_frame(cov_samples, keys=("job_id",), measures=("sample", "cov"))
    table, sample = collect(frame), pl.col("sample")
    odd = table.filter(sample.is_null() | (sample != sample.floor()) | (sample > _MOST_SAMPLES))
    if not odd.is_empty():
        raise DataError(
            f"sample must be a whole number up to {_MOST_SAMPLES:,}; it is "
            f"{odd['sample'][0]!r} in {odd.height} row(s), or the like"
        )
    repeated = table.select("job_id", "sample").is_duplicated().sum()
    if repeated:
        raise DataError(f"{repeated} row(s) share their (job_id, sample): a sample has one CoV")
    return table.with_columns(sample.cast(pl.Int64)).sort("job_id", "sample")


def _text(name: object) -> str | None:
    return None if name is None else str(name)


def _fill_gaps(samples: NDArray[np.int64], cov: NDArray[np.float64]) -> NDArray[np.float64]:
    row = np.full(int(samples.max()) + 1, np.nan)
    row[samples] = cov
    return row


def _cov_and_bound(times: pl.DataFrame, ddof: int) -> pl.DataFrame:
    """Return each tick's CoV, null where a worker is absent, and what rounding may move it by."""
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
        return (job, None, None, None, ddof, None, None, None, None)
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
        name,
        first + start,
        int(known.sum()),
        ddof,
        float(difference[known].max()),
        float(np.median(difference[known])),
        float(ticks["time_s"][mine.start + start]),
        within,
    )
