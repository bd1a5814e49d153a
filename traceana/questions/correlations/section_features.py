"""Correlations with requested resources: names, the figure, and what is stated of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import polars as pl

from traceana.cohorts.cohort import Cohort
from traceana.page.blocks import Drawing, Table, drawing, result_table
from traceana.questions.correlations.tables import Correlations
from traceana.stats.multiplicity import INCONCLUSIVE, NEGLIGIBLE, THRESHOLDS, conclude
from traceana.tables.declare import with_columns
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    correlation,
    correlation_range,
    in_sentence,
    interval,
    listed,
    p_equals,
)


class Answers(NamedTuple):
    """What rows do that request more, by the sign and size of a correlation."""

    rises: str
    falls: str
    alike: str
    unclear: str


RUN: Final = Answers("run longer", "run shorter", "run about as long", "may run longer or shorter")
FAIL: Final = Answers(
    "fail more often", "fail less often", "fail about as often", "may fail more or less often"
)
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
    what: str,
    overall: pl.DataFrame,
    within: pl.DataFrame | None,
    /,
    *,
    method: str = "spearman",
) -> list[Drawing]:
    """Return the figure of correlations over rows, overall and by the cohort's groups."""
    named = overall.filter(method=method, level="row")
    frames = [named.with_columns(group=pl.lit(None, pl.String))]
    by = f", overall and by {in_sentence(key_heading(cohort.by))}" if cohort.by else ""
    if within is not None and cohort.by is not None:
        rows = name_rows(within.filter(method=method))
        frames.append(rows.with_columns(group=pl.col(cohort.by).cast(pl.String)))
    every = pl.concat(frames, how="diagonal")
    if "outcome" not in every.columns:
        every = every.with_columns(outcome=pl.lit(None, pl.String))
    features = pl.Enum(named["feature"].unique(maintain_order=True))
    shown = every.select("feature", "outcome", "group", "n", "r", "ci_low", "ci_high").sort(
        pl.col("feature").cast(features), "group", pl.col("outcome") != "success", nulls_last=False
    )
    if not shown["r"].count():
        return []
    ranked = method == "spearman"
    name = f"Rank correlation of {what} with" if ranked else f"Pearson's r of {what} and"
    kind = "" if ranked else "-pearson"
    key = f"{'failure-' * (what == 'failure')}correlations{kind}-{cohort.trace.id}"
    about = f"{name} the resources that {cohort.noun} request{by}"
    options = {"title": cohort.title, "x_label": "Spearman's rho" if ranked else "Pearson's r"}
    return [drawing("correlations", shown, cohort.trace, key, about, **options)]


def compare_methods(
    cohort: Cohort, what: str, overall: pl.DataFrame, within: Sequence[pl.DataFrame], /
) -> list[Table]:
    """Return the table of Pearson's r beside Spearman's rho, overall and by the cohort's groups."""
    frames = [overall.filter(level="row").with_columns(group=pl.lit("all"))]
    group, by = "Group", ""
    if cohort.by is not None:
        frames += [name_rows(one).with_columns(group=pl.col(cohort.by)) for one in within]
        group = key_heading(cohort.by)
        by = f", overall and within {in_sentence(group)}"
    values = {"r": "{}", "ci_low": "CI from", "ci_high": "to", "pvalue_adjusted": "adjusted p"}
    methods = {"pearson": "Pearson's r", "spearman": "Spearman's rho"}
    outcome = ["outcome"] if "outcome" in overall.columns else []
    keys = [*outcome, "feature", "group", "n"]
    rows = pl.concat([frame.select(*keys, "method", *values) for frame in frames])
    if not set(methods) <= set(rows["method"]):
        return []
    order = [pl.col(name) != "success" for name in outcome]
    columns, headings = dict[str, str](), {"group": group}
    for (method, name), (value, heading) in product(methods.items(), values.items()):
        columns[f"{value}_{method}"] = value
        headings[f"{value}_{method}"] = heading.format(name)
    return [
        result_table(
            rows.pivot("method", index=keys, values=[*values]).sort(
                *order, "feature", pl.col("group") != "all", "group"
            ),
            with_columns(Correlations, columns),
            columns=[*keys, *columns],
            headings=headings,
            caption=f"Pearson's r and Spearman's rho of {what} and the resources that "
            f"{cohort.noun} request{by}. Each is adjusted in its own family of tests. "
            f"{cohort.title}",
        )
    ]


