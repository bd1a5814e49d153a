"""Results on training plans that claims and sections share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final
from warnings import catch_warnings

import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used
from narwhals.stable.v2.typing import IntoFrame

from traceana import simulate
from traceana.cohorts.cohort import with_adjusted
from traceana.cohorts.observation import window_of
from traceana.errors import DataError
from traceana.questions.deadlines.rates import (
    CELL,
    deadline_rules,
    deadline_tightness,
    iteration_rates,
    join_plans,
    rates_of,
    usable_plans,
)
from traceana.simulate.deadlines.tables import PlanComparison
from traceana.store import Trace
from traceana.store.frames import Names, as_keys
from traceana.tables.declare import declared, returns, schema_of


@returns(PlanComparison)
def compare_plans(
    training_plans: IntoFrame,
    synthetic_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    by: Names = (),
) -> pl.DataFrame:
    """Compare synthetic plans with the published plans of the same jobs.

    Parameters
    ----------
    training_plans, synthetic_plans
        Published and synthetic plans, as in :func:`iteration_rates`.
    jobs
        The jobs of both.
    by
        Columns of both to compare within, such as cluster. By default all rows are one group.

    Returns
    -------
    DataFrame
        In each group:

        - ``tightness`` and ``iterations``: two-sample Kolmogorov-Smirnov distance and p. Both
          iterations depend on the same runtimes, which makes their p too large.
        - ``(model, batch size) in the longest file``: Cohen's w of Pearson's chi-squared, over the
          longest cluster only, since the published files repeat each other's draws.
        - ``rate by (model, batch_size, gpus)``: largest relative difference; no test.
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> plans, jobs = (store.scan("elasticflow-2023", t) for t in ("training_plans", "jobs"))
    >>> synthetic = traceana.synthesize_deadlines(jobs)
    >>> found = traceana.compare_plans(plans, synthetic, jobs)
    >>> found.select("compared", "n", pl.col("value").round(2)).head(2).rows()
    [('tightness', 2081, 0.02), ('iterations', 2081, 0.02)]
    """
    keys = as_keys(by, PlanComparison.columns())
    published, drawn = (
        _groups(plans, jobs, keys, which)
        for plans, which in ((training_plans, "published"), (synthetic_plans, "synthetic"))
    )
    if alone := published.keys() ^ drawn.keys():
        name = ", ".join(map(str, next(iter(alone))))
        raise DataError(f"group {name} has plans in one of the two only; compare like with like")
    rows = [
        (*group, *row, None)
        for group, plans in published.items()
        for row in _compare(plans, drawn[group])
    ]
    of_keys = {key: next(iter(published.values())).schema[key] for key in keys}
    table = pl.DataFrame(rows, schema={**of_keys, **schema_of(PlanComparison)}, orient="row")
    return declared(with_adjusted(table.fill_nan(None)), PlanComparison, by=keys)


def _groups(
    plans: IntoFrame, jobs: IntoFrame, keys: tuple[str, ...], which: str
) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the plans that can be compared by group, sorted, nulls last."""
    used = usable_plans(join_plans(plans, jobs, by=keys), which)
    if not keys:
        return {(): used}
    ordered = used.sort(keys, nulls_last=True, maintain_order=True)
    return dict(ordered.group_by(keys, maintain_order=True))


def _compare(published: pl.DataFrame, drawn: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    sizes = published.height, drawn.height
    for name in ("tightness", "iterations"):
        with catch_warnings(action="ignore", category=RuntimeWarning):  # not exact, for its size
            test = scipy.stats.ks_2samp(published[name].to_numpy(), drawn[name].to_numpy())
        yield name, *sizes, "KS distance", test.statistic, test.pvalue
    clusters = published["cluster"].value_counts()
    longest = clusters.sort("count", "cluster", descending=[True, False])["cluster"][0]
    counts = [plans.filter(cluster=longest)["pair"].value_counts() for plans in (published, drawn)]
    both = counts[0].join(counts[1], on="pair", how="full", coalesce=True).fill_null(0).sort("pair")
    seen = both.select("count", "count_right").to_numpy()
    w = p = None
    if len(seen) > 1 and seen.sum(axis=0).all():
        test = scipy.stats.chi2_contingency(seen, correction=False)
        w, p = math.sqrt(test.statistic / seen.sum()), test.pvalue
    yield "(model, batch size) in the longest file", *seen.sum(axis=0), "Cohen's w", w, p
    rates, drawn_rates = (rates_of(plans) for plans in (published, drawn))
    both = rates.join(drawn_rates, on=CELL, suffix="_drawn")
    off = (both["iterations_per_s_drawn"] / both["iterations_per_s"] - 1).abs().max()
    cells = rates.height, drawn_rates.height
    yield f"rate by ({', '.join(CELL)})", *cells, "largest relative difference", off, None


PLANS_NEEDS: Final = (
    {
        "training_plans": ("model", "batch_size", "iterations", "deadline_s"),
        "jobs": ("submit_s", "runtime_s", "gpus"),
    },
)
"""What a trace needs for deadlines."""
SEED: Final = 0


def _tables(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame]:
    plans, jobs = (trace.scan(table).collect() for table in ("training_plans", "jobs"))
    return plans, jobs


def rules(trace: Trace, /) -> pl.DataFrame:
    """Return the tests of the rules that the deadlines of a trace follow."""
    return deadline_rules(*_tables(trace))


def rates(trace: Trace, /) -> pl.DataFrame:
    """Return the iteration rates behind the plans of a trace."""
    return iteration_rates(*_tables(trace))


def synthetic(trace: Trace, /) -> pl.DataFrame:
    """Return synthetic plans of the jobs of a trace."""
    return simulate.synthesize_deadlines(trace.scan("jobs"), rng=SEED)


def tightness(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tightness by kind of plans and cluster, and of all plans of the trace."""
    plans, jobs = _tables(trace)
    kinds = {"published": plans}
    if are_drawn(trace):
        kinds["synthetic"] = trace.once(synthetic)
    by_cluster = pl.concat(
        deadline_tightness(each, jobs, by="cluster").select(pl.lit(kind).alias("plans"), pl.all())
        for kind, each in kinds.items()
    )
    return _for_trace(trace, by_cluster), _for_trace(trace, deadline_tightness(plans, jobs))


def are_drawn(trace: Trace, /) -> bool:
    """Return whether the publishers drew the deadlines."""
    return trace.manifest.tables["training_plans"].generated


def _for_trace(trace: Trace, rates: pl.DataFrame) -> pl.DataFrame:
    """Leave out intervals of drawn deadlines: they would be those of a random number generator."""
    ends = pl.lit(None, pl.Float64).alias("ci_low"), pl.lit(None, pl.Float64).alias("ci_high")
    return rates.with_columns(*ends) if are_drawn(trace) else rates


def jobs_of_window(trace: Trace, /) -> pl.LazyFrame:
    """Return the jobs of a trace without survivors, which were submitted before its window."""
    window = trace.once(window_of)
    before = pl.lit(value=False) if window is None else pl.col("submit_s") < window[0]
    return trace.scan("jobs").filter(~before.fill_null(value=False))
