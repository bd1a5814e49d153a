"""Convert blocks of cells to rows of a table, kept and rejected; build or update the table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numpy.typing import NDArray
from polars.exceptions import PolarsError

from traceana.errors import DataError, SourceError
from traceana.ingesters.compiled import ROW, CompiledMapping, Source, source_name
from traceana.ingesters.files import Item, plain, read_ahead
from traceana.ingesters.readers.reader import LINE, FrameBlock
from traceana.schema import REJECTED, get_key, get_table, schema_version
from traceana.store.ledger import FileEntry, TableEntry
from traceana.store.writer import TableWriter

UNKNOWN: Final = "unknown"
_RULE: Final = "\0rule"
_VALUE: Final = "\0word\0"
_NULLED: Final = "\0null\0"
_FAULT: Final = "\0fault\0"
_MOST_FAILED: Final = 1000
_LONGEST_VALUE: Final = 100


@dataclass(frozen=True)
class Converted:
    """One block's rows."""

    kept: pl.DataFrame
    """Columns of the table, and ``LINE``."""
    rejected: pl.DataFrame
    """Columns of :data:`~traceana.ingesters.readers.reader.BAD_LINES`."""
    unknown_words: dict[str, Counter[str]]
    """By column of the source, the count of each unmapped value."""
    nulled: dict[tuple[str, str], int] = field(default_factory=dict)
    """By column of the table and rule, kept rows of which that cell was set to null."""


def convert(block: FrameBlock, compiled: CompiledMapping, /) -> Converted:
    """Convert and check a block: each row is kept, or rejected by the first rule it breaks."""
    source = compiled.reshape(block.cells) if compiled.reshape else block.cells
    bad = _filled_cells(block) if compiled.reshape else block.bad
    views = source.rename({name: source_name(name, k) for name, k in compiled.kinds.items()})
    if compiled.row_ids:
        number = (pl.col(LINE) - block.header_lines).cast(pl.String)
        views = views.with_columns(number.alias(ROW))
    rows = _attempt(views, compiled, not_utf8=block.not_utf8)
    broken = rows[_RULE].is_not_null()
    if broken.any():
        table = rows.filter(broken).select(line=LINE, rule=_RULE)
        if compiled.reshape:
            cells = source.filter(broken).select(pl.exclude(LINE))
            joined = pl.concat_str(pl.all(), separator=",", ignore_nulls=True)
            text = cells.select(joined).to_series()
        else:
            text = block.text_of(table["line"])
        bad = pl.concat([bad, table.with_columns(text=text)])
    unknown = {
        name.removeprefix(_VALUE): Counter(
            dict(rows.drop_nulls(name).group_by(name, maintain_order=True).len().iter_rows())
        )
        for name in rows.columns
        if name.startswith(_VALUE) and rows[name].null_count() < rows.height
    }
    nulled = {
        (name.removeprefix(_NULLED), rule): count
        for name in rows.columns
        if name.startswith(_NULLED)
        for rule, count in rows.filter(~broken)[name].drop_nulls().value_counts().iter_rows()
    }
    return Converted(rows.filter(~broken).select(LINE, *compiled.schema), bad, unknown, nulled)