def state_correlations(
    cohort: Cohort,
    who: str,
    answers: Answers,
    ranks: pl.DataFrame,
    within: pl.DataFrame | None,
    /,
    *,
    when: str = "",
) -> str:
    """Return a finding on rank correlations with requested resources, one sentence of each.

    What is clear is first, then by strength; `who` are the rows, and `when` follows the answer.
    """
    stated: list[tuple[bool, float, str, str, str]] = []
    table = ranks.drop_nulls("r")
    # resources that are requested in a fixed ratio have one correlation
    same = ("r", "ci_low", "ci_high", "pvalue_adjusted", "n")
    for _, alike in table.group_by(same, maintain_order=True):
        row = alike.row(0, named=True)
        size = conclude(
            "correlation", row["r"], row["ci_low"], row["ci_high"], row["pvalue_adjusted"]
        )
        if row["pvalue_adjusted"] is None:
            size = NEGLIGIBLE if abs(row["r"]) < THRESHOLDS["correlation"][0] else ""
        unclear = {NEGLIGIBLE: answers.alike, INCONCLUSIVE: answers.unclear}.get(size)
        name = listed([requested(feature) for feature in alike["feature"]])
        if alike.height > 1:
            name += f", which rank the {cohort.noun} alike,"
        limits = interval(row, correlation_range, ", 95 % CI {}")
        p = row["pvalue_adjusted"]
        tested = ", not tested" if p is None else f"; {p_equals(p)}"
        numbers = f"rho {correlation(row['r'])}{limits}{tested}"
        reverses = "" if unclear else _reversed(cohort, row, within)
        answer = unclear or (answers.rises if row["r"] > 0 else answers.falls)
        stated.append((unclear is not None, -abs(row["r"]), name, answer, numbers + reverses))
    if not stated:
        return ""
    stated.sort(key=lambda one: one[:2])
    (_, _, name, answer, numbers), *others = stated
    rows = " to ".join(f"{n:,}" for n in table["n"].unique().sort()[[0, -1]].unique())
    units = ""
    if cohort.cluster is not None:
        units = f", {cohort.name_units(max(table['n_clusters'].drop_nulls(), default=0))}"
    first = f"{cohort.title}: {who} that request more {name} {answer}{when}"
    sentences = [
        f"{first} (Spearman's {numbers}; n = {rows}{units})",
        *(f"With more {name} they {answer} ({numbers})" for _, _, name, answer, numbers in others),
    ]
    return ". ".join(sentences) + "."


def requested(feature: str, /) -> str:
    """Return what a row requests more of: memory, instances."""
    name = in_sentence(feature).removesuffix(" (GiB)")
    return "instances" if name == "task size (instances)" else name


def _reversed(cohort: Cohort, row: dict[str, Any], within: pl.DataFrame | None) -> str:
    """Return the groups in which a correlation is significant, if all have the opposite sign."""
    if within is None or cohort.by is None:
        return ""
    of_feature = within.filter(x=row["x"]).filter(pl.col("pvalue_adjusted") < ALPHA)
    if of_feature.is_empty() or not (of_feature["r"] * row["r"] < 0).all():
        return ""
    named = [f"{group} {correlation(r)}" for group, r in of_feature.select(cohort.by, "r").rows()]
    by = in_sentence(key_heading(cohort.by))
    return f"; of opposite sign within {by} {listed(named)}"
