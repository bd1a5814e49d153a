"""Reproduction of published claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.claims import PAPERS, check_claims
from traceana.report.blocks import Block, Content, Heading, Points, Table, Text, result_table
from traceana.report.section import Section
from traceana.results.claims import ClaimVerdicts
from traceana.results.formatting import plural

if TYPE_CHECKING:
    import polars as pl

    from traceana.claims import ClaimResults
    from traceana.report.context import Context

_MEANINGS: Final = {
    "reproduced": "equal to the precision printed",
    "differs": "not equal; the measured value and, if known, the reason are given",
    "untested": "a table that it needs is missing from the store, incomplete, or synthetic",
    "not testable": "no public data can decide it",
}


def build(context: Context) -> Content:
    """Check every published claim against the store."""
    results = check_claims(context.store, session=context)
    papers = results.table.partition_by("paper", maintain_order=True)
    blocks: list[Block] = [
        Text(
            "Claims of the papers, compared with the tables in the store. Measured values are "
            "computed when this page is made, and compared after rounding to the printed digits. "
            "Synthetic rows neither reproduce nor refute a claim."
        ),
        _counts(results),
        *_altered(results),
        *(_paper(claims) for claims in papers),
        *_evidence(results),
    ]
    return Content(tuple(_findings(results)), tuple(blocks))


def _counts(results: ClaimResults) -> Table:
    return Table(
        f"Verdicts on {plural(results.table.height, 'published claim')}.",
        ("Verdict", "Claims", "Meaning"),
        (False, True, False),
        tuple((name, str(n), _MEANINGS[name]) for name, n in results.counts.items()),
    )


def _altered(results: ClaimResults) -> list[Block]:
    if not results.altered:
        return []
    summary = f"{plural(len(results.altered), 'file')} not as published (the sha256 differs)"
    return [Points(summary, results.altered)]


def _paper(claims: pl.DataFrame) -> Table:
    columns = ("id", "statement", "published", "measured", "verdict", "note")
    caption = f"{PAPERS[claims['paper'][0]].title}."
    return result_table(
        claims, ClaimVerdicts, caption=caption, columns=columns, null={"measured": "nothing"}
    )


def _evidence(results: ClaimResults) -> list[Block]:
    differs = results.table.filter(verdict="differs").iter_rows(named=True)
    shown = [
        result_table(
            results.evidence[row["id"]],
            caption=f"{row['id']}: {row['published']}. By {row['function']}"
            + (f" of {row['source']}" if row["source"] else ""),
            folded=True,
        )
        for row in differs
        if row["id"] in results.evidence and results.evidence[row["id"]].height
    ]
    return [Heading("Evidence for the differences"), *shown] if shown else []


def _findings(results: ClaimResults) -> list[str]:
    # a claim judged from its statement alone is no finding on the store
    judged = results.table.filter(results.table["source"].is_not_null())
    if not judged["verdict"].is_in(["reproduced", "differs"]).any():
        return []
    counts = results.counts
    told = (
        f"Of {plural(results.table.height, 'published claim')}, {counts['reproduced']} are "
        f"reproduced and {counts['differs']} differ; {counts['untested']} are untested because "
        f"data are missing, and {counts['not testable']} cannot be decided by public data."
    )
    return [told]


SECTION = Section(
    "claims",
    "Reproduction of published claims",
    170,
    build,
    of_tasks=True,
    part="Reproduction of published claims",
    question="Which published results does the data reproduce, and which not?",
)
