"""``traceana anonymize TRACE --out DIR``: a store without names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from traceana.cli.options import JsonOption, StoreOption


def anonymize(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="Id of the trace.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the store to write to.")],
    store: StoreOption = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with a secret of at least 16 bytes; equal secrets produce equal digests.  "
            "[default: a random one, not stored]",
        ),
    ] = None,
    round_s: Annotated[
        float | None,
        typer.Option("--round", metavar="SECONDS", help="Round times and runtimes down."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write an anonymized copy of a trace.

    Columns and values that could still identify a row are listed.
    """
    from traceana.cli.output import print_json, print_rows
    from traceana.errors import DataError
    from traceana.exchange import anonymize as anonymize_trace
    from traceana.exchange.tables import Disclosure

    if key is not None and key.exists() and not key.is_file():
        raise DataError(f"--key {key}: not a file")
    try:
        secret = None if key is None else key.read_bytes()
    except OSError as error:
        raise DataError(f"--key {key}: cannot be read ({error.strerror})") from error
    left = anonymize_trace(trace, out=out, store=store, key=secret, round_s=round_s)
    if json:
        print_json(left.rows(named=True))
    else:
        print_rows(left, Disclosure)
