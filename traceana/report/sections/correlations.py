"""Correlations of runtime with requested resources, over rows and over group means."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.cohorts import COHORT_NEEDS
from traceana.derived.correlations import (
    RESAMPLES,
    cohort_correlations,
    correlation_points,
    cut_correlations,
    cut_points,
)
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    result_table,
)
from traceana.report.per_cohort import build_per_cohort
from traceana.report.section import Section
from traceana.report.sections.feature_names import (
    ALPHA,
    FEATURE_NAMES,
    SIGNIFICANT,
    name_rows,
)
from traceana.results.correlation import Correlations
from traceana.results.formatting import correlation

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.derived.correlations import Points
    from traceana.report.context import Context

    Cases = dict[tuple[str, str], Points]

_OPENING: Final = (
    "Pearson's r of runtime with requested resources at three levels: over rows; over group means, "
    "as published for PAI (one point per distinct value, at its mean runtime, unweighted); and "
    "over the same points, weighted by their number of rows. Group means hide how many rows a "
    "point has and how much they vary: such an ecological correlation says nothing about single "
    "rows. Spearman's rank correlation is robust to very long runtimes. The test over group means "
    "permutes the runtimes over the rows: the mean of a small group of skewed runtimes is mostly "
    'below those of large groups, which alone correlates group means. "p, Student\'s t" is the '
    "published test, which ignores this. Success is `completed`; "
    "failure is defined as for the trace. Rows without a runtime or the feature are excluded and "
    'counted. "p < .05, published test" is whether p of Student\'s t over the points is below .05, '
    'as the source judges; "Adjusted p < .05" is that of the adjusted p.'
)


def build(session: Context, traces: list[str]) -> Content:
    """Show the correlations of each cohort, and the points that they are computed from."""
    return build_per_cohort(session, traces, partial(_cohort, session), opening=_OPENING)


def _cohort(session: Context, cohort: Cohort) -> Content:
    found = session.once(cohort_correlations, cohort.trace)
    method = f"{cohort.about} {cohort.independence}"
    if found is None:
        return Content((), (Text(f"{method} No feature or no outcome has values."),))
    if cohort.cluster is not None:
        method += (
            " Their intervals use the delete-one-cluster jackknife; more than "
            f"{RESAMPLES} clusters are combined at random into {RESAMPLES} groups (seed 1). Their "
            "p-values use the wild cluster bootstrap for Pearson's r and the jackknife for ranks "
            "over rows; ranks over group means are not tested."
        )
    table = name_rows(found.table).sort("outcome", descending=True, maintain_order=True)
    cases = session.once(correlation_points, cohort.trace)
    keys = ("outcome", "feature", "method", "points")
    estimates = ("r", "ci_low", "ci_high", "pvalue", "pvalue_adjusted", "pvalue_t")
    headings = {"points": "Level", **SIGNIFICANT}
    blocks: tuple[Block, ...] = (
        Text(method),
        result_table(
            table.filter(pl.col("method").eq("pearson") | pl.col("level").eq("row")),
            Correlations,
            columns=(*keys, "n", "n_groups", *estimates, *SIGNIFICANT),
            headings=headings,
            caption=f"Correlation of runtime (s) with the resources that {cohort.noun} request, "
            f"and {100 * found.confidence:.0f} % confidence intervals; p adjusted (Benjamini and "
            f"Hochberg) over all {found.n_tested} tests of the trace. {cohort.title}",
        ),
        Gallery(tuple(_group_means(cohort, cases, found.table))),
        *_below_cutoffs(session, cohort, found.table),
        Gallery(tuple(_means_alone(session, cohort, cases))),
        result_table(
            table,
            Correlations,
            columns=(
                *(*keys, "n", "n_missing", "n_excluded", "n_groups", "n_effective"),
                *("n_clusters", *estimates, "n_carrying", "r_without", "note"),
            ),
            headings=headings,
            null={"note": ""},
            caption=f"All correlations, of which {found.n_tested} are tested. {cohort.title}",
            folded=True,
        ),
    )
    return Content(_findings(table, cohort), blocks)


def _group_means(cohort: Cohort, cases: Cases, table: pl.DataFrame) -> list[Drawing]:
    return [
        drawing(
            "group-means",
            points.means,
            trace=cohort.trace,
            title=cohort.title,
            key=f"group-means-{outcome}-{x}-{cohort.trace}",
            about=f"Runtime of {cohort.noun} versus {FEATURE_NAMES[x][0]}, {outcome}: rows and "
            "group means",
            counts=points.counts,
            correlations=table.filter(outcome=outcome, x=x, method="pearson"),
            x_label=FEATURE_NAMES[x][1],
        )
        for (outcome, x), points in sorted(cases.items(), key=_successes_first)
    ]


def _below_cutoffs(session: Context, cohort: Cohort, uncut: pl.DataFrame) -> list[Table]:
    """Return Pearson's r over the rows below each published cut-off, beside that over all rows."""
    cut = session.once(cut_correlations, cohort.trace)
    if cut is None:
        return []
    every = uncut.filter(pl.col("level").is_in(cut["level"].unique().implode()), method="pearson")
    both = pl.concat([every.with_columns(below_s=pl.lit(None, pl.Float64)), cut], how="diagonal")
    order = [pl.col("outcome") != "success", pl.col("x"), pl.col("level"), pl.col("below_s")]
    return [
        result_table(
            name_rows(both.sort(order, nulls_last=False)),
            Correlations,
            columns=(
                *("outcome", "feature", "points", "below_s", "n", "n_groups", "r"),
                *("ci_low", "ci_high", "pvalue_adjusted", "pvalue_t", *SIGNIFICANT),
            ),
            headings={"points": "Level", "below_s": "Runtime below (s)", **SIGNIFICANT},
            null={"below_s": "all"},
            caption=f"Pearson's r of runtime over only those {cohort.noun} whose runtime is below "
            "a published cut-off, beside that over all. The rows are selected first, then grouped "
            "and correlated. A cut-off on the runtime selects on the outcome of the correlation, "
            "so it changes r also where the relation is the same. p adjusted within each cut-off. "
            f"{cohort.title}",
            folded=True,
        )
    ]


