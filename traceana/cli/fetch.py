"""`traceana fetch`: get a trace's files, each checked against its published checksum."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Annotated

import typer


def fetch(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", help="Id of the trace, as `traceana traces` lists it.")
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for the files.  [default: one in the user's cache folder]"
        ),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            metavar="DIR_OR_URL",
            help="Folder or URL with the files under their published names.",
        ),
    ] = None,
) -> None:
    """Download the files of a public trace and check them."""
    from traceana.catalog import fetch as fetch_files

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = fetch_files(trace, to=to, mirror=mirror)
    typer.echo(f"the files of {trace} are in {folder}")
    typer.echo(f"next: traceana ingest {shlex.quote(str(folder))}")
