"""Correlations with requested resources: names, the figure, and what is stated of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.page.blocks import Gallery, Table, drawing, result_table
from traceana.questions.correlations.tables import Correlations
from traceana.stats.effect_sizes import INCONCLUSIVE, NEGLIGIBLE, THRESHOLDS, conclude
from traceana.tables.declare import with_columns
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    correlation,
    correlation_range,
    in_sentence,
    listed,
    p_equals,
)

if TYPE_CHECKING:
    from traceana.cohorts.cohort import Cohort

_UNCLEAR: Final = {NEGLIGIBLE: "changes little", INCONCLUSIVE: "may rise or fall"}
FEATURE_NAMES: Final = {
    "gpus": ("GPUs", "GPUs requested", "requested GPUs"),
    "cpus": ("CPUs", "CPUs requested", "requested CPUs"),
    "memory_gib": ("memory (GiB)", "Memory requested (GiB)", "memory (GiB)"),
    "n_instances": ("task size (instances)", "Task size (instances)", "task size"),
    "nodes": ("nodes", "Nodes requested", "requested nodes"),
}
"""Of each feature its name, its axis label, and its name in a title."""
ALPHA: Final = 0.05
SIGNIFICANT: Final = {"significant_t": "p < .05, published test", "significant": "Adjusted p < .05"}
_LEVELS: Final = {
    "row": "rows",
    "group_mean": "group means",
    "group_mean_weighted": "weighted group means",
}


def name_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Add the names of feature and level, and what is significant at .05."""

    def below(p: str) -> pl.Expr:
        yes = pl.when(pl.col(p) < ALPHA).then(pl.lit("yes")).otherwise(pl.lit("no"))
        return pl.when(pl.col(p).is_not_null()).then(yes)

    return table.with_columns(
        feature=pl.col("x").replace_strict({x: name for x, (name, _, _) in FEATURE_NAMES.items()}),
        points=pl.col("level").replace_strict(_LEVELS),
        significant_t=below("pvalue_t"),
        significant=below("pvalue_adjusted"),
    )


def name_family(n_tested: int, /) -> str:
    """Return over what the p-values of a table are adjusted."""
    if not n_tested:
        return "no correlation is tested"
    return f"p adjusted (Benjamini and Hochberg) over {n_tested} tests"


def draw_forest(
    cohort: Cohort,
    overall: pl.DataFrame,
    within: pl.DataFrame | None,
    /,
    *,
    key: str,
    about: str,
    x_label: str = "Spearman's rho",
) -> Gallery:
    """Return the figure of correlations over rows, overall and by the cohort's groups."""
    columns = ("feature", "outcome", "group", "n", "r", "ci_low", "ci_high")
    frames = [overall.with_columns(group=pl.lit(None, pl.String))]
    if within is not None and cohort.by is not None:
        frames.append(name_rows(within).with_columns(group=pl.col(cohort.by).cast(pl.String)))
    shown = pl.concat(
        [
            frame.with_columns(
                pl.col("outcome")
                if "outcome" in frame.columns
                else pl.lit(None, pl.String).alias("outcome")
            ).select(columns)
            for frame in frames
        ]
    )
    order = {
        name: place for place, name in enumerate(overall["feature"].unique(maintain_order=True))
    }
    shown = shown.sort(
        pl.col("feature").replace_strict(order),
        "group",
        pl.col("outcome") != "success",
        nulls_last=False,
    )
    if not shown["r"].count():
        return Gallery(())
    by = "" if cohort.by is None else f", overall and by {in_sentence(key_heading(cohort.by))}"
    figure = drawing(
        "correlations",
        shown,
        trace=cohort.trace,
        title=cohort.title,
        key=key,
        about=f"{about}{by}",
        x_label=x_label,
    )
    return Gallery((figure,))


