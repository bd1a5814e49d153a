"""Published statements beside what the store holds: reproduced, differs, or why neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.claims import PAPERS, check_claims
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Heading,
    Points,
    Table,
    Text,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.results.formatting import plain, plural

if TYPE_CHECKING:
    import polars as pl

    from traceana.claims import ClaimResults
    from traceana.report.context import Context

_MEANINGS: Final = {
    "reproduced": "equal to the precision printed",
    "differs": "not equal; what was measured and, where it can be shown, why, stand beside it",
    "untested": "a table that it needs is not in the store, is not whole, or is synthetic",
    "not testable": "no public data could decide it",
}


def build(session: Context) -> Content:
    """Judge every published statement by the store."""
    results = check_claims(session.store, session=session)
    papers = results.table.partition_by("paper", maintain_order=True)
    blocks: list[Block] = [
        Text(
            "What the papers state, and what the rows in the store say of it. Nothing but the "
            "published values is typed in: what is measured is computed when this page is made. "
            "A number is compared after rounding it to the digits printed. Synthetic rows never "
            "bear a statement out, nor do they refute one."
        ),
        _counts(results),
        *_altered(results),
        *(_paper(claims) for claims in papers),
        *_evidence(results),
    ]
    return Content(tuple(_findings(results)), tuple(blocks))


def _counts(results: ClaimResults) -> Table:
    return Table(
        f"Verdicts on {plural(results.table.height, 'published statement')}.",
        ("Verdict", "Statements", "Meaning"),
        (False, True, False),
        tuple((name, str(n), _MEANINGS[name]) for name, n in results.counts.items()),
    )


def _altered(results: ClaimResults) -> list[Block]:
    if not results.altered:
        return []
    summary = f"{plural(len(results.altered), 'file')} not as published (the sha256 differs)"
    return [Points(summary, results.altered)]


def _paper(claims: pl.DataFrame) -> Table:
    columns = [
        words("Claim", "id"),
        words("Statement", "statement"),
        words("Published", "published"),
        words("Measured", "measured", null="nothing"),
        words("Verdict", "verdict"),
        words("Why", "note"),
    ]
    return make_table(claims, columns, caption=f"{PAPERS[claims['paper'][0]].title}.")


def _evidence(results: ClaimResults) -> list[Block]:
    differs = results.table.filter(verdict="differs").iter_rows(named=True)
    shown = [
        make_table(
            results.evidence[row["id"]],
            [_column(name, kind) for name, kind in results.evidence[row["id"]].schema.items()],
            caption=f"{row['id']}: {row['published']}. By {row['function']}"
            + (f" of {row['source']}" if row["source"] else ""),
            folded=True,
        )
        for row in differs
        if row["id"] in results.evidence and results.evidence[row["id"]].height
    ]
    return [Heading("Evidence of what differs"), *shown] if shown else []


def _column(name: str, kind: pl.DataType) -> Column:
    heading = name.replace("_", " ")
    if kind.is_float():
        return Column(heading, name, plain)
    return Column(heading, name, _text, numeric=kind.is_numeric())


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _findings(results: ClaimResults) -> list[str]:
    # what is judged by itself is no finding on the store
    judged = results.table.filter(results.table["source"].is_not_null())
    if not judged["verdict"].is_in(["reproduced", "differs"]).any():
        return []
    counts = results.counts
    told = (
        f"Of {plural(results.table.height, 'published statement')} {counts['reproduced']} are "
        f"reproduced and {counts['differs']} differ; {counts['untested']} could not be tested for "
        f"lack of data, and {counts['not testable']} no public data could decide."
    )
    return [told]


SECTION = Section("claims", "Published statements, judged", 170, build, of_tasks=True)