def _attempt(source: pl.DataFrame, compiled: CompiledMapping, *, not_utf8: bool) -> pl.DataFrame:
    """Compute the table's columns and the rule that each row breaks, in halves where that fails."""
    done, failed, waiting = [], 0, [source]
    while waiting:
        part = waiting.pop()
        try:
            done.append(_compute(part, compiled, not_utf8=not_utf8))
        except PolarsError as error:
            if part is source:
                # an error without rows is no row error
                done.append(_compute(part.clear(), compiled, not_utf8=not_utf8))
            if part.height > 1:
                waiting += [part[part.height // 2 :], part[: part.height // 2]]
                continue
            failed += 1
            if failed > _MOST_FAILED:
                reason = str(error).splitlines()[0]
                raise DataError(
                    f"an expression fails for more than {_MOST_FAILED:,} rows ({reason}); "
                    "guard it with CASE, or use TRY_CAST"
                ) from error
            done.append(part.select(LINE, pl.lit(_why_not(part, compiled)).alias(_RULE)))
    return pl.concat(done, how="diagonal")


def _compute(source: pl.DataFrame, compiled: CompiledMapping, *, not_utf8: bool) -> pl.DataFrame:
    """Compute columns and rules; a fault breaks a rule where the cell is decisive, else is null."""
    rows, faults = _with_faults(source, compiled, not_utf8=not_utf8)
    rejecting: set[str] = set()
    nulled: dict[str, pl.Expr] = {}
    for target, cells in compiled.rests_on.items():
        broken = [name for name in faults if name in cells]
        if target in compiled.decisive:
            rejecting |= {*broken}
        elif broken:
            nulled[target] = _first((pl.col(_FAULT + name), faults[name]) for name in broken)
    right = pl.col(_RULE).is_null()
    stated = []
    for name, dtype in compiled.schema.items():
        given = right & pl.col(_NULLED + name).is_null() if name in nulled else right
        value = compiled.stated.get(name, pl.lit(None))
        stated.append(pl.when(given).then(value).cast(dtype).alias(name))
    marks = {_NULLED + name: rule for name, rule in nulled.items()}
    words, statuses = _unmapped_words(compiled)
    decisive = ((pl.col(_FAULT + name), faults[name]) for name in faults if name in rejecting)
    rules = ((~rule, name.replace("|check__", "|")) for name, rule in compiled.rules.items())
    return (
        rows.lazy()
        .with_columns(_first(decisive).alias(_RULE), **marks)
        .with_columns(**words, **statuses)
        .select(_RULE, LINE, *words, *marks, *stated)
        .with_columns(pl.coalesce(_RULE, _first(rules)).alias(_RULE))
        .collect(engine="in-memory")
    )


def _with_faults(
    source: pl.DataFrame, compiled: CompiledMapping, *, not_utf8: bool
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the derived columns with marks of cells that are not read; and each mark's rule."""
    rules = {name: column.rule for name, column in compiled.derived.items() if column.rule}
    faults = {name: _unread(name, compiled.derived[name].of) for name in rules}
    for name, kind in compiled.kinds.items() if not_utf8 else ():
        if kind == "text":
            view = source_name(name, kind)
            rules[view] = f"{name or 'index'}|not_utf8"
            faults[view] = pl.col(view).str.contains("\ufffd", literal=True)
    derived = source.lazy().with_columns(_nulls(compiled))
    for name, column in compiled.derived.items():
        derived = derived.with_columns(column.value.alias(name))
    rows = derived.with_columns(
        broken.alias(_FAULT + name) for name, broken in faults.items()
    ).collect(engine="in-memory")
    return rows, {name: rule for name, rule in rules.items() if rows[_FAULT + name].any()}


def _unmapped_words(compiled: CompiledMapping) -> tuple[dict[str, pl.Expr], dict[str, pl.Expr]]:
    """Return values that are mapped to no status, several words by the first; and the statuses."""
    words: dict[str, pl.Expr] = {}
    statuses: dict[str, pl.Expr] = {}
    for name, column in compiled.derived.items():
        if not column.rule:
            first = column.of.str.extract("^([^ ]*)").str.head(_LONGEST_VALUE)
            several = pl.when(column.of.str.contains(" ", literal=True)).then(pl.lit(" ..."))
            unmapped = pl.col(_RULE).is_null() & _unread(name, column.of)
            words[_VALUE + column.label] = pl.when(unmapped).then(first + several.fill_null(""))
            statuses[name] = pl.when(column.of.is_not_null()).then(pl.col(name).fill_null(UNKNOWN))
    return words, statuses


def _first(broken: Iterable[tuple[pl.Expr, str]]) -> pl.Expr:
    rules = (pl.when(is_broken).then(pl.lit(rule)) for is_broken, rule in broken)
    return pl.coalesce(*rules, pl.lit(None, pl.String))


def _why_not(row: pl.DataFrame, compiled: CompiledMapping) -> str:
    """Return the rule that a row breaks for which a column cannot be computed."""
    row = row.with_columns(_nulls(compiled))
    derived = {name: column.value for name, column in compiled.derived.items()}
    stated = {name: value.cast(compiled.schema[name]) for name, value in compiled.stated.items()}
    for name, value in (derived | stated).items():
        try:
            row = row.with_columns(value.alias(name))
        except PolarsError:
            return f"{name.split('|')[0].strip(chr(0))}|not_computable"
    raise AssertionError("columns that fail together fail apart")


def _nulls(compiled: CompiledMapping) -> list[pl.Expr]:
    return [
        pl.when(~pl.col(view).is_in(values)).then(view).alias(view)
        for view, values in compiled.nulls.items()
    ]


def _unread(name: str, of: pl.Expr) -> pl.Expr:
    return pl.col(name).is_null() & of.is_not_null()


def _filled_cells(block: FrameBlock) -> pl.DataFrame:
    """Return a rejected row for each cell with a value, where a line would become several."""
    cells = pl.col("text").str.replace("^[^,]*", "").str.extract_all("[^,]+")
    most = block.cells.width
    return block.bad.with_columns(cells.list.head(most)).explode("text").drop_nulls("text")


Progress = Callable[[str, str, int], None]
OCCASION: Final = "@occasion"
"""Column of a job's submission as text, where ids are used again; else null."""
SOURCE: Final = "@source"
"""Column of the number of a row's file, in the order of the files."""
UPDATE: Final[dict[str, pl.DataType]] = {OCCASION: pl.String(), SOURCE: pl.Float64()}
_STATES: Final = {"running": 1, "completed": 2, "failed": 2, "cancelled": 2}
_ENDED: Final = 2
_ROWS: Final = 1 << 16
_WORDS: Final = 1000
_LONGEST_TEXT: Final = 1 << 16
_SHOWN: Final = 80
_OTHERS: Final = "(other values)"
_NO_ROW: Final = (
    "unbalanced_quote",
    "short_row",
    "long_row",
    "blank_line",
    "not_json",
    "no_object",
    "JobID|not_a_job_id",
)
_MOST_LINES: Final = 1_000_000
_MOST_BYTES: Final = 1 << 26


class _NoRows:
    """Lines in succession of which none is a row."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines = self._bytes = 0
        self._first = (0, "")

    def check(self, kept: int, rejected: pl.DataFrame) -> None:
        """Raise a SourceError if they are too many."""
        if kept or not rejected["rule"].is_in(_NO_ROW).all():
            self._lines = self._bytes = 0
        if kept or not rejected.height:
            return
        if not self._lines:
            self._first = rejected["line"][0], rejected["rule"][0]
        self._lines += rejected.height
        self._bytes += int(rejected["text"].str.len_bytes().sum())
        if self._lines > _MOST_LINES or self._bytes > _MOST_BYTES:
            line, rule = self._first
            raise SourceError(
                f"{self._label}: none of the {self._lines:,} lines from line {line:,} on is a row "
                f"({rule}); correct that line, remove them, or name the format (--reader NAME)"
            )


def _shown(source: Source, bad: pl.DataFrame) -> str:
    line, text = bad["line"][0], bad["text"][0]
    more = f" ... ({len(text):,} characters)" if len(text) > _SHOWN else ""
    return f"line {line} of {source.label}: {plain(text[:_SHOWN])}{more}"


def _naming(source: Source, items: Iterator[Item]) -> Iterator[Item]:
    """Name the file in the error of a column that is not of the type of the others."""
    try:
        yield from items
    except DataError as error:
        raise DataError(f"{source.label}: {error}") from error


@dataclass
class TableBuilder:
    """Reads the sources of one table into its writer; of an update with the columns of `UPDATE`."""

    trace: str
    table: str
    writer: TableWriter
    progress: Progress | None
    is_update: bool
    first_rejected: str = ""
    _unknown: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _nulled: Counter[tuple[str, str]] = field(default_factory=Counter)
    _values: Counter[str] = field(default_factory=Counter)
    _rows_read: int = 0

    def _forget(self) -> None:
        self._duplicates = KeyFilter(get_key(self.table))
        self._records = KeyFilter(["job_id", OCCASION])
        self._runs = KeyFilter(["job_id", OCCASION, "start_s"])

    def build(
        self, sources: list[tuple[Source, CompiledMapping, FileEntry]], fingerprint: str
    ) -> TableEntry:
        """Read every source, and return the table's entry of the ledger."""
        files = tuple(self._read(number, *source) for number, source in enumerate(sources))
        return TableEntry(
            trace=self.trace,
            table=self.table,
            fingerprint=fingerprint,
            schema_version=schema_version(self.table),
            files=files,
            unknown_words={
                column: dict(sorted(words.items())) for column, words in self._unknown.items()
            },
            ids_are_rows=any(compiled.row_ids for _, compiled, _ in sources),
            mostly_nulled=tuple(
                f"{column}: {rule}"
                for (column, rule), cells in sorted(self._nulled.items())
                if cells > self._values.get(column, sum(file.rows_kept for file in files) // 2)
            ),
        )

    def _read(
        self, number: int, source: Source, compiled: CompiledMapping, described: FileEntry
    ) -> FileEntry:
        if self.is_update or not number:
            self._forget()
        kept = not_applicable = 0
        rejected: Counter[str] = Counter()
        nulled: Counter[str] = Counter()
        kinds = compiled.kinds
        if compiled.reshape:  # it takes all of the source's columns
            kinds = dict.fromkeys(source.columns, "text")
        no_rows = _NoRows(source.label)
        converted = ((block, convert(block, compiled)) for block in source.rows.blocks(kinds))
        for block, result in read_ahead(_naming(source, converted)):
            good, bad = self._split(block, result, reshaped=compiled.reshape is not None)
            if self.is_update:
                good = good.with_columns(pl.lit(number, UPDATE[SOURCE]).alias(SOURCE))
            self.writer.keep(good)
            for (column, rule), cells in [*result.nulled.items(), *block.nulled.items()]:
                self._nulled[column, rule] += cells
                nulled[rule] += cells
            self._values.update({series.name: good.height - series.null_count() for series in good})
            no_rows.check(good.height, bad)
            if bad.height:
                self.first_rejected = self.first_rejected or _shown(source, bad)
                self.writer.reject(
                    bad.select(
                        file=pl.lit(source.label),
                        row=pl.col("line") - block.header_lines,
                        line="line",
                        rule="rule",
                        text=pl.col("text").str.head(_LONGEST_TEXT),
                    )
                )
                rejected.update(dict(bad.group_by("rule").len().iter_rows()))
            kept += good.height
            not_applicable += block.not_applicable
            self._rows_read += good.height + bad.height
            if self.progress:
                self.progress(self.trace, self.table, self._rows_read)
        return replace(
            described,
            rows_read=kept + rejected.total(),
            rows_kept=kept,
            rejected=dict(sorted(rejected.items())),
            nulled=dict(sorted(nulled.items())),
            rows_not_applicable=not_applicable,
        )

    def _split(
        self, block: FrameBlock, result: Converted, *, reshaped: bool
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        for column, words in result.unknown_words.items():
            unknown = self._unknown[column]
            for word, rows in words.items():
                unknown[word if word in unknown or len(unknown) < _WORDS else _OTHERS] += rows
        good, repeated = self._split_repeated(block, result.kept)
        bad = result.rejected
        if repeated.height:
            place = {"line": repeated[LINE], "text": block.text_of(repeated[LINE])}
            also = pl.DataFrame(place).select("line", rule=pl.lit("duplicate_key"), text="text")
            bad = pl.concat([bad, also])
        bad = bad.sort("line", maintain_order=True)
        if not reshaped and block.lines != good.height + bad.height:
            raise AssertionError(f"{block.lines} rows: {good.height} kept, {bad.height} rejected")
        return good.drop(LINE), bad.cast({"line": REJECTED["line"]})

    def _split_repeated(
        self, block: FrameBlock, rows: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return new rows and repeated ones; another job with an id used before is called so."""
        occasions = block.occasions(rows[LINE]) if self.table == "jobs" else None
        if occasions is None:
            rows, repeated = self._duplicates.split(rows)
            unnamed = pl.lit(None, pl.String).alias(OCCASION)
            return rows.with_columns(unnamed) if self.is_update else rows, repeated
        rows, repeated = self._runs.split(rows.with_columns(occasions.alias(OCCASION)))
        rows, again = self._records.split(rows)
        if again.height:  # requeued under the same submission: distinguished by their start
            start = pl.from_epoch(pl.col("start_s").cast(pl.Int64)).dt.strftime(
                "@%Y-%m-%dT%H:%M:%S"
            )
            named = pl.concat_str(OCCASION, start.fill_null("@unstarted"))
            rows = pl.concat([rows, again.with_columns(named)]).sort(LINE)
        rows, others = self._duplicates.split(rows)
        if others.height:
            renamed = pl.concat_str("job_id", pl.lit("@"), OCCASION)
            rows = pl.concat([rows, others.with_columns(job_id=renamed)]).sort(LINE)
        return rows if self.is_update else rows.drop(OCCASION), repeated.drop(OCCASION)


class KeyFilter:
    """Sets apart rows whose key was there before, by a hash of 96 bits."""

    def __init__(self, key: Sequence[str | pl.Expr]) -> None:
        self._key = key
        self._seen: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows whose key is new, and the others; all are new without a key."""
        if not self._key:
            return rows, rows.clear()
        key = pl.struct(*self._key)
        hashes = rows.select(a=key.hash(1), b=(key.hash(2) % (1 << 32)).cast(pl.UInt32))
        new = hashes.select(pl.struct("a", "b").is_first_distinct()).to_series().to_numpy().copy()
        first, second = (hashes[name].to_numpy() for name in ("a", "b"))
        order = np.argsort(first)
        first, second = first[order], second[order]
        for seen_first, seen_second in self._seen:
            at = np.minimum(np.searchsorted(seen_first, first), seen_first.size - 1)
            again = (seen_first[at] == first) & (seen_second[at] == second)
            new[order[again]] = False
        self._remember(first[new[order]], second[new[order]])
        if new.all():
            return rows, rows.clear()
        return rows.filter(new), rows.filter(~new)

    def _remember(self, first: NDArray[np.uint64], second: NDArray[np.uint32]) -> None:
        """Add sorted hashes; what is alike in size is merged, so that few parts are looked up."""
        while self._seen and self._seen[-1][0].size <= first.size:
            earlier_first, earlier_second = self._seen.pop()
            first = np.concatenate([earlier_first, first])
            order = np.argsort(first, kind="stable")  # merges two sorted parts
            first, second = first[order], np.concatenate([earlier_second, second])[order]
        if first.size:
            self._seen.append((first, second))


def merge_newest(
    places: Sequence[Path], writer: TableWriter, table: str, keep: Mapping[str, pl.DataType]
) -> int:
    """Write the newest record of each key, and what was rejected; return how many were replaced."""
    parts = [place / f"{table}.parquet" for place in places]
    scans = [pl.scan_parquet(path, glob=False) for path in parts]
    recurs = scans[-1].select(pl.col(OCCASION).is_not_null().any()).collect().item()
    index = pl.concat([_index(scan, table, recurs=recurs) for scan in scans]).with_row_index("at")
    newest = index.sort("state", "at").unique("record", keep="last")["at"]
    index = index.with_columns(is_kept=pl.col("at").is_in(newest.implode()))
    if recurs:
        index = _drop_outdated(index)
        frame = index.filter(pl.col("is_kept").any().over("record"))
        first = frame.sort("is_renamed", "at").unique("id", keep="first")["record"]
        index = index.with_columns(is_first=pl.col("record").is_in(first.implode()))
    schema = {**get_table(table).create_empty().schema, **keep}
    at = 0
    for path in parts:
        for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(_ROWS):
            rows = cast("pl.DataFrame", pl.from_arrow(batch))
            marks = index[at : at + rows.height]
            at += rows.height
            if recurs and OCCASION in rows.columns:
                name = pl.col("job_id").str.replace("@.*$", "")  # id@submit, but the first of an id
                others = pl.concat_str(name, pl.lit("@"), OCCASION)
                is_first = pl.when(marks["is_first"])
                rows = rows.with_columns(job_id=is_first.then(name).otherwise(others))
            rows = rows.filter(marks["is_kept"])
            missing = [pl.lit(None).alias(name) for name in schema if name not in rows.columns]
            writer.keep(rows.with_columns(missing).select(*schema).cast(pl.Schema(schema)))
    for path in (place / "rejected" / f"{table}.parquet" for place in places):
        if path.is_file():
            for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(_ROWS):
                writer.reject(cast("pl.DataFrame", pl.from_arrow(batch)))
    return index.filter(~pl.col("is_kept")).height


def _index(scan: pl.LazyFrame, table: str, *, recurs: bool) -> pl.DataFrame:
    """Return record (hash), state and source of each row; of jobs whose ids recur, more."""
    columns = scan.collect_schema().names()
    status = pl.col("status").cast(pl.String) if "status" in columns else pl.lit(None, pl.String)
    hashes = {
        "record": pl.struct(*get_key(table)).hash(),
        "state": status.replace_strict(_STATES, default=0, return_dtype=pl.UInt8),
        "source": pl.col(SOURCE) if SOURCE in columns else pl.lit(-1.0),
    }
    if recurs:
        name = pl.col("job_id").str.replace("@.*$", "")
        run = pl.col("job_id").str.extract("@.*@(.*)").alias("run")
        hashes |= {
            "record": pl.struct(name, pl.coalesce("submit_s", "start_s"), run).hash(),
            "id": name.hash(),
            "array": name.str.extract(r"^(\d+)_"),
            "is_range": name.str.contains("_[", literal=True),
            "is_renamed": pl.col("job_id").str.contains("@", literal=True),
        }
    return scan.select(**hashes).collect()


def _drop_outdated(index: pl.DataFrame) -> pl.DataFrame:
    """Drop outdated rows: pending or running jobs, and ranges of arrays, with later records."""
    last = pl.col("source").max()
    ranges = index.filter("is_range")["array"]
    arrays = index.filter(pl.col("array").is_in(ranges.implode()))
    old = arrays.filter(pl.col("is_range") & (last.over("record") < last.over("array")))["at"]
    stale = (pl.col("state") < _ENDED) & (last.over("record") < last.over("id"))
    return index.with_columns(
        is_kept=pl.col("is_kept") & ~stale & ~pl.col("at").is_in(old.implode())
    )
