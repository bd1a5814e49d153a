"""Whether drawn plans have the distributions of the published ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl
from scipy import stats

from traceana.analysis.deadlines.plans import CELL, KEY, join_plans
from traceana.analysis.deadlines.rates import iteration_rates
from traceana.analysis.frames import Names, as_names, refuse_clash
from traceana.errors import DataError
from traceana.stats.multiplicity import adjust_pvalues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narwhals.stable.v2.typing import IntoFrame

_OF_JOBS: Final = ("submit_s", "runtime_s", "gpus")
_KEY_OF_JOBS: Final = (*KEY, *_OF_JOBS)
_OF_PLANS: Final = (*KEY, "model", "batch_size", "iterations", "deadline_s")
_MEASURED: Final = {
    "compared": pl.String,
    "n": pl.Int64,
    "n_synthetic": pl.Int64,
    "measure": pl.String,
    "value": pl.Float64,
    "pvalue": pl.Float64,
}


def compare_plans(
    training_plans: IntoFrame,
    synthetic_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    *,
    by: Names = (),
) -> pl.DataFrame:
    """Hold plans drawn for jobs against the published plans of the same jobs.

    Parameters
    ----------
    training_plans, synthetic_plans
        The published plans and the drawn ones, as :func:`iteration_rates` takes them.
    jobs
        The jobs of both.
    by
        Columns to compare within (`cluster`), in both; ``()`` for one comparison.

    Returns
    -------
    DataFrame
        [*by, compared, n, n_synthetic, measure, value, pvalue, pvalue_adjusted], in each group:

        - ``tightness`` and ``iterations``: two-sample Kolmogorov-Smirnov's distance and p.
          Tightness is (deadline_s - submit_s) / runtime_s. Iterations of both rest on the same
          runtimes, which makes their p too large.
        - ``(model, batch size) in the longest file``: Cohen's w of Pearson's chi-squared for one
          distribution in both, over the group's longest cluster alone, since the published files
          repeat each other's draws. Null where there is one pair only.
        - ``rate by (model, batch_size, gpus)``: the largest relative difference of the rates that
          both imply, in the cells that both have (n and n_synthetic count cells); no test.

        pvalue_adjusted is Holm's over all tests of the table. Plans without their job, and rows
        with a null or a runtime or GPU count of zero, take no part.

    Raises
    ------
    DataError
        As :func:`iteration_rates`; if a group is in one of them only, or no row is left.
    """
    keys = as_names(by)
    refuse_clash(keys, (*_MEASURED, "pvalue_adjusted"))
    published, drawn = (
        _groups(plans, jobs, keys, which)
        for plans, which in ((training_plans, "published"), (synthetic_plans, "synthetic"))
    )
    if alone := published.keys() ^ drawn.keys():
        name = ", ".join(map(str, next(iter(alone))))
        raise DataError(f"group {name} has plans in one of the two only; compare like with like")
    rows = [
        (*group, *row)
        for group, plans in published.items()
        for row in _compare(plans, drawn[group])
    ]
    of_keys = {key: next(iter(published.values())).schema[key] for key in keys}
    table = pl.DataFrame(rows, schema={**of_keys, **_MEASURED}, orient="row")
    adjusted = adjust_pvalues(table["pvalue"].fill_null(float("nan")).to_numpy(), method="holm")
    return table.with_columns(pvalue_adjusted=pl.Series(adjusted).fill_nan(None))


def _groups(
    plans: IntoFrame, jobs: IntoFrame, keys: tuple[str, ...], which: str
) -> dict[tuple[object, ...], pl.DataFrame]:
    """Return the plans that can be compared by group, sorted, nulls last."""
    used = (
        join_plans(plans, jobs, by=keys)
        .drop_nulls(["model", "batch_size", "iterations", "deadline_s", *_OF_JOBS])
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .with_columns(
            tightness=(pl.col("deadline_s") - pl.col("submit_s")) / pl.col("runtime_s"),
            pair=pl.format("{} {}", "model", "batch_size"),
        )
    )
    if used.is_empty():
        raise DataError(f"no {which} plan has a job with a runtime and GPUs, and no null")
    if not keys:
        return {(): used}
    ordered = used.sort(keys, nulls_last=True, maintain_order=True)
    return dict(ordered.group_by(keys, maintain_order=True))


def _compare(published: pl.DataFrame, drawn: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    sizes = published.height, drawn.height
    for name in ("tightness", "iterations"):
        test = stats.ks_2samp(published[name].to_numpy(), drawn[name].to_numpy())
        yield name, *sizes, "KS distance", test.statistic, test.pvalue
    yield _pairs(published, drawn)
    rates, drawn_rates = (
        iteration_rates(plans.select(_OF_PLANS), plans.select(_KEY_OF_JOBS))
        for plans in (published, drawn)
    )
    both = rates.join(drawn_rates, on=CELL, suffix="_drawn")
    off = (both["iterations_per_s_drawn"] / both["iterations_per_s"] - 1).abs().max()
    cells = rates.height, drawn_rates.height
    yield f"rate by ({', '.join(CELL)})", *cells, "largest relative difference", off, None


def _pairs(published: pl.DataFrame, drawn: pl.DataFrame) -> tuple[object, ...]:
    sizes = published["cluster"].value_counts().sort("count", "cluster", descending=[True, False])
    longest = pl.col("cluster") == sizes["cluster"][0]
    counts = [plans.filter(longest)["pair"].value_counts() for plans in (published, drawn)]
    both = counts[0].join(counts[1], on="pair", how="full", coalesce=True).fill_null(0).sort("pair")
    seen = both.select("count", "count_right").to_numpy()
    name = "(model, batch size) in the longest file"
    n, n_drawn = (int(total) for total in seen.sum(axis=0))
    if len(seen) < 2 or not (n and n_drawn):
        return name, n, n_drawn, "Cohen's w", None, None
    test = stats.chi2_contingency(seen, correction=False)
    return name, n, n_drawn, "Cohen's w", math.sqrt(test.statistic / seen.sum()), test.pvalue
