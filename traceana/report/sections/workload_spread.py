"""How unevenly GPU-hours are spread over jobs, and submissions over time."""

from __future__ import annotations

import polars as pl

from traceana.analysis import concentration, interarrivals
from traceana.report.blocks import Column, Content, Text, make_table, words
from traceana.results.formatting import count, ratio, seconds, share, three_digits

_HOUR_S = 3600
_SPREAD = [
    Column("Jobs with GPU-hours", "n", count),
    Column("Without", "n_missing", count),
    Column("Gini", "gini", ratio),
    Column("Top 1 % of jobs", "share_of_top_1_percent", share),
    Column("Top 10 %", "share_of_top_10_percent", share),
    Column("Lower half", "share_of_lower_half", share),
]
_BURSTS = [
    Column("Times between submissions", "gaps", count),
    Column("Median (s)", "median_s", seconds),
    Column("Largest (s)", "max_s", seconds),
    Column("cv", "cv", three_digits),
    Column("Burstiness", "burstiness", ratio),
    Column("Memory", "memory", ratio),
    Column("Dispersion by hour", "dispersion", three_digits),
]


def tell_spread(
    jobs: pl.LazyFrame, since: pl.LazyFrame | None, name: str, *, several_clusters: bool
) -> Content:
    """Table by cluster, or of all jobs and of those since survivors; the latter are told of.

    `since` is None where there are no survivors.
    """
    total = _spread(jobs).with_columns(cluster=pl.lit("all"))
    others = total.clear()
    if since is not None:
        others = _spread(since).with_columns(cluster=pl.lit("without survivors"))
    table = make_table(
        _spread(jobs, by=("cluster",)) if several_clusters else others,
        [words("Cluster" if several_clusters else "Jobs", "cluster"), *_SPREAD, *_BURSTS],
        caption="Concentration of GPU-hours, and burstiness of submissions "
        f"(a Poisson process: cv 1, burstiness 0, memory 0, dispersion 1). {name}",
        total=total,
        folded=several_clusters,
    )
    row = total.row(0, named=True)
    findings, headline = [], ""
    if row["gini"] is not None:
        without = [
            f"; without survivors of an earlier time {share(other)}"
            for other in others["share_of_top_1_percent"].drop_nulls()
        ]
        headline = f"{share(row['share_of_top_1_percent'])} in {name}"
        findings.append(
            f"{name}: the largest 1 % of jobs hold {share(row['share_of_top_1_percent'])} of the "
            f"GPU-hours{''.join(without)}."
        )
    return Content(tuple(findings), (Text(_in_words(row)), table), headline)


def _spread(jobs: pl.LazyFrame, by: tuple[str, ...] = ()) -> pl.DataFrame:
    held = concentration(jobs, by=by).drop("note", "jobs")
    gaps = interarrivals(jobs, by=by, window_s=_HOUR_S).rename({"n": "gaps"})
    return held.hstack(gaps.drop(*by, "jobs", "n_missing", "note"))


def _in_words(row: dict[str, float | None]) -> str:
    """Tell of all jobs together what the table holds."""
    told = []
    if row["gini"] is not None:
        held = f"the largest 10 % of jobs hold {share(row['share_of_top_10_percent'] or 0)}"
        told.append(f"Over all jobs {held} of the GPU-hours (Gini {ratio(row['gini'])}).")
    if row["cv"] is not None:
        told.append(
            f"Times between submissions have a cv of {three_digits(row['cv'])}, which for a "
            "Poisson process is 1; a rhythm of days and weeks alone makes it larger."
        )
    return " ".join(told)
