"""Draw model, batch size, iterations and deadline for each job of a jobs table."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.schema import TABLES
from traceana.stats.arguments import as_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIGHTNESS: Final = (0.5, 1.5)
"""Ends of the uniform draw of (deadline - submission) / runtime."""

_NEEDED = {
    "job_id": pl.String,
    "cluster": pl.String,
    "submit_s": pl.Float64,
    "runtime_s": pl.Float64,
    "gpus": pl.Float64,
}
_RATE = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "gpus": pl.Float64,
    "iterations_per_s": pl.Float64,
}


def published_rates() -> pl.DataFrame:
    """Return [model, batch_size, gpus, iterations_per_s] as the ElasticFlow files imply it.

    It is what ``iteration_rates`` finds in these files, kept here so that plans can be drawn
    without them.
    """
    text = files(__package__).joinpath("published_rates.csv").read_bytes()
    return pl.read_csv(text, comment_prefix="#", schema=_RATE)


def synthesize_deadlines(
    jobs: pl.DataFrame | pl.LazyFrame,
    /,
    *,
    rng: int | np.random.Generator | None = None,
    rates: pl.DataFrame | None = None,
) -> pl.DataFrame:
    r"""Draw a training plan for each job, by the rules found in the ElasticFlow files.

    1. Model and batch size are drawn together, each (model, batch size) as likely as any other,
       among those that the rates offer at the job's GPUs.
    2. iterations = floor(rate(model, batch size, GPUs) * runtime_s): determined, not drawn.
    3. deadline_s = floor(submit_s + u * runtime_s), u uniform on [0.5, 1.5), independent of
       everything else.

    The published files know 1, 2, 4, ..., 64 GPUs. Other counts are our extension: between two
    known counts log(rate) is linear in log(GPUs), below the smallest the rate is in proportion to
    the GPUs, above the largest it stays.

    Parameters
    ----------
    jobs
        One row a job: [job_id, cluster, submit_s, runtime_s, gpus]; eager or lazy. A job of which
        one of submit_s, runtime_s, gpus or job_id is null, or runtime_s or gpus is zero, gets no
        plan. A null cluster becomes ``all``.
    rng
        Seed or generator; None is seed 0. The same seed and jobs give the same plans.
    rates
        [model, batch_size, gpus, iterations_per_s], as :func:`traceana.iteration_rates` gives it;
        None for :func:`published_rates`.

    Returns
    -------
    DataFrame
        A ``training_plans`` table [job_id, cluster, model, batch_size, iterations, deadline_s], in
        the order of the jobs. It is SYNTHETIC, like the published columns themselves. iterations
        is at least 1.

    Raises
    ------
    DataError
        If a column is missing or of another type, a value is negative or infinite, a (cluster,
        job_id) is not unique, a rate is not above zero or stands twice, no rate is given at all or
        none at a job's GPUs, or rng is no seed.

    References
    ----------
    Gu et al., ElasticFlow (ASPLOS'23), published traces; the rules' evidence is in
    docs/explanation/deadlines.md.
    """
    generator = as_generator(0 if rng is None else rng)
    known = _check(jobs, _NEEDED, "jobs").with_columns(pl.col("cluster").fill_null("all"))
    if known.select("cluster", "job_id").is_duplicated().any():
        raise DataError("a job stands twice in the jobs table: (cluster, job_id) must name one row")
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
    runtime = jobs_known["runtime_s"].to_numpy()
    iterations = np.floor(rate[np.arange(len(runtime)), chosen] * runtime)
    tightness = generator.uniform(*TIGHTNESS, size=len(runtime))
    plans = jobs_known.select("job_id", "cluster").with_columns(
        pairs[chosen],
        iterations=pl.Series(np.maximum(iterations, 1), dtype=pl.Int64),
        deadline_s=pl.Series(np.floor(jobs_known["submit_s"].to_numpy() + tightness * runtime)),
    )
    return TABLES["training_plans"].validate(plans, cast=True)


def _check(
    given: pl.DataFrame | pl.LazyFrame, needed: dict[str, type[pl.DataType]], what: str
) -> pl.DataFrame:
    if not isinstance(given, pl.DataFrame | pl.LazyFrame):
        raise DataError(f"{what}: a Polars frame is needed; found {type(given).__name__}")
    frame = given.lazy()
    there = frame.collect_schema().names()
    missing = [name for name in needed if name not in there]
    if missing:
        raise DataError(
            f"{what}: column {', '.join(missing)} is missing; there is {', '.join(there) or 'none'}"
        )
    try:
        table = frame.select(pl.col(name).cast(kind) for name, kind in needed.items()).collect()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{what}: {str(error).splitlines()[0]}") from None
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
        raise DataError("rates: (model, batch_size, gpus) must name one row, and one stands twice")


def _rates_at(
    rates: pl.DataFrame, gpus: NDArray[np.float64]
) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Return the pairs, and the rate of each (job, pair); NaN where a pair is not offered."""
    pairs = rates.select("model", "batch_size").unique(maintain_order=True)
    counts, of_job = np.unique(gpus, return_inverse=True)
    least_of_all, most_of_all = rates["gpus"].min(), rates["gpus"].max()
    columns = []
    for pair in pairs.iter_rows(named=True):
        own = rates.filter(**pair).sort("gpus")
        points, values = own["gpus"].to_numpy(), own["iterations_per_s"].to_numpy()
        at = np.exp(np.interp(np.log(counts), np.log(points), np.log(values)))
        at = np.where(counts < points[0], values[0] * counts / points[0], at)
        # a count that other pairs know beyond this pair's own range is one it is not offered at
        beyond_low = (counts < points[0]) & (points[0] > least_of_all)
        beyond_high = (counts > points[-1]) & (points[-1] < most_of_all)
        columns.append(np.where(beyond_low | beyond_high, np.nan, at))
    return pairs, np.column_stack(columns)[of_job] if len(gpus) else np.empty((0, pairs.height))
