"""Synthetic training plans: model, batch size, iterations and deadline for each job."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.schema import TABLES
from traceana.simulate.frames import read_columns
from traceana.stats.arguments import as_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIGHTNESS: Final = (0.5, 1.5)
"""Ends of the uniform draw of (deadline - submission) / runtime."""

_RATE = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "gpus": pl.Float64,
    "iterations_per_s": pl.Float64,
}


def published_rates() -> pl.DataFrame:
    """Return [model, batch_size, gpus, iterations_per_s] of the ElasticFlow files."""
    text = files(__package__).joinpath("published_rates.csv").read_bytes()
    return pl.read_csv(text, comment_prefix="#", schema=_RATE)


def synthesize_deadlines(
    jobs: pl.DataFrame | pl.LazyFrame,
    /,
    *,
    rng: int | np.random.Generator = 1,
    rates: pl.DataFrame | None = None,
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
) -> pl.DataFrame:
    r"""Draw a training plan for each job by the rules of the ElasticFlow files.

    1. (model, batch size) is drawn with equal probability among the pairs that have a rate at the
       GPUs of the job.
    2. iterations = floor(rate(model, batch size, GPUs) * runtime).
    3. deadline_s = floor(submit + u * runtime) with u uniform on [0.5, 1.5), independent of
       everything else.

    The published files have 1, 2, 4, ..., 64 GPUs. For other counts log(rate) is interpolated
    linearly in log(GPUs); below the smallest count the rate is proportional to the GPUs, above
    the largest it is constant.

    Parameters
    ----------
    jobs
        One row per job: job_id (of any type), optionally cluster, and the columns below; eager or
        lazy. Jobs with a null, or with a runtime or GPU count of zero, get no plan. A null or
        missing cluster becomes ``all``.
    rng
        Seed or generator.
    rates
        [model, batch_size, gpus, iterations_per_s] of :func:`traceana.iteration_rates`; None for
        :func:`published_rates`.
    submit, runtime, gpus
        Columns of the submission (seconds or datetimes), runtime and requested GPUs.

    Returns
    -------
    DataFrame
        A ``training_plans`` table [job_id, cluster, model, batch_size, iterations, deadline_s], in
        the order of the jobs. It is SYNTHETIC, as the published columns are. iterations is at
        least 1.

    Raises
    ------
    DataError
        If a column is missing or of another type, a value is negative or infinite, a (cluster,
        job_id) or rate is not unique, a rate is not above zero, no rate applies to the GPUs of a
        job, or rng is no seed.

    References
    ----------
    Gu et al., ElasticFlow (ASPLOS'23), published traces; the rules' evidence is in
    docs/explanation/deadlines.md.
    """
    generator = as_generator(rng)
    columns = {"submit_s": submit, "runtime_s": runtime, "gpus": gpus}
    known = _check_jobs(jobs, columns)
    if known.select("cluster", "job_id").is_duplicated().any():
        raise DataError("a job occurs twice in the jobs table: (cluster, job_id) must be unique")
    table = published_rates() if rates is None else _check(rates, _RATE, "rates")
    _check_rates(table)
    jobs_known = known.drop_nulls().filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)

    pairs, rate = _rates_at(table, jobs_known["gpus"].to_numpy())
    offered = ~np.isnan(rate)
    if not offered.any(axis=1).all():
        without = jobs_known["gpus"].to_numpy()[~offered.any(axis=1)][0]
        there = ", ".join(f"{gpus:g}" for gpus in table["gpus"].unique().sort())
        raise DataError(f"rates offer no model at {without:g} GPUs; they have rows for {there}")
    # the k-th of the offered pairs, k uniform
    rank = generator.integers(offered.sum(axis=1))
    chosen = np.argmax(np.cumsum(offered, axis=1) > rank[:, None], axis=1)
    times = jobs_known["runtime_s"].to_numpy()
    iterations = np.floor(rate[np.arange(len(times)), chosen] * times)
    tightness = generator.uniform(*TIGHTNESS, size=len(times))
    plans = jobs_known.select("job_id", "cluster").with_columns(
        pairs[chosen],
        iterations=pl.Series(np.maximum(iterations, 1), dtype=pl.Int64),
        deadline_s=pl.Series(np.floor(jobs_known["submit_s"].to_numpy() + tightness * times)),
    )
    return TABLES["training_plans"].validate(plans, cast=True)


def _check_jobs(jobs: pl.DataFrame | pl.LazyFrame, columns: dict[str, str]) -> pl.DataFrame:
    kinds: dict[str, type[pl.DataType]] = {"job_id": pl.String, "cluster": pl.String}
    kinds |= dict.fromkeys(columns.values(), pl.Float64)
    if isinstance(jobs, pl.DataFrame | pl.LazyFrame):
        schema = jobs.lazy().collect_schema()
        if "cluster" not in schema:
            jobs = jobs.with_columns(cluster=pl.lit("all"))
        jobs = jobs.with_columns(
            pl.col(name).dt.epoch("us") / 1e6
            if isinstance(schema[name], pl.Datetime)
            else pl.col(name).dt.total_microseconds() / 1e6
            for name in columns.values()
            if isinstance(schema.get(name), pl.Datetime | pl.Duration)
        )
    table = _check(jobs, kinds, "jobs").rename({old: new for new, old in columns.items()})
    return table.with_columns(pl.col("cluster").fill_null("all"))


def _check(
    given: pl.DataFrame | pl.LazyFrame, needed: dict[str, type[pl.DataType]], what: str
) -> pl.DataFrame:
    table = read_columns(given, needed, what)
    numbers = table.select(pl.selectors.float().fill_nan(None))
    for column in numbers:
        if (column < 0).any() or column.is_infinite().any():
            raise DataError(f"{what}: column {column.name} must be finite and not negative")
    return table.with_columns(numbers)


def _check_rates(rates: pl.DataFrame) -> None:
    if rates.is_empty() or (rates["iterations_per_s"] <= 0).any() or (rates["gpus"] <= 0).any():
        raise DataError("rates must have rows, with iterations_per_s and gpus above 0")
    if sum(rates.null_count().row(0)):
        raise DataError("rates: a null is no rate; leave such rows out")
    if rates.select("model", "batch_size", "gpus").is_duplicated().any():
        raise DataError("rates: (model, batch_size, gpus) must name one row, and one occurs twice")


def _rates_at(
    rates: pl.DataFrame, gpus: NDArray[np.float64]
) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Return the pairs, and the rate of each (job, pair); NaN where a pair has none."""
    pairs = rates.select("model", "batch_size").unique(maintain_order=True)
    counts, of_job = np.unique(gpus, return_inverse=True)
    fewest, most = rates["gpus"].min(), rates["gpus"].max()
    columns = []
    for pair in pairs.iter_rows(named=True):
        own = rates.filter(**pair).sort("gpus")
        points, values = own["gpus"].to_numpy(), own["iterations_per_s"].to_numpy()
        at = np.exp(np.interp(np.log(counts), np.log(points), np.log(values)))
        at = np.where(counts < points[0], values[0] * counts / points[0], at)
        # a count that other pairs know beyond this pair's own range is one it is not offered at
        beyond_low = (counts < points[0]) & (points[0] > fewest)
        beyond_high = (counts > points[-1]) & (points[-1] < most)
        columns.append(np.where(beyond_low | beyond_high, np.nan, at))
    return pairs, np.column_stack(columns)[of_job] if len(gpus) else np.empty((0, pairs.height))
