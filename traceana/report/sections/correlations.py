"""Runtime against what things ask for: over rows, and over group means as was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import (
    CorrelationResult,
    joint_counts,
    mean_by_value,
    runtime_correlations,
)
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    make_table,
    notes,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.populations import PAI, Population, tell_populations
from traceana.results.formatting import correlation, count, pvalue, seconds

if TYPE_CHECKING:
    from traceana.report.context import Context

_RESAMPLES: Final = 200
_BINS: Final = 60
_LEVELS: Final = {
    "row": "rows",
    "group_mean": "group means",
    "group_mean_weighted": "group means by rows",
}
_FEATURES: Final = {
    "gpu_percent": ("GPU %", "GPUs asked for (%, 100 is one GPU)"),
    "cpu_percent": ("CPU %", "CPUs asked for (%, 100 is one core)"),
    "memory_gib": ("memory (GiB)", "Memory asked for (GiB)"),
    "n_instances": ("task size (instances)", "Task size (instances)"),
}
_ZOOMS: Final = (
    ("success", "cpu_percent", False, 20_000),
    ("success", "memory_gib", True, None),
    ("success", "memory_gib", False, 100_000),
    ("failure", "cpu_percent", True, 50_000),
    ("failure", "memory_gib", False, 20_000),
)
"""Views of PAI that were published beside the whole: outcome, feature, logarithmic, highest."""

_OPENING: Final = (
    "Pearson's r of runtime with what was asked for, at three levels: over rows; over "
    "group means as was published of PAI (one point a distinct value, its mean runtime, "
    "all alike); and over the same points, each as often as it has rows. Group means hide "
    "how many rows a point stands for and how much they vary: a correlation of theirs "
    "(an ecological one) says nothing of a single task. Spearman's is that of ranks, which "
    "a few very long runtimes do not rule. Success is `completed`, failure every other "
    "status (the published reading). Rows without a runtime or without the feature are "
    "left out, and counted."
)


def build(session: Context) -> Content:
    """Tell each trace's family of correlations, and draw what it is taken over."""
    return tell_populations(session, _tell, opening=_OPENING, what="Correlations of runtime")


def _tell(population: Population) -> Content:
    rows = _with_features(population.rows)
    clusters = () if population.cluster is None else (population.cluster,)
    found = runtime_correlations(
        population.rows,
        method=("pearson", "spearman"),
        level=tuple(_LEVELS),
        cluster=clusters,
        resamples=_RESAMPLES,
    )
    table = found.table.with_columns(
        feature=pl.col("x").replace_strict({x: name for x, (name, _) in _FEATURES.items()})
    )
    how = f"{population.about} {population.independence}"
    if clusters:
        how += f" Intervals are of {_RESAMPLES} resamples of whole users (seed 1)."
    blocks: tuple[Block, ...] = (
        Text(how),
        _levels_table(table, found, population),
        Gallery(tuple(_group_means(population, rows, table))),
        Gallery(tuple(_published_views(population, rows, table))),
        _full_table(table, found, population),
    )
    return Content(tuple(_findings(table, population)), blocks)


def _with_features(rows: pl.DataFrame) -> pl.DataFrame:
    named = {"gpu_percent": pl.col("gpus") * 100, "cpu_percent": pl.col("cpus") * 100}
    outcome = pl.when(status="completed").then(pl.lit("success")).otherwise(pl.lit("failure"))
    return rows.with_columns(**named, outcome=outcome)


def _cases(table: pl.DataFrame) -> list[tuple[str, str]]:
    """Outcomes and features of which there is a correlation to draw."""
    known = table.filter(level="row", method="pearson").drop_nulls("r")
    return sorted(known.select("outcome", "x").rows(), key=lambda case: case[0], reverse=True)


def _group_means(population: Population, rows: pl.DataFrame, table: pl.DataFrame) -> list[Drawing]:
    pictures = []
    for outcome, feature in _cases(table):
        own = rows.filter(outcome=outcome)
        means = mean_by_value(own, feature, "runtime_s")
        name, label = _FEATURES[feature]
        pictures.append(
            drawing(
                "group-means",
                means,
                trace=population.trace,
                title=population.name,
                key=f"group-means-{outcome}-{feature}-{population.trace}",
                about=f"Runtime of {population.things} against {name}, {outcome}: rows and group "
                "means",
                counts=joint_counts(own, feature, "runtime_s", bins=_BINS),
                correlations=table.filter(outcome=outcome, x=feature, method="pearson"),
                x_label=label,
            )
        )
    return pictures


