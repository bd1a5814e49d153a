"""Training plans joined with their jobs: throughput, rules, draws and tightness of deadlines."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

import numpy as np
import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import with_adjusted
from traceana.errors import DataError
from traceana.simulate.deadlines import tables
from traceana.simulate.schedule.capacity import implied_rates
from traceana.stats.intervals import wilson_interval
from traceana.store.frames import Names, as_keys, collect, open_frame, reading
from traceana.tables.declare import declared, interval_columns, returns, schema_of

_PUBLISHED: Final = tomllib.loads(
    files("traceana.simulate.deadlines").joinpath("published.toml").read_text(encoding="utf-8")
)
PAIRS: Final = tuple((model, batch_size) for model, batch_size in _PUBLISHED["pairs"])
"""The pairs of model and batch size, in the order in which the published draws number them."""


@returns(tables.PublishedDraws)
def replay_published_draws(
    training_plans: IntoFrame, /, *, testbed: str = "195job"
) -> pl.DataFrame:
    """Compare the models of plans with one seeded sequence of draws.

    Job ids of the ElasticFlow files are the first 128-bit numbers of Python's generator with seed
    42. In their order the (model, batch size) pairs of each file, without the jobs of the testbed,
    follow ``random.Random(0).choice`` over 14 pairs. A draw that is passed over belongs to another
    job, or to a pair without a rate at the GPUs. Other draws would pass over 13 per job.

    Parameters
    ----------
    training_plans
        [cluster, job_id, model, batch_size]; eager or lazy, of any supported engine.
    testbed
        Cluster whose jobs repeat those of the others.

    Returns
    -------
    DataFrame
        Sorted by cluster:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> plans = pl.DataFrame(
    ...     {"cluster": "c1", "job_id": "a", "model": ["vgg16"], "batch_size": 64}
    ... )
    >>> found = traceana.replay_published_draws(plans)
    >>> found.select("cluster", "n", "n_as_drawn", "n_passed_over").rows()
    [('c1', 1, 0, None)]
    """
    lazy = open_frame(training_plans, keys=("cluster", "job_id", "model"), measures=("batch_size",))
    plans = collect(lazy).cast({"cluster": pl.String, "job_id": pl.String, "model": pl.String})
    place = _places(set(plans["job_id"].drop_nulls().to_list()))
    repeated = set(plans.filter(cluster=testbed)["job_id"].to_list())
    rows = []
    for (cluster,), group in sorted(plans.group_by("cluster"), key=lambda item: str(item[0][0])):
        complete = group.select("job_id", "model", "batch_size").drop_nulls().iter_rows()
        ordered = sorted(
            (place[job], (model, int(batch)))
            for job, model, batch in complete
            if job in place and (cluster == testbed or job not in repeated)
        )
        matched, passed = _walk([pair for _, pair in ordered])
        rows.append((cluster, group.height, len(ordered), matched, passed if ordered else None))
    schema = schema_of(tables.PublishedDraws) | {"cluster": pl.String()}
    return declared(pl.DataFrame(rows, schema=schema, orient="row"), tables.PublishedDraws)


def _places(ids: set[str]) -> dict[str, int]:
    """Give each id its place in the id generator's sequence, as far as ids follow it."""
    generator = random.Random(_PUBLISHED["id_seed"])  # noqa: S311 - the publishers' own
    place = {}
    # the published ids are the first so many numbers, none left out
    for position in range(len(ids)):
        bits = f"{generator.getrandbits(128):032x}"
        name = f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"  # a UUID
        if name in ids:
            place[name] = position
    return place


def _walk(pairs: list[tuple[str, int]]) -> tuple[int, int]:
    """Return how many pairs are draws of the models in their order, and draws passed over."""
    generator = random.Random(_PUBLISHED["model_seed"])  # noqa: S311 - the publishers' own
    limit = 20 * len(pairs)
    passed = matched = taken = 0
    for pair in pairs:
        waited = 0
        while taken < limit:
            taken += 1
            if generator.choice(PAIRS) == pair:
                matched, passed = matched + 1, passed + waited
                break
            waited += 1
    return matched, passed


KEY = ("cluster", "job_id")
CELL = ("model", "batch_size", "gpus")
"""Key of a throughput."""
_LARGEST = 1e15


