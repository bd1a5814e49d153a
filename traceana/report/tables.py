"""Tables of rows read, kept and rejected, as the ledger counts them."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, flag, number, text


class RowCounts(ResultTable):
    """Rows by table, or by file and table."""

    trace = text("Trace", optional=True)
    file = text("File", "file, and the member of an archive", optional=True)
    table = text("Table")
    rows_read = count("Rows read", "rows kept, replaced and rejected")
    rows_kept = count("Kept", "rows in the table")
    rows_replaced = count(
        "Replaced", "rows that a newer record of the same key replaced", optional=True
    )
    rows_rejected = count("Rejected", "rows stored apart, with the rule that each broke")
    rows_not_applicable = count("Not applicable", "rows of the file for another table")
    synthetic = flag("Synthetic", "whether any row is synthetic", optional=True)


class Rejections(ResultTable):
    """Rejected rows by rule."""

    trace = text("Trace")
    table = text("Table")
    rule = text("Rule", "rule that the rows broke")
    rows = count("Rows")


class UnknownValues(ResultTable):
    """Values that no mapping lists."""

    trace = text("Trace")
    table = text("Table")
    column = text("Column")
    value = text("Value")
    rows = count("Rows", "rows with this value, which counts as unknown")


class SourceFiles(ResultTable):
    """Files that were read."""

    file = text("File")
    trace = text("Trace")
    bytes = number("Size", display="size", unit="bytes")
    as_published = text("As published", "whether the sha256 equals the publisher's")
    sha256 = text("sha256")