def compare_methods(
    cohort: Cohort, overall: pl.DataFrame, within: Sequence[pl.DataFrame], /, *, about: str
) -> list[Table]:
    """Return the table of Pearson's r beside Spearman's rho, overall and by the cohort's groups."""
    frames = [overall.filter(level="row").with_columns(group=pl.lit("all"))]
    if cohort.by is not None:
        frames += [name_rows(one).with_columns(group=pl.col(cohort.by)) for one in within]
    values = ("r", "ci_low", "ci_high", "pvalue_adjusted")
    keys = [*(["outcome"] if "outcome" in overall.columns else []), "feature", "group", "n"]
    rows = pl.concat([frame.select(*keys, "method", *values) for frame in frames])
    methods = ("pearson", "spearman")
    if rows.is_empty() or not set(methods) <= set(rows["method"]):
        return []
    wide = rows.pivot("method", index=keys, values=values)
    columns = {f"{value}_{method}": value for method in methods for value in values}
    headings = {"r": "{}", "ci_low": "CI from", "ci_high": "to", "pvalue_adjusted": "adjusted p"}
    names = {"pearson": "Pearson's r", "spearman": "Spearman's rho"}
    by = "" if cohort.by is None else f", overall and within {in_sentence(key_heading(cohort.by))}"
    return [
        result_table(
            wide.sort(
                *(["outcome"] if "outcome" in keys else []),
                "feature",
                pl.col("group") != "all",
                "group",
                descending=[True] * ("outcome" in keys) + [False] * 3,
            ),
            with_columns(Correlations, columns),
            columns=[*keys, *columns],
            headings={"group": "Group" if cohort.by is None else key_heading(cohort.by)}
            | {
                f"{value}_{method}": text.format(names[method])
                for method in methods
                for value, text in headings.items()
            },
            caption=f"Pearson's r and Spearman's rho of {about}{by}. Each is adjusted in its own "
            f"family of tests. {cohort.title}",
        )
    ]


def state_correlations(
    cohort: Cohort, what: str, ranks: pl.DataFrame, within: pl.DataFrame | None, /
) -> str:
    """Return a finding on all rank correlations of a quantity with requested resources.

    `within` has those within the cohort's groups: a sign that reverses there is stated.
    """
    stated = []
    table = ranks.drop_nulls("r")
    for row in table.iter_rows(named=True):
        size = conclude(
            "correlation", row["r"], row["ci_low"], row["ci_high"], row["pvalue_adjusted"]
        )
        reversed_in = "" if size in (NEGLIGIBLE, INCONCLUSIVE) else _reversed(cohort, row, within)
        name = in_sentence(row["feature"])
        answer = "rises" if row["r"] > 0 else "falls"
        if row["pvalue_adjusted"] is not None:
            answer = _UNCLEAR.get(size, answer)
        elif abs(row["r"]) < THRESHOLDS["correlation"][0]:
            answer = _UNCLEAR[NEGLIGIBLE]
        low, high = row["ci_low"], row["ci_high"]
        interval = "" if low is None else f", 95 % CI {correlation_range(low, high)}"
        tested = "" if row["pvalue_adjusted"] is None else f"; {p_equals(row['pvalue_adjusted'])}"
        stated.append(
            f"{answer} with {name} (rho {correlation(row['r'])}{interval}{tested}){reversed_in}"
        )
    if not stated:
        return ""
    rows = " to ".join(f"{n:,}" for n in table["n"].unique().sort()[[0, -1]].unique())
    units = "" if cohort.cluster is None else f", {cohort.units}"
    return f"{cohort.title}: {what} {'; '.join(stated)} (Spearman's rho, n = {rows}{units})."


def _reversed(cohort: Cohort, row: dict[str, Any], within: pl.DataFrame | None) -> str:
    """Return the groups in which a correlation is significant, if all have the opposite sign."""
    if within is None or cohort.by is None:
        return ""
    of_feature = within.filter(x=row["x"]).filter(pl.col("pvalue_adjusted") < ALPHA)
    if of_feature.is_empty() or not (of_feature["r"] * row["r"] < 0).all():
        return ""
    named = [f"{group} {correlation(r)}" for group, r in of_feature.select(cohort.by, "r").rows()]
    by = in_sentence(key_heading(cohort.by))
    return f", but of opposite sign within {by} {listed(named)}"
