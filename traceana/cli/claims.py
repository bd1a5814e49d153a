"""``traceana claims``: published claims compared with the data in a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import typer
from rich.table import Table
from rich.text import Text

from traceana.claims import PAPERS, VERDICTS, ClaimResults, check_claims
from traceana.cli.options import readable_traces
from traceana.cli.output import print_json, print_table, show_fraction, terminal
from traceana.errors import DataError
from traceana.store import open_store
from traceana.tables.formatting import rounded

_COLOURS: Final = {
    "reproduced": "green",
    "differs": "bold red",
    "observation": "blue",
    "untested": "yellow",
    "not testable": "cyan",
}


def claims(
    *,
    store: Path | None = None,
    paper: str | None = None,
    verdict: str | None = None,
    json: bool = False,
    strict: bool = False,
) -> None:
    """Compare published claims with the data in a store."""
    if verdict is not None and verdict not in VERDICTS:
        raise DataError(f"verdict {verdict!r} is unknown; there are {', '.join(VERDICTS)}")
    with readable_traces(open_store(store)) as opened:
        with show_fraction("claims") as progress:
            results = check_claims(opened, paper=paper, progress=progress)
        _print(results, paper, verdict, json=json)
        if strict and results.counts["differs"]:
            raise typer.Exit(1)


def _print(results: ClaimResults, paper: str | None, verdict: str | None, *, json: bool) -> None:
    for name in results.altered:
        sys.stderr.write(f"traceana: note: {name} is not the published file (its sha256 differs)\n")
    if json:
        evidence = {name: frame.to_dicts() for name, frame in results.evidence.items()}
        rows = [row for row in results.table.to_dicts() if verdict in (None, row["verdict"])]
        # the last digits of sums differ from run to run
        print_json(rounded([row | {"evidence": evidence.get(row["id"])} for row in rows]))
    elif paper is None and verdict is None:
        _print_papers(results)
    else:
        _print_claims(results, verdict)


def _print_papers(results: ClaimResults) -> None:
    shown = Table(box=None, pad_edge=False)
    shown.add_column("paper", no_wrap=True)
    for name in VERDICTS:
        shown.add_column(name, justify="right", style=_COLOURS[name])
    for paper in results.table["paper"].unique(maintain_order=True):
        rows = results.table.filter(paper=paper)
        numbers = [rows.filter(verdict=name).height for name in VERDICTS]
        shown.add_row(paper, *(str(number or "") for number in numbers))
    print_table(shown)
    _print_headline(results, "traceana claims --paper P or --verdict V lists the claims")


def _print_headline(results: ClaimResults, *lines: str) -> None:
    out = terminal()
    for line in (results.headline, *lines):
        out.print(line)
    if results.counts["untested"]:
        out.print("to test the untested: traceana fetch TRACE --to DIR, then traceana ingest DIR")


def _print_claims(results: ClaimResults, verdict: str | None) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 1, 0))
    shown.add_column("claim", no_wrap=True)
    shown.add_column("stated, measured and why")
    paper = ""
    for row in results.table.iter_rows(named=True):
        if verdict not in (None, row["verdict"]):
            continue
        if row["paper"] != paper:
            paper = row["paper"]
            shown.add_row(Text(paper, style="bold"), Text(PAPERS[paper].title, style="bold"))
        name = Text.assemble(row["id"], "\n", (row["verdict"], _COLOURS[row["verdict"]]))
        text = Text(row["statement"])
        if row["measured"] is not None:
            text.append(f"\nmeasured: {row['measured']}", style="bold")
        tolerance = f" ({row['tolerance']})" if row["tolerance"] else ""
        text.append(f"\n{row['section']}: {row['reason']}{tolerance}", style="dim")
        shown.add_row(name, text)
    print_table(shown)
    _print_headline(results)
