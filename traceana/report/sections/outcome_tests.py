"""Whether runtimes and outcomes differ between groups, by how much, and within strata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import compare_runtimes, failure_odds, outcome_association
from traceana.errors import DataError
from traceana.report.blocks import Block, Column, Content, Table, Text, make_table, notes, words
from traceana.results.formatting import (
    count,
    plain,
    pvalue,
    ratio,
    ratio_range,
    seconds,
    seconds_range,
    three_digits,
    three_digits_range,
)

if TYPE_CHECKING:
    from traceana.report.sections.populations import Population

_STATUSES: Final = ("completed", "failed")


def tell_runtimes(population: Population, by: str, heading: str, /) -> Content:
    """Compare runtimes between groups, of what completed and of what failed."""
    tests, medians, pairs, notes = [], [], [], []
    for status in _STATUSES:
        # a group that is not stated is none to compare with
        rows = population.rows.filter(pl.col(by).is_not_null(), status=status)
        try:
            found = compare_runtimes(rows, by, cluster=population.cluster)
        except DataError as error:
            notes.append(f"Runtimes of {status} {population.things} are not compared: {error}.")
            continue
        of_status = pl.lit(status).alias("status")
        tests.append(found.test.select(of_status, pl.all()))
        medians.append(found.groups.select(of_status, pl.all()).filter(pl.col("n") > 0))
        pairs.append(found.pairs.select(of_status, pl.all()))
    blocks: list[Block] = [Text(note) for note in notes]
    if not tests:
        return Content((), tuple(blocks))
    table = pl.concat(tests)
    caption = f"of {population.things} between groups by {heading}"
    blocks += [
        Text(
            "Ranks of runtimes are compared, since their tails are heavy. "
            f"{population.independence}"
        ),
        _tests(
            table,
            f"Kruskal and Wallis' test of runtimes {caption}: epsilon squared is the "
            f"share of the ranks' variance that lies between groups. {population.name}",
        ),
        _medians(pl.concat(medians), by, heading, population),
        _pairs(pl.concat(pairs), by, population),
    ]
    first = table.row(0, named=True)
    findings = []
    if first["epsilon_squared"] is not None:
        interval = ""
        if first["ci_low"] is not None:
            interval = f" ({ratio_range(first['ci_low'], first['ci_high'])})"
        findings.append(
            f"{population.name}: {heading} accounts for {ratio(first['epsilon_squared'])}"
            f"{interval} of the variance of the ranks of runtimes of {first['status']} "
            f"{population.things} (n = {first['n']:,})."
        )
    return Content(tuple(findings), tuple(blocks))


def tell_dependence(population: Population, by: str, heading: str, /) -> Content:
    """Test whether failure depends on the group, under both readings."""
    rows = population.rows.filter(pl.col(by).is_not_null())
    try:
        found = outcome_association(rows, by, cluster=population.cluster)
    except DataError as error:
        return Content((), (Text(f"Whether failure depends on {heading} is not told: {error}."),))
    table = make_table(
        found,
        [
            words("Reading", "reading"),
            Column("n", "n", count),
            Column("n in effect", "n_effective", count),
            Column("Failures", "failures", count),
            Column("Groups", "n_groups", count),
            Column("Cramer's V", "cramers_v", ratio),
            Column("95 % interval", ("ci_low", "ci_high"), ratio_range),
            Column("V, bias taken off", "cramers_v_corrected", ratio),
            Column("Statistic", "statistic", three_digits),
            Column("df", "df", plain),
            Column("p", "pvalue", pvalue),
            words("Method", "method", null=""),
            *notes(found),
        ],
        caption=f"Whether failure of {population.things} depends on {heading}: Cramer's V is 0 "
        "where all groups fail at one rate and 1 where the group decides. Groups that are not "
        f"stated are left out. {population.name}",
    )
    findings = []
    known = found.drop_nulls(["cramers_v", "ci_low", "ci_high"]).rows(named=True)
    if known:
        told = [
            f"{ratio(row['cramers_v'])} ({ratio_range(row['ci_low'], row['ci_high'])}, n = "
            f"{row['n']:,}) under the {row['reading']} reading"
            for row in known
        ]
        findings.append(
            f"{population.name}: failure depends on {heading} with a Cramer's V of "
            f"{' and '.join(told)}."
        )
    return Content(tuple(findings), (table,))


def tell_strata(
    population: Population, by: str, heading: str, strata: tuple[str, str], /
) -> tuple[Block, ...]:
    """Compare odds of failure between groups, crude and within strata (a column, its heading)."""
    column, within = strata
    rows = population.rows.filter(pl.col(by).is_not_null())
    try:
        found = failure_odds(rows, by, strata=column)
    except DataError as error:
        return (Text(f"Odds of failure by {heading} are not compared: {error}."),)
    return (
        make_table(
            found,
            [
                words("Reading", "reading"),
                words(heading, by),
                words("Against", f"{by}_reference"),
                Column("n", "n", count),
                Column("Failures", "failures", count),
                Column("Crude odds ratio", "crude_odds_ratio", three_digits),
                Column("95 % interval", ("crude_ci_low", "crude_ci_high"), three_digits_range),
                Column(f"Within {within}", "odds_ratio", three_digits),
                Column("95 % interval", ("ci_low", "ci_high"), three_digits_range),
                Column("p", "pvalue", pvalue),
                Column("p of strata alike", "pvalue_homogeneity", pvalue),
                Column("Strata that tell", "n_strata", count),
                *notes(found),
            ],
            caption=f"Odds of failure of {population.things} by {heading}, taken together and "
            f"within {within} (Mantel and Haenszel), rows taken as independent. Where strata are "
            "not alike (a small last p) the pooled ratio is a summary of ratios that differ. p are "
            f"not adjusted. {population.name}",
        ),
    )


def _tests(table: pl.DataFrame, caption: str) -> Table:
    return make_table(
        table,
        [
            words("Status", "status"),
            Column("Runtimes", "n", count),
            Column("n in effect", "n_effective", count),
            Column("Groups", "n_groups", count),
            Column("Users", "n_clusters", count),
            Column("Epsilon squared", "epsilon_squared", ratio),
            Column("95 % interval", ("ci_low", "ci_high"), ratio_range),
            Column("H", "statistic", three_digits),
            Column("df", "df", plain),
            Column("p", "pvalue", pvalue),
            *notes(table),
        ],
        caption=caption,
    )


def _medians(groups: pl.DataFrame, by: str, heading: str, population: Population) -> Table:
    return make_table(
        groups,
        [
            words("Status", "status"),
            words(heading, by),
            Column("Runtimes", "n", count),
            Column("Median (s)", "median_s", seconds),
            Column("95 % interval (s)", ("ci_low", "ci_high"), seconds_range),
            Column("Mean rank", "mean_rank", count),
        ],
        caption=f"Median runtime of {population.things} by {heading}, with an interval that is "
        f"free of any distribution. {population.name}",
        folded=True,
    )


def _pairs(pairs: pl.DataFrame, by: str, population: Population) -> Table:
    return make_table(
        pairs,
        [
            words("Status", "status"),
            words("First", f"{by}_a"),
            words("Second", f"{by}_b"),
            Column("n of first", "n_a", count),
            Column("n of second", "n_b", count),
            Column("First is longer", "superiority", ratio),
            Column("95 % interval", ("ci_low", "ci_high"), ratio_range),
            Column("Cliff's delta", "cliffs_delta", ratio),
            Column("Adjusted p", "pvalue_adjusted", pvalue),
            *notes(pairs),
        ],
        caption="Pairs of groups: the chance that a runtime of the first is the longer, and Mann "
        f"and Whitney's p, adjusted (Holm) over the pairs of a status. {population.name}",
        folded=True,
    )
