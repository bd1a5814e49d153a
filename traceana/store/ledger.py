"""What was read, kept and rejected, for every table and file; kept as JSON beside the tables."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from html import escape
from typing import Any, Final

import polars as pl

from traceana.store.manifest import as_tuples, checked

_FORMAT: Final = 2
_SUM: Final = "rows_rejected"
"""Of a file: stored and not read."""
_COUNTS: Final = ("rows_read", "rows_kept", "rows_rejected", "rows_not_applicable")
_TABLES: Final = (
    {"trace": pl.String, "table": pl.String}
    | dict.fromkeys((*_COUNTS, "rows_replaced"), pl.Int64)
    | {"synthetic": pl.Boolean, "state": pl.String}
)
_FILES: Final = (
    dict.fromkeys(("trace", "table", "file", "member", "sha256"), pl.String)
    | {"bytes": pl.Int64, "as_published": pl.Boolean}
    | dict.fromkeys(_COUNTS, pl.Int64)
)


@dataclass(frozen=True)
class FileEntry:
    """Rows of one CSV for one table: ``rows_read == rows_kept + rows_rejected``."""

    file: str
    member: str | None
    sha256: str
    bytes: int
    as_published: bool | None
    """Whether it has the sha256 of the catalog; None where the catalog has none of this form."""
    synthetic: bool
    rows_read: int = 0
    rows_kept: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    rows_not_applicable: int = 0
    """Rows that are not for the table, and in none of the other counts."""
    unused_columns: tuple[str, ...] = ()
    fingerprint: str = ""
    """Digest of the file, mapping, schema and version."""
    nulled: dict[str, int] = field(default_factory=dict)
    """Cells that could not be read and were set to null, by rule."""

    @property
    def label(self) -> str:
        """How messages and rejected rows call it."""
        return f"{self.file}:{self.member}" if self.member else self.file

    @property
    def rows_rejected(self) -> int:
        """Rows rejected under all rules."""
        return sum(self.rejected.values())


@dataclass(frozen=True)
class TableEntry:
    """Row counts of one table of a trace.

    Examples
    --------
    >>> import traceana
    >>> entry = traceana.open_sample().ledger("microsoft-itp-2021").entries[0]
    >>> entry.table, entry.rows_kept, entry.rows_rejected
    ('jobs', 2081, 0)
    """

    trace: str
    table: str
    fingerprint: str = field(repr=False)
    """Digest of its sources, schema and version."""
    schema_version: str = field(repr=False)
    files: tuple[FileEntry, ...] = field(repr=False)
    unknown_words: dict[str, dict[str, int]] = field(default_factory=dict)
    """Counts of the published status values that were mapped to ``unknown``, by column."""
    state: str = "written"
    replaced_files: tuple[str, ...] = ()
    """Files whose rows were in the table before this ingest and no longer are."""
    rows_replaced: int = 0
    """Kept rows that a newer record of the same key replaced."""
    crc32: tuple[int, ...] = field(default=(), repr=False)
    """Checksums of the stored file and, if there is one, of the file of rejected rows."""
    ids_are_rows: bool = False
    """Whether the numbers of the rows identify them, because no column does."""
    mostly_nulled: tuple[str, ...] = ()
    """Rules by which most cells of a column were set to null."""

    @property
    def rows_read(self) -> int:
        """Rows read from all files."""
        return sum(entry.rows_read for entry in self.files)

    @property
    def rows_kept(self) -> int:
        """Rows in the table."""
        return sum(entry.rows_kept for entry in self.files) - self.rows_replaced

    @property
    def rows_rejected(self) -> int:
        """Rejected rows."""
        return sum(entry.rows_rejected for entry in self.files)

    @property
    def rows_not_applicable(self) -> int:
        """Rows of other tables in the same files."""
        return sum(entry.rows_not_applicable for entry in self.files)

    @property
    def synthetic(self) -> bool:
        """Whether any row of it is synthetic."""
        return any(entry.synthetic for entry in self.files)

    @property
    def remarks(self) -> tuple[str, ...]:
        """A line for each rule that set cells to null, and for ids that are row numbers."""
        name = f"{self.trace}/{self.table}"
        lines = [
            f"set to null: {name}: {cells:,} cell{'s' * (cells != 1)} by {rule}"
            for rule, cells in self.nulled.items()
        ]
        for rule in self.mostly_nulled:
            target, _, read_from = rule.split("|")[0].partition(": ")
            lines.append(
                f"note: {name}: most cells of {read_from} cannot be read, so {target} is mostly "
                "null; check the mapping"
            )
        if self.ids_are_rows:
            lines.append(f"note: {name}: no column identifies the rows; the row number is the id")
        return tuple(lines)

    @property
    def rejected(self) -> dict[str, int]:
        """Rejected rows by rule, most first."""
        return _total([entry.rejected for entry in self.files])

    @property
    def nulled(self) -> dict[str, int]:
        """Cells set to null by rule, most first."""
        return _total([entry.nulled for entry in self.files])


_APART: Final = {"trace", "table", "files", "state", "replaced_files"}
_DECLARED: Final = {each.name for each in fields(TableEntry)} - _APART
_STORED: Final = (*_COUNTS, "rejected", "nulled", "synthetic", *sorted(_DECLARED))


def _total(counts: list[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for rules in counts:
        total.update(rules)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True)
class Ledger:
    """Row counts of one trace in a store, or of one call of ``ingest``.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [2, 4], "runtime_s": [60.0, -1.0]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=tempfile.mkdtemp())
    >>> ledger.rejections.rows()
    [('mine', 'jobs', 'runtime_s|min', 1)]
    """

    entries: tuple[TableEntry, ...]
    """One entry per table."""
    missing_csvs: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """(trace, CSV, its tables) of published files that were not found."""
    not_recognized: tuple[str, ...] = ()
    """Files that belong to no known trace (only from ``ingest``)."""
    left_out: tuple[str, ...] = ()
    """Files that were not read because another has the same content (only from ``ingest``)."""
    failures: tuple[tuple[str | None, str], ...] = ()
    """(trace or None, one line) of files that could not be read (only from ``ingest``)."""

    @cached_property
    def json(self) -> str:
        """A trace's ledger as JSON, sums included so that it can be read without traceana."""
        tables: dict[str, Any] = {}
        for entry in self.entries:
            files = [{**asdict(file), _SUM: file.rows_rejected} for file in entry.files]
            tables[entry.table] = {name: getattr(entry, name) for name in _STORED}
            tables[entry.table]["files"] = files
        content = {
            "format": _FORMAT,
            "trace": self.entries[0].trace,
            "synthetic": self.synthetic,
            "tables": tables,
            "missing": {csv: tables for _, csv, tables in self.missing_csvs},
        }
        return json.dumps(content, indent=2) + "\n"

    @property
    def synthetic(self) -> bool:
        """Whether anything in it is synthetic."""
        return any(entry.synthetic for entry in self.entries)

    @property
    def tables(self) -> pl.DataFrame:
        """One row per table, with its row counts."""
        return pl.DataFrame(
            [{name: getattr(entry, name) for name in _TABLES} for entry in self.entries],
            schema=_TABLES,
        )

    @property
    def files(self) -> pl.DataFrame:
        """One row per table and file or archive member."""
        return pl.DataFrame(
            [
                {"trace": entry.trace, "table": entry.table}
                | {name: getattr(file, name) for name in _FILES if name not in ("trace", "table")}
                for entry in self.entries
                for file in entry.files
            ],
            schema=_FILES,
        )

    @property
    def rejections(self) -> pl.DataFrame:
        """One row per table and rule with rejected rows."""
        return self._by_rule("rejected", "rows")

    @property
    def nulled(self) -> pl.DataFrame:
        """One row per table and rule by which cells were set to null."""
        return self._by_rule("nulled", "cells")

    def _by_rule(self, counts: str, noun: str) -> pl.DataFrame:
        rows = [
            (entry.trace, entry.table, rule, count)
            for entry in self.entries
            for rule, count in getattr(entry, counts).items()
        ]
        schema = {**dict.fromkeys(("trace", "table", "rule"), pl.String), noun: pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def missing(self) -> pl.DataFrame:
        """One row per published CSV that was not found."""
        return pl.DataFrame(
            list(self.missing_csvs),
            schema={"trace": pl.String, "csv": pl.String, "tables": pl.List(pl.String)},
            orient="row",
        )

    def __str__(self) -> str:
        lines = [
            f"{e.trace}/{e.table}: {e.rows_read:,} rows read = {e.rows_kept:,} kept + "
            f"{f'{e.rows_replaced:,} replaced + ' if e.rows_replaced else ''}"
            f"{e.rows_rejected:,} rejected ({e.state}{', SYNTHETIC' if e.synthetic else ''})"
            for e in self.entries
        ]
        remarks = [line for entry in self.entries for line in entry.remarks]
        return "\n".join(lines + remarks + [line for _, line in self.failures])

    def __repr__(self) -> str:
        counts = [sum(getattr(e, name) for e in self.entries) for name in _COUNTS[:3]]
        return "Ledger(tables: {}; rows: {:,} read, {:,} kept, {:,} rejected)".format(
            len(self.entries), *counts
        )

    def _repr_html_(self) -> str:
        shown = self.tables.select("trace", "table", *_COUNTS[:3], "synthetic")._repr_html_()
        return shown + "".join(f"<p>{escape(line)}</p>" for _, line in self.failures)


def parse_ledger(text: str, /) -> Ledger:
    """Read what :attr:`Ledger.json` is."""
    content = json.loads(text)
    if content["format"] != _FORMAT:
        raise ValueError(f"ledger format {content['format']}, not {_FORMAT}")
    entries = []
    for table, stored in content["tables"].items():
        of_files = [{k: v for k, v in file.items() if k != _SUM} for file in stored["files"]]
        files = tuple(checked(FileEntry(**as_tuples(file))) for file in of_files)
        of_entry = as_tuples({name: stored[name] for name in _DECLARED if name in stored})
        entry = TableEntry(content["trace"], table, files=files, state="stored", **of_entry)
        entries.append(checked(entry))
    missing = content["missing"].items()
    return Ledger(tuple(entries), tuple((content["trace"], csv, tuple(t)) for csv, t in missing))