def join_plans(
    training_plans: IntoFrame, jobs: IntoFrame, /, *, by: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the plans whose job is known, with the job's *by, submit_s, runtime_s and gpus."""
    measures = ("batch_size", "iterations", "deadline_s")
    plans = _with_key(collect(open_frame(training_plans, keys=(*KEY, "model"), measures=measures)))
    measured = ("submit_s", "runtime_s", "gpus")
    of_jobs = tuple(name for name in by if name not in (*plans.columns, *measured))
    known_jobs = _with_key(collect(open_frame(jobs, keys=(*KEY, *of_jobs), measures=measured)))
    if known_jobs.select(KEY).is_duplicated().any():
        raise DataError("a job occurs twice in the jobs table: (cluster, job_id) must be unique")
    joined = plans.join(known_jobs, on=KEY, maintain_order="left")
    if joined.is_empty():
        raise DataError("no training plan has its job: cluster and job_id of the two tables differ")
    for name in ("batch_size", "iterations"):
        if ((joined[name] % 1 != 0) | (joined[name] > _LARGEST)).any():
            raise DataError(f"column {name} must hold whole numbers, {_LARGEST:g} at most")
    return joined.with_columns(pl.col("batch_size", "iterations").cast(pl.Int64))


def _with_key(rows: pl.DataFrame) -> pl.DataFrame:
    texts = pl.selectors.by_name(*KEY, "model", require_all=False)
    categories = pl.selectors.categorical() | pl.selectors.enum()
    cluster = pl.when(pl.col("cluster") != "").then("cluster").otherwise(pl.lit("all"))
    with reading():  # no engine writes a duration as text
        return rows.cast({categories | texts: pl.String}).with_columns(cluster=cluster)


def usable_plans(joined: pl.DataFrame, which: str, /, *, half_s: float = 0.0) -> pl.DataFrame:
    """Return joined plans without a null or zero, with their tightness and (model, batch size)."""
    needed = (*CELL, "iterations", "deadline_s", "submit_s", "runtime_s")
    left = pl.col("deadline_s") - pl.col("submit_s") + half_s
    used = (
        joined.drop_nulls(needed)
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .with_columns(
            tightness=left / pl.col("runtime_s"), pair=pl.format("{} {}", "model", "batch_size")
        )
    )
    if used.is_empty():
        raise DataError(f"no {which} plan has a job with a runtime and GPUs, and no null")
    return used


@returns(tables.IterationRates)
def iteration_rates(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
) -> pl.DataFrame:
    r"""Compute iterations per second per model, batch size and GPUs.

    If the iterations i of a plan (ElasticFlow, ASPLOS'23) are floor(x t) with runtime t and a
    throughput x of its model, batch size and GPUs, each plan gives bounds of x: :math:`i / t \le x
    < (i + 1) / t`. Where the bounds of all plans of a cell overlap, the middle of the overlap is
    the estimate; otherwise the median of i / t is.

    Parameters
    ----------
    training_plans
        One row per plan: [cluster, job_id, model, batch_size, iterations, deadline_s].
    jobs
        One row per job: [cluster, job_id, submit_s (seconds or datetimes), runtime_s, gpus]. Both
        eager or lazy, of any supported engine. Plans without their job, and rows with a null or
        with a runtime or GPU count of zero, are excluded.

    Returns
    -------
    DataFrame
        Sorted by model, batch size and GPUs:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> plans, jobs = (store.scan("elasticflow-2023", t) for t in ("training_plans", "jobs"))
    >>> rates = traceana.iteration_rates(plans, jobs).filter(model="vgg16", batch_size=256)
    >>> rates.select("gpus", pl.col("scaling_efficiency").round(2)).head(3).rows()
    [(1.0, 1.0), (2.0, 0.96), (4.0, 0.87)]
    """
    return rates_of(join_plans(training_plans, jobs))


def rates_of(joined: pl.DataFrame, /) -> pl.DataFrame:
    """Compute :func:`iteration_rates` of plans joined with their jobs."""
    cells = implied_rates(joined).with_columns(
        pl.when("is_one_rate").then(pl.col("lowest", "highest"))
    )
    on_one = cells.filter(gpus=1.0).select("model", "batch_size", on_one="iterations_per_s")
    efficiency = pl.col("iterations_per_s") / (pl.col("gpus") * pl.col("on_one"))
    table = cells.join(on_one, on=CELL[:2], how="left", maintain_order="left").with_columns(
        pl.when(pl.col("median") > 0).then("spread"),
        samples_per_s=pl.col("iterations_per_s") * pl.col("batch_size"),
        scaling_efficiency=pl.when(pl.col("on_one") > 0).then(efficiency),
    )
    return declared(table, tables.IterationRates)


@returns(tables.DeadlineRules)
def deadline_rules(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
) -> pl.DataFrame:
    """Test whether plans follow the rules of the ElasticFlow files.

    Deadlines are whole seconds, so half a second is added to the time until the deadline before
    it is divided by the runtime (tightness).

    Parameters
    ----------
    training_plans, jobs
        As in :func:`iteration_rates`.

    Returns
    -------
    DataFrame
        One row per test:

        - ``iterations are floor(rate * runtime)``: fraction of plans, with one rate for each
          (model, batch size, GPUs).
        - ``tightness is uniform on [0.5, 1.5)``: Kolmogorov-Smirnov distance and exact p.
        - ``tightness does not depend on`` runtime, GPUs, submission: Spearman's rho; on model and
          batch size: epsilon squared of Kruskal and Wallis.
        - ``(model, batch size) are equally likely``: Cohen's w of Pearson's chi-squared over the
          longest file only, since the files repeat each other's draws.
        - ``models do not depend on GPUs``: Cramer's V over model and batch size by GPUs.
        - ``models are one seeded sequence``: fraction of plans with an id in the sequence that
          :func:`replay_published_draws` finds, and the draws it passed over.
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"cluster": "c1", "job_id": ["a", "b"], "submit_s": 0.0,
    ...                      "runtime_s": [100.0, 150.0], "gpus": 1})
    >>> plans = jobs.select("cluster", "job_id", model=pl.lit("vgg16"), batch_size=64).with_columns(
    ...     iterations=pl.Series([300, 450]), deadline_s=pl.Series([90.0, 200.0])
    ... )
    >>> traceana.deadline_rules(plans, jobs).head(1).select("rule", "n", "value").rows()
    [('iterations are floor(rate * runtime)', 2, 1.0)]
    """
    plans = join_plans(training_plans, jobs)
    used = usable_plans(plans, "training", half_s=0.5)
    rates = rates_of(plans).select(*CELL, "iterations_per_s")
    iterations = (pl.col("iterations_per_s") * pl.col("runtime_s")).floor()
    as_ruled = (iterations == pl.col("iterations")).mean()
    determined = used.join(rates, on=CELL).select(as_ruled).item()
    rows = [
        ("iterations are floor(rate * runtime)", used.height, "fraction", determined, None),
        *_tightness(used),
        *_models(used),
        *_sequence(replay_published_draws(training_plans)),
    ]
    adjusted = [(*row, None) for row in rows]
    table = pl.DataFrame(adjusted, schema=schema_of(tables.DeadlineRules), orient="row")
    return declared(with_adjusted(table.fill_nan(None)), tables.DeadlineRules)


def _tightness(used: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    n, tightness = used.height, used["tightness"].to_numpy()
    fit = scipy.stats.kstest(tightness, scipy.stats.uniform(0.5, 1).cdf)
    yield "tightness is uniform on [0.5, 1.5)", n, "KS distance", fit.statistic, fit.pvalue
    for name, column in (("runtime", "runtime_s"), ("GPUs", "gpus"), ("submission", "submit_s")):
        values = used[column]
        varies = min(values.n_unique(), used["tightness"].n_unique()) > 1
        rho, p = scipy.stats.spearmanr(tightness, values.to_numpy()) if varies else (None, None)
        yield f"tightness does not depend on {name}", n, "Spearman's rho", rho, p
    pairs = used.group_by("pair", maintain_order=True)
    groups = [group["tightness"].to_numpy() for _, group in pairs]
    if len(groups) > 1 and n > len(groups):
        h, p = scipy.stats.kruskal(*groups)
        value = max((h - len(groups) + 1) / (n - len(groups)), 0.0)
        yield "tightness does not depend on model and batch size", n, "epsilon squared", value, p


def _models(used: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    clusters = used.group_by("cluster", maintain_order=True)
    longest = max((group for _, group in clusters), key=lambda group: group.height)
    counts = longest["pair"].value_counts()["count"].sort().to_numpy()
    if len(counts) > 1:
        chi, p = scipy.stats.chisquare(counts)
        w = np.sqrt(chi / longest.height)
        yield "(model, batch size) are equally likely", longest.height, "Cohen's w", w, p
    table = longest.pivot("gpus", index="pair", values="job_id", aggregate_function=pl.len())
    seen = table.drop("pair").fill_null(0).to_numpy()
    if min(seen.shape) > 1:
        test = scipy.stats.chi2_contingency(seen, correction=False)
        v = np.sqrt(test.statistic / longest.height / (min(seen.shape) - 1))
        yield "models do not depend on GPUs", longest.height, "Cramer's V", v, test.pvalue


def _sequence(draws: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    rule, n = "models are one seeded sequence", int(draws["n_ordered"].sum())
    if n:
        yield rule, n, "fraction found", draws["n_as_drawn"].sum() / n, None
        passed = float(draws["n_passed_over"].sum())
        yield rule, n, "draws passed over a plan", passed / n, None


_QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}


@returns(tables.DeadlineTightness)
def deadline_tightness(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute the tightness of deadlines and the fraction that is feasible.

    Tightness is (deadline_s - submit) / runtime, with the runtime at the requested GPUs. At 1 or
    above, a job that starts when submitted meets the deadline at these GPUs. Queueing is not
    modeled, so the fractions are upper bounds for any scheduler that runs jobs as requested.
    `n_met_fastest` counts the deadlines met with more GPUs: at the highest rate that
    :func:`iteration_rates` finds for the model and batch size, or in the job's own runtime.

    Parameters
    ----------
    training_plans, jobs
        As in :func:`iteration_rates`.
    by
        Columns of plans or jobs to group by, such as cluster, model or gpus. By default all rows
        are one group.
    confidence
        Coverage of the Wilson intervals, in (0, 1); they treat deadlines as independent.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last. Quantiles interpolate linearly (type 7 of Hyndman and Fan,
        1996). The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> plans, jobs = (store.scan("elasticflow-2023", t) for t in ("training_plans", "jobs"))
    >>> found = traceana.deadline_tightness(plans, jobs)
    >>> found.select("n", pl.col("fraction_met", "tightness_median").round(1)).rows()
    [(2081, 0.5, 1.0)]
    """
    keys = as_keys(by, tables.DeadlineTightness.columns())
    joined = join_plans(training_plans, jobs, by=keys)
    rates = rates_of(joined)
    best = rates.group_by("model", "batch_size").agg(best=pl.col("iterations_per_s").max())
    left = pl.col("deadline_s") - pl.col("submit_s")
    fastest = pl.min_horizontal("runtime_s", pl.col("iterations") / pl.col("best"))
    used = (
        joined.join(best, on=CELL[:2], how="left")
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .with_columns(tightness=left / pl.col("runtime_s"), in_time=left >= fastest)
        .filter(pl.col("tightness").is_finite(), pl.col("in_time").is_not_null())
    )
    tightness = pl.col("tightness")
    shares = [
        pl.len().cast(pl.Int64).alias("n"),
        (tightness >= 1).sum().cast(pl.Int64).alias("n_met"),
        pl.col("in_time").sum().cast(pl.Int64).alias("n_met_fastest"),
        tightness.min().alias("tightness_min"),
        *(tightness.quantile(q, "linear").alias(f"tightness_{p}") for p, q in _QUANTILES.items()),
        tightness.max().alias("tightness_max"),
    ]
    table = used.select(shares)
    if keys:
        table = used.group_by(keys).agg(shares).sort(keys, nulls_last=True)
    any_plan = pl.when(pl.col("n") > 0)
    rows = table.with_columns(
        fraction_met=any_plan.then(pl.col("n_met") / pl.col("n")),
        **interval_columns(wilson_interval(table["n_met"], table["n"], confidence=confidence)),
        fraction_met_fastest=any_plan.then(pl.col("n_met_fastest") / pl.col("n")),
    )
    return declared(rows, tables.DeadlineTightness, by=keys)
