"""Correlations of runtime with requested resources, over rows and over group means."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.cohorts import COHORT_NEEDS
from traceana.derived.correlations import RESAMPLES, cohort_correlations, correlation_points
from traceana.report.blocks import Content, Drawing, Gallery, Text, drawing, result_table
from traceana.report.per_cohort import build_per_cohort
from traceana.report.section import Section
from traceana.results.correlation import Correlations
from traceana.results.formatting import correlation

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.derived.correlations import Points
    from traceana.report.context import Context

    Cases = dict[tuple[str, str], Points]

_FEATURES: Final = {
    "gpu_percent": ("GPU %", "GPUs requested (%, 100 is one GPU)"),
    "cpu_percent": ("CPU %", "CPUs requested (%, 100 is one core)"),
    "memory_gib": ("memory (GiB)", "Memory requested (GiB)"),
    "n_instances": ("task size (instances)", "Task size (instances)"),
    "nodes": ("nodes", "Nodes requested"),
}
_ALPHA: Final = 0.05
_LEVELS: Final = {
    "row": "rows",
    "group_mean": "group means",
    "group_mean_weighted": "weighted group means",
}
_CLOSER_VIEWS: Final = (
    ("success", "cpu_percent", False, 20_000),
    ("success", "memory_gib", True, None),
    ("success", "memory_gib", False, 100_000),
    ("failure", "cpu_percent", True, 50_000),
    ("failure", "memory_gib", False, 20_000),
)
"""Published views of task runtimes: outcome, feature, logarithmic, largest runtime in s."""
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
    "counted."
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
    names = {x: name for x, (name, _) in _FEATURES.items()}
    table = found.table.with_columns(
        feature=pl.col("x").replace_strict(names),
        points=pl.col("level").replace_strict(_LEVELS),
    ).sort("outcome", descending=True, maintain_order=True)
    cases = session.once(correlation_points, cohort.trace)
    keys = ("outcome", "feature", "method", "points")
    estimates = ("r", "ci_low", "ci_high", "pvalue", "pvalue_adjusted", "pvalue_t")
    headings = {"points": "Level"}
    blocks = (
        Text(method),
        result_table(
            table.filter(pl.col("method").eq("pearson") | pl.col("level").eq("row")),
            Correlations,
            columns=(*keys, "n", "n_groups", *estimates),
            headings=headings,
            caption=f"Correlation of runtime (s) with the resources that {cohort.noun} request, "
            f"and {100 * found.confidence:.0f} % confidence intervals; p adjusted (Benjamini and "
            f"Hochberg) over all {found.n_tested} tests of the trace. {cohort.title}",
        ),
        Gallery(tuple(_group_means(cohort, cases, found.table))),
        Gallery(tuple(_means_alone(cohort, cases))),
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
            about=f"Runtime of {cohort.noun} versus {_FEATURES[x][0]}, {outcome}: rows and group "
            "means",
            counts=points.counts,
            correlations=table.filter(outcome=outcome, x=x, method="pearson"),
            x_label=_FEATURES[x][1],
        )
        for (outcome, x), points in sorted(cases.items(), key=_successes_first)
    ]


def _means_alone(cohort: Cohort, cases: Cases) -> list[Drawing]:
    """Draw group means as published for tasks, with the closer views; others on log axes."""
    views: list[tuple[str, str, bool, int | None]] = [
        (*case, False, None) for case, _ in sorted(cases.items(), key=_successes_first)
    ]
    if cohort.from_tasks:
        views += [view for view in _CLOSER_VIEWS if view[:2] in cases]
    drawings = []
    for outcome, x, log_x, below_s in views:
        closer = f", below {below_s:,} s" if below_s else ""
        view = f"{outcome}-{x}{'-log' * log_x}{f'-{below_s}s' if below_s else ''}"
        drawings.append(
            drawing(
                "runtime-against",
                cases[outcome, x].means,
                trace=cohort.trace,
                title=cohort.title,
                key=f"against-{view}-{cohort.trace}",
                about=f"Mean runtime of {cohort.noun} versus {_FEATURES[x][0]}, {outcome}{closer}",
                x_label=_FEATURES[x][1],
                log_x=log_x,
                log_y=not cohort.from_tasks,
                below_s=below_s,
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
    significant = pl.col("pvalue_adjusted", "pvalue_adjusted_ranks") < _ALPHA
    opposite = (pl.col("r") * pl.col("r_ranks") < 0) & pl.all_horizontal(significant)
    carried = pl.col("n_carrying").is_not_null() & (pl.col("pvalue_adjusted") < _ALPHA)
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
