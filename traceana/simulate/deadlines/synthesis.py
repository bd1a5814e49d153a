"""Synthetic training plans: model, batch size, iterations and deadline for each job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.schema import TABLES
from traceana.simulate.frames import read_columns
from traceana.stats.arguments import as_generator, is_number
from traceana.stats.arrays import Floats
from traceana.store.frames import column_names

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

TIGHTNESS: Final = (0.5, 1.5)
"""Ends of the uniform draw of (deadline - submission) / runtime in the published files."""
ROLES: Final = {
    "submit": "submit_s",
    "runtime": "runtime_s",
    "gpus": "gpus",
    "deadline": "deadline_s",
}
"""Columns of jobs by the parameter that names them."""

Draw: TypeAlias = Callable[[np.random.Generator, int], "Floats"]
"""Draws n numbers."""


def _uniform(low: float, high: float) -> Draw:
    return lambda generator, n: generator.uniform(low, high, size=n)


def _loguniform(low: float, high: float) -> Draw:
    return lambda generator, n: np.exp(generator.uniform(np.log(low), np.log(high), size=n))


def _triangular(low: float, high: float) -> Draw:
    if low == high:  # numpy refuses it
        return _uniform(low, high)
    return lambda generator, n: generator.triangular(low, (low + high) / 2, high, size=n)


DISTRIBUTIONS: Final = {
    "uniform": _uniform,
    "loguniform": _loguniform,
    "triangular": _triangular,
}
"""Distributions of the tightness between two ends; the triangle has its mode in the middle."""

_MOST_ITERATIONS: Final = 1e15  # that the table can hold
_MOST_TIGHTNESS: Final = 1e6
_RATE: Final[dict[str, type[pl.DataType]]] = {
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
    jobs: IntoFrame,
    /,
    *,
    rng: int | np.random.Generator = 1,
    rates: IntoFrame | None = None,
    tightness: tuple[float, float] = TIGHTNESS,
    distribution: str | Draw = "uniform",
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
) -> pl.DataFrame:
    r"""Draw training plans by the rules of the ElasticFlow files.

    The rules, inferred from the published traces (Gu et al., ASPLOS'23):
    :doc:`/explanation/deadlines`.

    1. (model, batch size) is drawn with equal probability among the pairs that have a rate at the
       GPUs of the job.
    2. iterations = floor(rate(model, batch size, GPUs) * runtime).
    3. deadline_s = floor(submit + u * runtime) with u uniform on [0.5, 1.5), independent of
       everything else; `tightness` and `distribution` change the law of u.

    The published files have 1, 2, 4, ..., 64 GPUs. For other counts log(rate) is interpolated
    linearly in log(GPUs); below the smallest count the rate is proportional to the GPUs, above
    the largest it is constant.

    Parameters
    ----------
    jobs
        One row per job: job_id (of any type), optionally cluster, and the columns below; eager or
        lazy, of any supported engine. Jobs with a null, an empty job_id, or a runtime or GPU count
        of zero get no plan. An empty, null or missing cluster becomes ``all``.
    rng
        Seed or generator.
    rates
        [model, batch_size, gpus, iterations_per_s] of :func:`traceana.iteration_rates`; None for
        :func:`published_rates`.
    tightness
        Ends of the distribution of (deadline - submission) / runtime.
    distribution
        "uniform", "loguniform" or "triangular" between these ends, or a function of (generator, n)
        that returns n values of the tightness; then the ends are ignored.
    submit, runtime, gpus
        Columns of the submission (seconds or datetimes), the runtime and the requested GPUs.

    Returns
    -------
    DataFrame
        A ``training_plans`` table [job_id, cluster, model, batch_size, iterations, deadline_s], in
        the order of the jobs. It is SYNTHETIC, as the published columns are. iterations is at
        least 1.

    Raises
    ------
    DataError
        If a (cluster, job_id) or rate is not unique, or no rate applies to the GPUs of a job.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [0], "runtime_s": [100], "gpus": [1]})
    >>> traceana.synthesize_deadlines(jobs, tightness=(2, 2))["deadline_s"].item()
    200.0
    """
    generator = as_generator(rng)
    draw = _draw_of(tightness, distribution)
    table_read = read_jobs(jobs, {"submit": submit, "runtime": runtime, "gpus": gpus})
    if table_read.drop_nulls("job_id").select("cluster", "job_id").is_duplicated().any():
        raise DataError("a job occurs twice in the jobs table: (cluster, job_id) must be unique")
    table = published_rates() if rates is None else _check(rates, _RATE, "rates")
    _check_rates(table)
    jobs_known = table_read.drop_nulls().filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)

    pairs, rate = _rates_at(table, jobs_known["gpus"].to_numpy())
    offered = ~np.isnan(rate)
    if not offered.any(axis=1).all():
        without = jobs_known["gpus"].to_numpy()[~offered.any(axis=1)][0]
        sizes = ", ".join(f"{gpus:g}" for gpus in table["gpus"].unique().sort())
        raise DataError(f"rates offer no model at {without:g} GPUs; they have rows for {sizes}")
    # the k-th of the offered pairs, k uniform
    rank = generator.integers(offered.sum(axis=1))
    chosen = np.argmax(np.cumsum(offered, axis=1) > rank[:, None], axis=1)
    times = jobs_known["runtime_s"].to_numpy()
    iterations = np.floor(rate[np.arange(len(times)), chosen] * times)
    if (iterations > _MOST_ITERATIONS).any():
        raise DataError(f"a job would have more than {_MOST_ITERATIONS:g} iterations")
    try:
        drawn = np.asarray(draw(generator, len(times)), dtype=float)
    except (TypeError, ValueError):
        drawn = np.empty(0)
    if drawn.shape != times.shape or not ((drawn >= 0) & (drawn <= _MOST_TIGHTNESS)).all():
        raise DataError(
            f"distribution must return {len(times)} numbers from 0 to {_MOST_TIGHTNESS:g}"
        )
    plans = jobs_known.select("job_id", "cluster").with_columns(
        pairs[chosen],
        iterations=pl.Series(np.maximum(iterations, 1), dtype=pl.Int64),
        deadline_s=pl.Series(np.floor(jobs_known["submit_s"].to_numpy() + drawn * times)),
    )
    return TABLES["training_plans"].validate(plans, cast=True)


def _draw_of(tightness: tuple[float, float], distribution: str | Draw) -> Draw:
    if callable(distribution):
        return distribution
    if distribution not in DISTRIBUTIONS:
        raise DataError(
            f"distribution must be {', '.join(DISTRIBUTIONS)} or a function of (generator, n); it "
            f"is {distribution!r}"
        )
    try:
        low, high = tightness
    except (TypeError, ValueError):
        low = high = -1.0
    lowest = np.nextafter(0, 1) if distribution == "loguniform" else 0.0
    if not (is_number(low) and is_number(high) and lowest <= low <= high <= _MOST_TIGHTNESS):
        above = "above 0" if lowest else "0 or more"
        raise DataError(
            f"tightness must be two numbers, {above} and in order, {_MOST_TIGHTNESS:g} at most; it "
            f"is {tightness!r}"
        )
    return DISTRIBUTIONS[distribution](low, high)


def read_jobs(jobs: IntoFrame, columns: Mapping[str, str], /) -> pl.DataFrame:
    """Return [job_id, cluster] as text and columns by role as [submit_s, runtime_s, ...].

    An empty id is null, and an empty, null or missing cluster is ``all``.
    """
    kinds: dict[str, type[pl.DataType]] = {"job_id": pl.String}
    if "cluster" in column_names(jobs):
        kinds["cluster"] = pl.String
    kinds |= dict.fromkeys(columns.values(), pl.Float64)
    table = _check(jobs, kinds, "jobs", roles=columns)
    if "cluster" not in kinds:
        table = table.with_columns(cluster=pl.lit(None, pl.String))
    return table.select(
        pl.when(pl.col("job_id") != "").then("job_id"),
        pl.when(pl.col("cluster") != "").then("cluster").otherwise(pl.lit("all")).alias("cluster"),
        *(pl.col(name).alias(ROLES[role]) for role, name in columns.items()),
    )


def _check(
    given: IntoFrame,
    needed: dict[str, type[pl.DataType]],
    what: str,
    *,
    roles: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    table = read_columns(given, needed, what, roles=roles)
    for column in table.select(pl.selectors.numeric()):
        if (column < 0).any():
            raise DataError(f"{what}: column {column.name} must be finite and not negative")
    return table


def _check_rates(rates: pl.DataFrame) -> None:
    if rates.is_empty() or (rates["iterations_per_s"] <= 0).any() or (rates["gpus"] <= 0).any():
        raise DataError("rates must have rows, with iterations_per_s and gpus above 0")
    if sum(rates.null_count().row(0)):
        raise DataError("rates: a null is no rate; leave such rows out")
    if rates.select("model", "batch_size", "gpus").is_duplicated().any():
        raise DataError("rates: (model, batch_size, gpus) must name one row, and one occurs twice")


def _rates_at(rates: pl.DataFrame, gpus: Floats) -> tuple[pl.DataFrame, Floats]:
    """Return the pairs, and the rate of each (job, pair); NaN where a pair has none."""
    pairs = rates.select("model", "batch_size").unique(maintain_order=True)
    counts, of_job = np.unique(gpus, return_inverse=True)
    fewest, most = rates["gpus"].min(), rates["gpus"].max()
    columns = []
    for pair in pairs.iter_rows(named=True):
        of_pair = rates.filter(**pair).sort("gpus")
        points, values = of_pair["gpus"].to_numpy(), of_pair["iterations_per_s"].to_numpy()
        at = np.exp(np.interp(np.log(counts), np.log(points), np.log(values)))
        at = np.where(counts < points[0], values[0] * counts / points[0], at)
        # a count that other pairs know beyond this pair's own range is one it is not offered at
        beyond_low = (counts < points[0]) & (points[0] > fewest)
        beyond_high = (counts > points[-1]) & (points[-1] < most)
        columns.append(np.where(beyond_low | beyond_high, np.nan, at))
    return pairs, np.column_stack(columns)[of_job] if len(gpus) else np.empty((0, pairs.height))
