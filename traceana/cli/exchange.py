"""``traceana export`` and ``traceana anonymize``: a trace for others."""

from __future__ import annotations

import sys
from pathlib import Path

from traceana.cli.output import print_json, print_rows
from traceana.errors import DataError
from traceana.exchange import anonymize as anonymize_trace
from traceana.exchange import export_tables
from traceana.exchange.anonymize import Disclosure


def export(
    trace: str,
    *,
    out: Path,
    store: Path | None = None,
    table: list[str] | None = None,
    file_format: str = "parquet",
) -> None:
    """Export tables as Parquet, CSV or SWF."""
    paths = export_tables(trace, out=out, store=store, tables=table or (), file_format=file_format)
    sys.stdout.writelines(f"{path}\n" for path in paths)


def anonymize(
    trace: str,
    *,
    out: Path,
    store: Path | None = None,
    key: Path | None = None,
    round_s: float | None = None,
    min_group: int = 1,
    json: bool = False,
) -> None:
    """Write an anonymized copy of a trace."""
    if key is not None and key.exists() and not key.is_file():
        raise DataError(f"--key {key}: not a file")
    try:
        secret = None if key is None else key.read_bytes()
    except OSError as error:
        raise DataError(f"--key {key}: cannot be read ({error.strerror})") from error
    left = anonymize_trace(
        trace, out=out, store=store, key=secret, round_s=round_s, min_group=min_group
    )
    if json:
        print_json(left.rows(named=True))
    else:
        print_rows(left, Disclosure)