def _means_alone(session: Context, cohort: Cohort, cases: Cases) -> list[Drawing]:
    """Draw group means as published: all rows and below a cut-off, on both scales where cut."""
    cut = session.once(cut_points, cohort.trace)
    views: list[tuple[tuple[str, str], float | None, pl.DataFrame, bool]] = []
    for case, points in sorted(cases.items(), key=_successes_first):
        views.append((case, None, points.means, False))
        if case in cut:
            below_s, means = cut[case].below_s, cut[case].means
            views.append((case, None, points.means, True))
            views += [(case, below_s, means, log_x) for log_x in (False, True)]
    drawings = []
    for (outcome, x), limit_s, means, log_x in views:
        name, label, requested = FEATURE_NAMES[x]
        closer = f", below {limit_s:,.0f} s" if limit_s else ""
        scale = ", logarithmic x" if log_x else ""
        view = f"{outcome}-{x}{'-log' * log_x}{f'-{limit_s:.0f}s' if limit_s else ''}"
        drawings.append(
            drawing(
                "runtime-against",
                means,
                trace=cohort.trace,
                title=cohort.title,
                key=f"against-{view}-{cohort.trace}",
                about=f"Mean runtime of {cohort.noun} versus {name}, {outcome}{closer}{scale}",
                x_label=label,
                log_x=log_x,
                log_y=not cohort.from_tasks,
                heading=f"Mean runtime by {requested}\n{outcome}{closer}",
            )
        )
    return drawings


def _successes_first(case: tuple[tuple[str, str], Points]) -> bool:
    return case[0][0] != "success"


def _findings(table: pl.DataFrame, cohort: Cohort) -> tuple[str, ...]:
    """State every Pearson's r over rows that few rows carry or that ranks contradict."""
    rows = table.filter(level="row").drop_nulls("r")
    both = rows.filter(method="pearson").join(
        rows.filter(method="spearman"), on=["outcome", "x"], suffix="_ranks"
    )
    significant = pl.col("pvalue_adjusted", "pvalue_adjusted_ranks") < ALPHA
    opposite = (pl.col("r") * pl.col("r_ranks") < 0) & pl.all_horizontal(significant)
    carried = pl.col("n_carrying").is_not_null() & (pl.col("pvalue_adjusted") < ALPHA)
    findings = []
    for row in both.filter(opposite | carried).iter_rows(named=True):
        ranks = correlation(row["r_ranks"], row["ci_low_ranks"], row["ci_high_ranks"])
        finding = (
            f"{cohort.title}: Pearson's r of runtime and {row['feature']} ({row['outcome']}) is "
            f"{correlation(row['r'], row['ci_low'], row['ci_high'])}, but Spearman's rho is "
            f"{ranks} (n = {row['n']:,} rows)."
        )
        if row["n_carrying"] is not None:
            finding += (
                f" Pearson's r rests on {row['n_carrying']:,} of these rows: without them it is "
                f"{correlation(row['r_without'])}."
            )
        findings.append(finding)
    return tuple(findings)


SECTION = Section(
    "correlations",
    "Runtime versus requested resources",
    100,
    build,
    needs=COHORT_NEEDS,
    figures=("runtime-against", "group-means"),
    of_tasks=True,
    part="Runtimes",
    question="Do jobs that request more resources run longer?",
)
