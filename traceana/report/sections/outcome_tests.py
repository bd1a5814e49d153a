"""Tests of runtimes and outcomes between groups, for the section on outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.report.blocks import Block, Content, Text, result_table
from traceana.results.display import key_heading
from traceana.results.formatting import in_sentence, ratio, ratio_range
from traceana.results.outcomes import (
    Association,
    FailureOdds,
    RuntimeGroups,
    RuntimePairs,
    RuntimeTest,
)

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.derived.outcomes import Outcomes


def runtime_tests(cohort: Cohort, by: str | None, found: Outcomes, /) -> Content:
    """Return the comparison of runtimes between groups, for each status."""
    if by is None or not found.comparisons:
        return Content()
    heading = in_sentence(key_heading(by))
    tests, groups, pairs = (
        pl.concat(
            getattr(result, name).select(pl.lit(status).alias("status"), pl.all())
            for status, result in found.comparisons.items()
        )
        for name in ("test", "groups", "pairs")
    )
    blocks: tuple[Block, ...] = (
        Text(
            "Runtimes are compared by their ranks, because they are heavy-tailed. "
            f"{cohort.independence}"
        ),
        result_table(
            tests,
            RuntimeTest,
            caption="Rank ANOVA (Brunner, Dette and Munk) of runtimes of "
            f"{cohort.noun} between groups by {heading}. Epsilon squared: fraction of the "
            f"variance of ranks between groups. {cohort.title}",
        ),
        result_table(
            groups.filter(pl.col("n") > 0),
            RuntimeGroups,
            columns=["status", by, "n", "median_s", "ci_low", "ci_high", "mean_rank"],
            caption=f"Median runtime of {cohort.noun} by {heading}, with its distribution-free "
            f"interval. {cohort.title}",
            folded=True,
        ),
        result_table(
            pairs.drop("pvalue"),
            RuntimePairs,
            headings={f"{by}_a": "First", f"{by}_b": "Second"},
            caption="Pairs of groups: probability that a runtime of the first is longer, and p of "
            "Brunner and Munzel's test, adjusted (Holm) over the pairs of a status. "
            f"{cohort.title}",
            folded=True,
        ),
    )
    first = tests.row(0, named=True)
    if first["epsilon_squared"] is None:
        return Content((), blocks)
    interval = ""
    if first["ci_low"] is not None:
        interval = f" (95 % CI {ratio_range(first['ci_low'], first['ci_high'])})"
    finding = (
        f"{cohort.title}: {heading} accounts for a fraction of {ratio(first['epsilon_squared'])}"
        f"{interval} of the variance of the ranks of runtimes of {first['status']} {cohort.noun} "
        f"(n = {first['n']:,})."
    )
    return Content((finding,), blocks)


def association(cohort: Cohort, by: str | None, found: Outcomes, /) -> Content:
    """Return the association between failure and group, for each definition of a failure."""
    if by is None or found.associations is None:
        return Content()
    heading = in_sentence(key_heading(by))
    table = result_table(
        found.associations.drop("min_expected"),
        Association,
        headings={"definition": "Failure"},
        caption=f"Association between failure of {cohort.noun} and {heading}. Cramér's V: 0 if all "
        "groups have the same failure rate, 1 if the group determines the outcome. Rows without a "
        f"group are excluded. {cohort.title}",
        null={"method": ""},
    )
    known = found.associations.drop_nulls(["cramers_v", "ci_low", "ci_high"]).rows(named=True)
    values = [
        f"{ratio(row['cramers_v'])} (95 % CI {ratio_range(row['ci_low'], row['ci_high'])}, n = "
        f"{row['n']:,}) with {row['definition']} as failure"
        for row in known
    ]
    finding = (f"{cohort.title}: Cramér's V of failure and {heading} is {' and '.join(values)}.",)
    return Content(finding if values else (), (table,))


def odds_ratios(
    cohort: Cohort, by: str | None, strata: str | None, found: Outcomes, /
) -> tuple[Block, ...]:
    """Return the odds ratios of failure between groups, crude and within strata."""
    if by is None or strata is None or found.odds is None:
        return ()
    heading, within = (in_sentence(key_heading(name)) for name in (by, strata))
    return (
        result_table(
            found.odds.drop("n_reference", "failures_reference"),
            FailureOdds,
            headings={
                "definition": "Failure",
                f"{by}_reference": "Reference",
                "odds_ratio": f"Within {within}",
            },
            caption=f"Odds ratios of failure of {cohort.noun} by {heading}: crude, and pooled "
            f"within {within} (Mantel-Haenszel); rows treated as independent. If the odds ratios "
            "of the strata differ (small p of homogeneity), the pooled ratio is not a summary of "
            f"them. p-values are not adjusted. {cohort.title}",
        ),
    )