def _published_views(
    population: Population, rows: pl.DataFrame, table: pl.DataFrame
) -> list[Drawing]:
    """Group means alone as was published of PAI, its closer views too; others' over decades."""
    cases = _cases(table)
    views: list[tuple[str, str, bool, int | None]] = [(*case, False, None) for case in cases]
    if population.trace == PAI:
        views += [view for view in _ZOOMS if view[:2] in cases]
    pictures = []
    for outcome, feature, log_x, below_s in views:
        name, label = _FEATURES[feature]
        closer = f", below {below_s:,} s" if below_s else ""
        view = f"{outcome}-{feature}{'-log' * log_x}{f'-{below_s}s' if below_s else ''}"
        pictures.append(
            drawing(
                "runtime-against",
                mean_by_value(rows.filter(outcome=outcome), feature, "runtime_s"),
                trace=population.trace,
                title=population.name,
                key=f"against-{view}-{population.trace}",
                about=f"Mean runtime of {population.things} against {name}, {outcome}{closer}",
                x_label=label,
                log_x=log_x,
                log_y=population.trace != PAI,
                below_s=below_s,
            )
        )
    return pictures


def _levels_table(table: pl.DataFrame, found: CorrelationResult, of: Population) -> Table:
    """One row an outcome and feature, its levels side by side."""
    keys = ["outcome", "feature"]
    wide = table.filter(level="row", method="pearson").select(*keys, "n", "n_missing")
    levels = [("pearson", level) for level in _LEVELS] + [("spearman", "row")]
    columns = [
        words("Outcome", "outcome"),
        words("Feature", "feature"),
        Column("Rows", "n", count),
        Column("Left out", "n_missing", count),
    ]
    for method, level in levels:
        prefix = f"{method} {level} "
        names = ("r", "ci_low", "ci_high", "n_groups", "n_effective", "pvalue_adjusted")
        part = table.filter(level=level, method=method).select(
            *keys, *(pl.col(name).alias(prefix + name) for name in names)
        )
        wide = wide.join(part, on=keys, how="left", maintain_order="left")
        title = f"{method.capitalize()}, {_LEVELS[level]}"
        if level == "group_mean":
            columns.append(Column("Points", prefix + "n_groups", count))
        if level == "group_mean_weighted":
            columns.append(Column("In effect", prefix + "n_effective", seconds))
        told = [_r(*row) for row in wide.select(prefix + name for name in names[:3]).rows()]
        wide = wide.with_columns(pl.Series(prefix + "told", told, dtype=pl.String))
        columns += [
            Column(title, prefix + "told"),
            Column("adjusted p", prefix + "pvalue_adjusted", pvalue),
        ]
    return make_table(
        wide.sort("outcome", descending=True, maintain_order=True),
        columns,
        caption=f"Correlation of runtime (s) with what {of.things} ask for, with "
        f"{found.confidence:.0%} intervals".replace("%", " %")
        + f"; p adjusted by Benjamini and Hochberg over all {found.n_tested} tests of the trace; "
        f"in effect: Kish's number of points, or what the clusters leave. {of.name}",
    )


def _r(r: float | None, low: float | None, high: float | None) -> str | None:
    return None if r is None else correlation(r, low, high)


def _full_table(table: pl.DataFrame, found: CorrelationResult, of: Population) -> Table:
    return make_table(
        table.with_columns(pl.col("level").replace_strict(_LEVELS)),
        [
            words("Outcome", "outcome"),
            words("Feature", "feature"),
            words("Method", "method"),
            words("Level", "level"),
            Column("Rows", "n", count),
            Column("Points", "n_groups", count),
            Column("n in effect", "n_effective", seconds),
            Column("Users", "n_clusters", count),
            Column("r", "r", correlation),
            Column("Low", "ci_low", correlation),
            Column("High", "ci_high", correlation),
            Column("p", "pvalue", pvalue),
            Column("Adjusted p", "pvalue_adjusted", pvalue),
            *notes(table),
        ],
        caption=f"Every correlation of the family, {found.n_tested} of them tested. {of.name}",
        folded=True,
    )


def _findings(table: pl.DataFrame, of: Population) -> list[str]:
    """Tell where group means and rows differ most."""
    pearson = table.filter(method="pearson").drop_nulls("r")
    levels = {level: pearson.filter(level=level) for level in ("row", "group_mean")}
    both = levels["row"].join(levels["group_mean"], on=["outcome", "x"], suffix="_means")
    if both.is_empty():
        return []
    row = both.sort((pl.col("r") - pl.col("r_means")).abs()).row(-1, named=True)
    means = correlation(row["r_means"], row["ci_low_means"], row["ci_high_means"])
    rows = correlation(row["r"], row["ci_low"], row["ci_high"])
    told = (
        f"{of.name}: group means and rows differ most for {row['feature']} ({row['outcome']}): "
        f"Pearson's r with runtime is {means} over {row['n_groups_means']:,} group means, and "
        f"{rows} over the n = {row['n']:,} rows that they are means of."
    )
    return [told]


SECTION = Section(
    "correlations",
    "Runtime against what was asked for",
    100,
    build,
    figures=("runtime-against", "group-means"),
    of_tasks=True,
)
