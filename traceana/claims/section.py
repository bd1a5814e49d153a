"""Reproduction of published claims."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import polars as pl

from traceana.catalog import load_catalog
from traceana.claims import PAPERS, ClaimResults, check_claims
from traceana.claims.tables import ClaimVerdicts
from traceana.page.blocks import Block, Content, Heading, Points, Table, Text, result_table
from traceana.page.finding import Finding
from traceana.page.section import Context, Section
from traceana.tables.display import csv_text
from traceana.tables.formatting import plural

_MEANINGS: Final = {
    "reproduced": "equal to the printed digits, or within the stated tolerance",
    "differs": "not equal; the measured value and, if known, the reason are given",
    "observation": "unpublished: an internal check, a property of a model, or a question",
    "untested": "a table that it needs is missing from the store, incomplete, or synthetic; or it "
    "takes a simulation that is not made here",
    "not testable": "no public data can decide it",
}


def build(context: Context) -> Content:
    """Check every published claim against the store, if it has a public trace."""
    if not context.ledgers.keys() & load_catalog().keys():
        return Content((), (Text("No public trace is stored, so no published claim is checked."),))
    results = check_claims(context.store)
    papers = results.table.partition_by("paper", maintain_order=True)
    files = plural(len(results.altered), "file")
    altered = [Points(f"{files} not as published (the sha256 differs)", results.altered)]
    blocks: list[Block] = [
        Text(
            "Claims of the papers, compared with the tables in the store. Measured values are "
            "computed when this page is made. Printed numbers are compared by their digits; other "
            "statements by the tolerance given with them, and whose choice it is. "
            "Synthetic rows neither reproduce nor refute a claim."
        ),
        _counts(results),
        _kinds(results),
        *(altered if results.altered else ()),
        *(_paper(claims) for claims in papers),
        *_evidence(results),
    ]
    return Content(tuple(_findings(results)), tuple(blocks))


def _counts(results: ClaimResults) -> Table:
    ours = results.by_our_tolerance
    return Table(
        f"Verdicts on {plural(results.table.height, 'claim')}.",
        ("Verdict", "Claims", "By a tolerance of ours", "Meaning"),
        (False, True, True, False),
        tuple(
            (name, str(n), str(ours.get(name, "")), _MEANINGS[name])
            for name, n in results.counts.items()
        ),
    )


def _kinds(results: ClaimResults) -> Table:
    n_by_kind = results.by_kind
    return Table(
        "Verdicts by kind of claim. A count of rows is weaker evidence than a result.",
        ("Kind", *(name.capitalize() for name in n_by_kind.columns[1:])),
        (False, *(True for _ in n_by_kind.columns[1:])),
        tuple(tuple(map(str, row)) for row in n_by_kind.rows()),
    )


def _paper(claims: pl.DataFrame) -> Table:
    columns = ["id", "section", "statement", "published", "measured", "verdict", "reason"]
    caption = f"{PAPERS[claims['paper'][0]].title}."
    if claims["reference"].n_unique() == 1:  # else the section is named, and the CSV has more
        caption += f" Reference: {claims['reference'][0]}."
    why = pl.concat_str("reason", pl.format("({})", "tolerance"), separator=" ", ignore_nulls=True)
    shown = claims.with_columns(section=pl.format("{} ({})", "section", "kind"), reason=why)
    headings = {"section": "Section (kind)", "reason": "Reason (tolerance)"}
    options: dict[str, Any] = {"columns": columns, "headings": headings}
    null = {"measured": "nothing", "reason": ""}
    table = result_table(shown, ClaimVerdicts, caption=caption, null=null, **options)
    return replace(table, data=csv_text(claims, ClaimVerdicts))


def _evidence(results: ClaimResults) -> list[Block]:
    differs = results.table.filter(verdict="differs").iter_rows(named=True)
    shown = [
        result_table(
            results.evidence[row["id"]],
            caption=f"{row['id']}: {row['published']}. By "
            + ("arithmetic" if row["function"] == "none" else row["function"])
            + (f" of {row['source']}" if row["source"] else ""),
            folded=True,
        )
        for row in differs
        if row["id"] in results.evidence and results.evidence[row["id"]].height
    ]
    return [Heading("Evidence for the differences"), *shown] if shown else []


def _findings(results: ClaimResults) -> list[str]:
    # a claim that needs no data is no finding on the store
    judged = results.table.filter(results.table["source"].is_not_null())
    published = results.table.filter(results.table["kind"] != "observation")
    counts, ours = Counter(published["verdict"]), results.by_our_tolerance
    if not judged["verdict"].is_in(["reproduced", "differs"]).any():
        heading = f"No published claim on data is checked: {counts['untested']} need public traces"
        text = (
            f"Of {plural(published.height, 'published claim')}, {counts['untested']} need data "
            "that are missing, incomplete or synthetic here, and public data cannot decide "
            f"{counts['not testable']}. The others are arithmetic, or follow from a model: "
            f"{counts['reproduced']} are reproduced and {counts['differs']} differ."
        )
        return [Finding(text, heading=heading, certainty="cannot tell")]
    parts = (
        f"Of {plural(published.height, 'published claim')}, {counts['reproduced']} are reproduced "
        f"({ours['reproduced']} by a tolerance of ours) and {counts['differs']} differ "
        f"({ours['differs']} by a tolerance of ours). {counts['untested']} are untested, "
        f"and public data cannot decide {counts['not testable']}."
    )
    heading = f"{counts['reproduced']} published claims are reproduced, {counts['differs']} differ"
    return [Finding(parts, heading=heading)]


SECTION = Section(
    "claims",
    "Reproduction of published claims",
    170,
    build,
    part="Reproduction of published claims",
    question="Which published results does the data reproduce, and which not?",
)
