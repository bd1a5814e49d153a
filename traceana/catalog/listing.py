"""The catalog as a table."""

from __future__ import annotations

import polars as pl

from traceana.catalog.model import load_catalog


def list_traces() -> pl.DataFrame:
    """List the public traces that can be fetched and ingested.

    Returns
    -------
    DataFrame
        [trace, description, tables, rows, bytes, license, files]: `rows` as published, `bytes` of
        the (mostly compressed) files and their number; a sum of which nothing is known is null.

    Examples
    --------
    >>> import traceana
    >>> traceana.list_traces().select("trace", "license").row(-1)
    ('zeus-2023', 'Apache-2.0')
    """
    traces = load_catalog().values()
    return pl.DataFrame(
        {
            "trace": [trace.id for trace in traces],
            "description": [trace.description for trace in traces],
            "tables": [list(trace.tables) for trace in traces],
            "rows": [_sum_known(list(trace.rows.values())) for trace in traces],
            "bytes": [_sum_known([file.bytes for file in trace.files]) for trace in traces],
            "license": [trace.license for trace in traces],
            "files": [len(trace.files) for trace in traces],
        },
        schema_overrides={"rows": pl.Int64, "bytes": pl.Int64, "files": pl.Int64},
    )


def _sum_known(counts: list[int] | list[int | None]) -> int | None:
    stated = [count for count in counts if count is not None]
    return sum(stated) if stated else None
