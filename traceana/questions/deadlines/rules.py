"""Tests of the rules by which iterations, models and deadlines were generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import stats

from traceana.errors import DataError
from traceana.questions.deadlines.draws import replay_published_draws
from traceana.questions.deadlines.rates import CELL, join_plans, rates_of, with_holm
from traceana.simulate.deadlines.tables import DeadlineRules
from traceana.store.frames import collect, open_frame
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narwhals.stable.v2.typing import IntoFrame


@returns(DeadlineRules)
def deadline_rules(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    *,
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    draws: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Test whether plans follow the rules of the ElasticFlow files.

    Deadlines are whole seconds, so half a second is added to the time until the deadline before
    it is divided by the runtime (tightness).

    Parameters
    ----------
    training_plans, jobs
        As in :func:`iteration_rates`.
    submit, runtime, gpus
        Columns of the submission (seconds or datetimes), the runtime and the requested GPUs.
    draws
        What :func:`replay_published_draws` returns; None computes it.

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

    Raises
    ------
    DataError
        If no plan is left after nulls and zeros.

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
    names = {"submit": submit, "runtime": runtime, "gpus": gpus}
    plans = join_plans(training_plans, jobs, columns=names)
    joined = plans.drop_nulls()
    used = joined.filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0).with_columns(
        tightness=(pl.col("deadline_s") - pl.col("submit_s") + 0.5) / pl.col("runtime_s"),
        pair=pl.format("{} {}", "model", "batch_size"),
    )
    if used.is_empty():
        raise DataError("no training plan has a job with a runtime and GPUs, and no null")
    rates = rates_of(plans).select(*CELL, "iterations_per_s")
    rows = [
        _determined(used, rates),
        *_tightness(used),
        *_models(used),
        *_sequence(replay_published_draws(training_plans) if draws is None else draws),
    ]
    table = pl.DataFrame(
        [(*row, None) for row in rows], schema=schema_of(DeadlineRules), orient="row"
    )
    return declared(with_holm(table), DeadlineRules)


def _determined(used: pl.DataFrame, rates: pl.DataFrame) -> tuple[object, ...]:
    iterations = (pl.col("iterations_per_s") * pl.col("runtime_s")).floor()
    share = used.join(rates, on=CELL).select((iterations == pl.col("iterations")).mean()).item()
    return "iterations are floor(rate * runtime)", used.height, "fraction", share, None


def _tightness(used: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    n, tightness = used.height, used["tightness"].to_numpy()
    fit = stats.kstest(tightness, stats.uniform(0.5, 1).cdf)
    yield "tightness is uniform on [0.5, 1.5)", n, "KS distance", fit.statistic, fit.pvalue
    for name, column in (("runtime", "runtime_s"), ("GPUs", "gpus"), ("submission", "submit_s")):
        values = used[column]
        varies = min(values.n_unique(), used["tightness"].n_unique()) > 1
        rho, p = stats.spearmanr(tightness, values.to_numpy()) if varies else (None, None)
        yield f"tightness does not depend on {name}", n, "Spearman's rho", rho, p
    groups = [
        group["tightness"].to_numpy() for _, group in used.group_by("pair", maintain_order=True)
    ]
    if len(groups) > 1 and n > len(groups):
        h, p = stats.kruskal(*groups)
        value = max((h - len(groups) + 1) / (n - len(groups)), 0.0)
        yield "tightness does not depend on model and batch size", n, "epsilon squared", value, p


def _models(used: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    clusters = used.group_by("cluster", maintain_order=True)
    longest = max((group for _, group in clusters), key=lambda group: group.height)
    counts = longest["pair"].value_counts()["count"].sort().to_numpy()
    if len(counts) > 1:
        chi, p = stats.chisquare(counts)
        w = np.sqrt(chi / longest.height)
        yield "(model, batch size) are equally likely", longest.height, "Cohen's w", w, p
    table = longest.pivot(
        "gpus", index="pair", values="job_id", aggregate_function=pl.len()
    ).fill_null(0)
    seen = table.drop("pair").to_numpy()
    if min(seen.shape) > 1:
        test = stats.chi2_contingency(seen, correction=False)
        v = np.sqrt(test.statistic / longest.height / (min(seen.shape) - 1))
        yield "models do not depend on GPUs", longest.height, "Cramer's V", v, test.pvalue


def _sequence(draws: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    counts = ("n_ordered", "n_as_drawn", "n_passed_over")
    replayed = collect(open_frame(draws, keys=(), measures=counts))
    rule, n = "models are one seeded sequence", int(replayed["n_ordered"].sum())
    if n:
        yield rule, n, "fraction found", replayed["n_as_drawn"].sum() / n, None
        passed = float(replayed["n_passed_over"].sum())
        yield rule, n, "draws passed over a plan", passed / n, None
