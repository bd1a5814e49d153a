"""Concentration of GPU-hours over jobs, and burstiness of submissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.report.blocks import Block, Content, Table, Text, result_table
from traceana.results.formatting import ratio, share, three_digits
from traceana.results.workload import Concentration, Interarrivals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceana.derived.workload import Split, Workload
    from traceana.results.tables import ResultTable

_SIZES: Final = (
    *("n", "n_missing", "gini", "share_of_top_1_percent", "share_of_top_10_percent"),
    "share_of_lower_half",
)
_GAPS: Final = ("n", "median_s", "max_s", "cv", "burstiness", "memory", "dispersion")


def split_table(
    split: Split,
    table: type[ResultTable],
    /,
    *,
    by: str | None,
    caption: str,
    columns: tuple[str, ...] | None = None,
    folded: bool = False,
) -> Table:
    """Show a result by group and without survivors, with all jobs as the last row."""
    key = by or "jobs_of"
    shown = columns or tuple(split.total.columns)

    def named(frame: pl.DataFrame, name: str) -> pl.DataFrame:
        return frame.select(pl.lit(name).alias(key), *shown)

    total = named(split.total, "all")
    parts = [total.clear()]
    if split.groups is not None:
        parts.append(split.groups.select(pl.col(key).cast(pl.String), *shown))
    if split.since is not None:
        parts.append(named(split.since, "without survivors"))
    return result_table(
        pl.concat(parts),
        table,
        caption=caption,
        headings={"jobs_of": "Rows"},
        null={key: "not stated"},
        total=total,
        folded=folded,
    )


def build_spread(found: Workload, title: str, /) -> Content:
    """Show the tables of all jobs, of groups and of jobs without survivors."""
    findings, blocks, headline = [], list[Block](), ""
    folded = found.by is not None
    if (sizes := found.concentration) is not None:
        row = sizes.total.row(0, named=True)
        if row["gini"] is not None:
            top = share(row["share_of_top_1_percent"])
            known: Iterable[float] = (
                [] if sizes.since is None else sizes.since["share_of_top_1_percent"].drop_nulls()
            )
            but = [
                f"; {share(other)} without the {found.survivors:,} that started before the first "
                "recorded end"
                for other in known
            ]
            findings.append(
                f"{title}: the largest 1 % of jobs use {top} of the GPU-hours (n = {row['n']:,}"
                f"{''.join(but)})."
            )
            headline = f"{top} in {title} (n = {row['n']:,}{''.join(but)})"
            blocks.append(
                Text(
                    f"The largest 10 % of jobs use {share(row['share_of_top_10_percent'])} of the "
                    f"GPU-hours (Gini {ratio(row['gini'])})."
                )
            )
        caption = f"Concentration of GPU-hours over jobs. {title}"
        blocks.append(
            split_table(
                sizes, Concentration, by=found.by, caption=caption, columns=_SIZES, folded=folded
            )
        )
    if (gaps := found.interarrivals) is not None:
        cv = gaps.total["cv"].item()
        if cv is not None:
            measured = three_digits(cv)
            if gaps.since is not None and (later := gaps.since["cv"].item()) is not None:
                measured = (
                    f"{three_digits(later)} for submissions after the first recorded end (with the "
                    f"survivors before it {measured}, because the others are missing)"
                )
            blocks.append(
                Text(
                    f"The coefficient of variation (CV) of interarrival times is {measured}; of a "
                    "Poisson process it is 1. Daily and weekly cycles alone increase it."
                )
            )
        caption = (
            "Burstiness of submissions (Poisson process: CV 1, burstiness 0, memory 0, index of "
            f"dispersion by hour 1). {title}"
        )
        blocks.append(
            split_table(
                gaps, Interarrivals, by=found.by, caption=caption, columns=_GAPS, folded=folded
            )
        )
    return Content(tuple(findings), tuple(blocks), headline)
