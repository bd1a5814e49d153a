"""``traceana claims``: published claims compared with the data in a store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from traceana.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from traceana.claims import ClaimResults

_COLOURS: Final = {
    "reproduced": "green",
    "differs": "bold red",
    "observation": "blue",
    "untested": "yellow",
    "not testable": "cyan",
}


def claims(
    *,
    store: StoreOption = None,
    paper: Annotated[
        str | None,
        typer.Option(metavar="P", help="One paper; an unknown name lists them.  [default: all]"),
    ] = None,
    json: JsonOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if a claim differs.")] = False,
) -> None:
    """Compare published claims with the data in a store.

    A claim is reproduced, differs, is an observation, untested or not testable.
    """
    from traceana.claims import check_claims
    from traceana.cli.output import print_json, show_share
    from traceana.store import open_store

    with show_share("claims") as progress:
        results = check_claims(open_store(store), paper=paper, progress=progress)
    for name in results.altered:
        sys.stderr.write(f"traceana: note: {name} is not the published file (its sha256 differs)\n")
    if json:
        print_json(_records(results))
    else:
        _print_table(results)
    if strict and results.counts["differs"]:
        raise typer.Exit(1)


def _records(results: ClaimResults) -> list[dict[str, Any]]:
    evidence = {name: frame.to_dicts() for name, frame in results.evidence.items()}
    return [row | {"evidence": evidence.get(row["id"])} for row in results.table.to_dicts()]


def _print_table(results: ClaimResults) -> None:
    """Print one row per claim: id and verdict, statement, published and measured values."""
    from rich.table import Table
    from rich.text import Text

    from traceana.cli.output import print_table
    from traceana.cli.streams import terminal

    shown = Table(box=None, pad_edge=False, padding=(0, 1, 1, 0))
    shown.add_column("claim", no_wrap=True)
    shown.add_column("stated, measured and why")
    for row in results.table.iter_rows(named=True):
        name = Text.assemble(row["id"], "\n", (row["verdict"], _COLOURS[row["verdict"]]))
        text = Text(row["statement"])
        if row["measured"] is not None:
            text.append(f"\nmeasured: {row['measured']}", style="bold")
        tolerance = f" ({row['tolerance']})" if row["tolerance"] else ""
        text.append(f"\n{row['note']}{tolerance}", style="dim")
        shown.add_row(name, text)
    print_table(shown)
    out = terminal()
    out.print(results.headline)
    if results.counts["untested"]:
        out.print("to test the untested: traceana fetch TRACE --to DIR, then traceana ingest DIR")
