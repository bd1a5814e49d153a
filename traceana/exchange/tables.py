"""Table of what an anonymized trace still reveals."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, text


class Disclosure(ResultTable):
    """Columns with values in an anonymized trace, and how far they single out rows."""

    table = text("Table")
    column = text("Column", "column; null: all columns that were kept or shifted, together")
    treatment = text(
        "Treatment",
        "digest, shifted (times), rounded, grouped (means), one word kept (of reasons; several "
        "become a digest) or kept; null for several columns",
    )
    distinct = count("Distinct values", "distinct values; for several columns, combinations")
    single = count("Single rows", "rows whose value no other row has")
