"""Anonymize a trace: digests for identifiers, shifted times, groups of equal rows."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final

import polars as pl

from traceana.cohorts.ends import DECISIVE, without_numbers
from traceana.errors import DataError
from traceana.exchange.selection import copy_trace
from traceana.ingesters.plan import UNIX_S
from traceana.schema import TABLES, get_key, privacy_of
from traceana.store import Store, open_store
from traceana.store.manifest import Manifest
from traceana.tables.declare import ResultTable, count, declared, returns, schema_of, text

_WEEK_S: Final = 7 * 86_400
_HOUR_S: Final = 3600
_MOST_ROUNDED_S: Final = 366 * 86_400
_DIGEST_BYTES: Final = 8
_KEY_BYTES: Final = 16
_RANK: Final = r"(?i)^(worker|rank)?[ _-]?\d{1,6}$"
_HOST_LISTS: Final = ("NodeList", "node", "host")  # kept columns; separated by commas
_NAMING: Final = ("user", "group", "account", "machine_id", "host")
"""Columns whose values a label may repeat, such as a class of faults that begins with a host."""
_NAME: Final = r"[^\d\W_]"  # with a letter: not the numbers of an exit code
_SHORTEST_NAME: Final = 2
_WORD: Final = re.compile(r"[^\W_]+")
_MOST_WORDS: Final = 16
_GROUPED: Final = (
    "Rows are published in groups of at least {} with the same values (k-anonymity): times and "
    "durations are means, other numbers middle values of similar rows. Intervals are too narrow."
)
_LETTERS: Final = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_MOST_NUMBERS: Final = 10**12
_ONE_WORD: Final = r"^[A-Za-z_]{1,40}$"
_TRACE_FACTS: Final = (
    "timezone",
    "utc_offset_h",
    "independent_unit",
    "failure_statuses",
    "lists_only_survivors",
    "published_examples",
)
_TABLE_FACTS: Final = (
    "unit_noun",
    "groups",
    "generated",
    "left_truncated",
    "values_held",
    "workers_per_job",
    "cut_at_s",
)


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


@returns(Disclosure)
def anonymize(
    trace: str,
    /,
    *,
    out: str | PathLike[str],
    store: str | PathLike[str] | None = None,
    key: bytes | None = None,
    round_s: float | None = None,
    min_group: int = 1,
) -> pl.DataFrame:
    """Write a copy of a trace without identifying values.

    Identifiers (users, groups, accounts, queues, clusters, jobs, machines, each host of a list, and
    every column beyond the table's declaration) become 16 hexadecimal digits: BLAKE2b with a key,
    the same in every table; so do labels with such a name in them. Unix times are shifted by a
    whole number of weeks that depends on the key: hour and weekday (UTC) stay true. Job names
    become digests of the name without numbers and of its numbers, so that ``train-1`` and
    ``train-2`` remain alike. A reason for an end of more than one word becomes a digest, after the
    word that states whose doing it is. Everything else stays; rejected rows are left out.

    Parameters
    ----------
    trace
        Id of the trace; the id is kept.
    out
        Folder of the store to write to, not `store` itself.
    store
        Folder of the store; None: TRACEANA_STORE, else ``./data``.
    key
        Secret of at least 16 bytes, which repeats digests and shift in a later export. None: a
        random key, which is not kept.
    round_s
        Number of seconds to whose multiples times and runtimes are rounded down; None: no rounding.
    min_group
        Smallest number of jobs (or machines) that are the same in all columns but the id (k-
        anonymity by microaggregation of alike rows). Times and durations become means, other
        numbers middle values of the group; text that differs in it becomes null, a status unknown.
        Tables of fewer rows, or of several for an id, are left out.

    Returns
    -------
    DataFrame
        What could still identify: one row per column with values, and one per table.
        {columns}

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "user": ["ann", "ann"], "gpus": [1, 8]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=folder)
    >>> left = traceana.anonymize("mine", store=folder, out=f"{folder}/public", key=b"k" * 16)
    >>> left.filter(pl.col("single") == 2)["column"].to_list()
    ['job_id', 'gpus', None]
    >>> traceana.open_store(f"{folder}/public").scan("mine", "jobs").collect()["user"].n_unique()
    1
    """
    source = open_store(store)
    manifest = source.manifest(trace)
    if key is not None and len(key) < _KEY_BYTES:
        raise DataError(f"key has {len(key)} bytes; at least {_KEY_BYTES} are needed")
    fine = isinstance(round_s, int | float) and 1e-3 <= round_s <= _MOST_ROUNDED_S
    if not (round_s is None or fine):
        raise DataError(
            f"round_s must be a number of seconds from 0.001 to {_MOST_ROUNDED_S:,}; it is "
            f"{round_s!r}"
        )
    if isinstance(min_group, bool) or not isinstance(min_group, int) or min_group < 1:
        raise DataError(f"min_group must be a number of rows of at least 1; it is {min_group!r}")
    rows = _Rows(key or secrets.token_bytes(32), round_s, min_group, source, manifest)
    target = Path(out)
    if min_group > 1:
        kept = {
            name: table
            for name, table in manifest.tables.items()
            if len(get_key(name)) == 1 and table.rows >= min_group
        }
        if not kept:
            raise DataError(f"{trace}: it has no {min_group:,} jobs or machines (min_group)")
        manifest = replace(manifest, tables=kept)
    copy_trace(
        source, manifest, target, name=trace, facts=rows.facts, about=_TABLE_FACTS, write=rows.write
    )
    return _disclosure(open_store(target), trace, rows.treatments)


class _Rows:
    """What becomes of rows: one key, shift and rounding for all tables of a trace."""

    def __init__(
        self, key: bytes, round_s: float | None, min_group: int, source: Store, manifest: Manifest
    ) -> None:
        self._scan = partial(source.scan, manifest.trace)
        self._naming = _find_names(source, manifest)
        self._min_group = min_group
        self._key = hashlib.sha256(key).digest()
        self._round_s = round_s
        self._shift_s = 0.0
        first = manifest.window_start_s
        if manifest.absolute_times and first is not None:
            # not so far that times, also of before the window, are no longer read as Unix times
            most = max(int((first - UNIX_S) // (2 * _WEEK_S)), 1)
            drawn = int.from_bytes(self._digest("weeks").digest(), "big")
            self._shift_s = float(_WEEK_S * (1 + drawn % most))
        rounded = "rounded" if round_s else "grouped" if min_group > 1 else "kept"
        self.treatments = dict.fromkeys(("identifier", "rank", "name"), "digest")
        self.treatments |= {"reason": "one word kept", "duration": rounded}
        self.treatments["time"] = "shifted" if self._shift_s else rounded
        facts = {name: getattr(manifest, name) for name in _TRACE_FACTS}
        if manifest.window == "stated":
            ends = {name: getattr(manifest, name) for name in ("window_start_s", "window_end_s")}
            facts |= {k: None if v is None else v - self._shift_s for k, v in ends.items()}
        elif first is not None:  # of an export it is not always that of its first time
            start, unit = first - self._shift_s, round_s or (_HOUR_S if min_group > 1 else 0)
            facts["window_start_s"] = start // unit * unit if unit else start
        if min_group > 1:
            facts["notes"] = [_GROUPED.format(min_group)]
        self.facts = {"title": f"{manifest.trace} (anonymized)"} | facts

    def write(self, table: str, out: Path) -> list[str]:
        """Write a table's anonymized rows, block by block; return the columns they have."""
        stored, privacy = self._scan(table), privacy_of(table)
        for name in [name for name, kind in privacy.items() if kind == "rank"]:
            numbers_only = pl.col(name).str.contains(_RANK).all()
            is_label = stored.select(numbers_only).collect(engine="streaming").item()
            privacy[name] = "label" if is_label else "identifier"
        names = stored.collect_schema().names()
        if self._min_group > 1:
            if "job_name" in names:
                stored = stored.with_columns(without_numbers(pl.col("job_name"))[1])
            stored = with_equal_groups(stored, table, self._min_group)

        def change(block: pl.DataFrame) -> pl.DataFrame:
            return block.select(self._column(block[n], privacy.get(n, "identifier")) for n in names)

        changed = change(stored.head(0).collect()).schema
        written = stored.select(names).map_batches(change, streamable=True, schema=changed)
        if self._min_group > 1:  # their order would show which of a group was first
            written = written.sort(*(n for n in names if privacy.get(n) == "time"), *get_key(table))
        written.sink_parquet(out)
        return names

    def _column(self, values: pl.Series, privacy: str) -> pl.Series:
        if privacy == "time":
            is_unix = values >= UNIX_S  # a step's time may count from its job's start
            values = (values - self._shift_s).zip_with(is_unix, values)
        if privacy in ("time", "duration") and self._round_s:
            return (values / self._round_s).floor() * self._round_s
        if privacy == "reason":
            word = values.str.extract(DECISIVE).str.to_uppercase()
            digests = self._digests(values).rename("digest")
            told = pl.select(pl.concat_str(word, digests, separator=" ", ignore_nulls=True))
            is_word = values.str.contains(_ONE_WORD)
            return self._labels(values).zip_with(is_word, told.to_series())
        if privacy == "name":
            return self._names(values)
        if privacy == "label" and values.dtype == pl.String:
            return self._labels(values)
        return self._digests(values) if privacy == "identifier" else values

    def _digests(self, values: pl.Series) -> pl.Series:
        words = values.cast(pl.String).rename(values.name)
        listed = values.name in _HOST_LISTS
        return _mapped(
            words, lambda word: ",".join(map(self._id, word.split(",") if listed else [word]))
        )

    def _labels(self, values: pl.Series) -> pl.Series:
        """Return labels, those with the name of a user, group or machine as digests."""
        longest = max((len(_WORD.findall(name)) for name in self._naming), default=0)

        def relabeled(label: str) -> str:
            named = not self._naming.isdisjoint(_runs(label.lower(), min(longest, _MOST_WORDS)))
            return self._id(label) if named else label

        return _mapped(values, relabeled)

    def _names(self, values: pl.Series) -> pl.Series:
        table = values.drop_nulls().unique()
        ending, stem = without_numbers(pl.col(values.name))
        forms = table.to_frame().select(name=values.name, ending=ending, stem=stem)
        digests = []
        for name, without_end, bare in forms.iter_rows():
            # letters beyond f: no hexadecimal number
            digest = self._digest(f"name {bare}").hexdigest().translate(_LETTERS)
            if without_end != bare:
                digest += f"{self._number(without_end)}g"
            if name != without_end:
                digest += f"-{self._number(name)}"
            digests.append(digest)
        return values.replace_strict(table, digests, return_dtype=pl.String)

    def _id(self, name: str) -> str:
        return self._digest(f"id {name}").hexdigest()

    def _number(self, name: str) -> int:
        return int(self._digest(f"number {name}").hexdigest(), 16) % _MOST_NUMBERS

    def _digest(self, text: str) -> hashlib.blake2b:
        return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES, key=self._key)


def _runs(text: str, longest: int) -> Iterator[str]:
    """Yield each run of words of a text: also ``gpu-node-7`` and ``ann@lab.org`` are names."""
    words = [*_WORD.finditer(text)]
    for place, first in enumerate(words):
        for last in words[place : place + longest]:
            yield text[first.start() : last.end()]


def _mapped(words: pl.Series, change: Callable[[str], str]) -> pl.Series:
    table = words.drop_nulls().unique()
    return words.replace_strict(table, [*map(change, table)], return_dtype=pl.String)


def _find_names(source: Store, manifest: Manifest) -> frozenset[str]:
    every_name: set[str] = set()
    for table, described in manifest.tables.items():
        for column in {*_NAMING, *_HOST_LISTS}.intersection(described.columns):
            name = pl.col(column).cast(pl.String).str.to_lowercase()
            if column in _HOST_LISTS:
                name = name.str.split(",").explode()
            rows = source.scan(manifest.trace, table).select(name.unique())
            names = rows.collect(engine="streaming").to_series()
            names = names.str.replace_all(r"^[\W_]+|[\W_]+$", "")
            fits = names.str.contains(_NAME) & (names.str.len_chars() >= _SHORTEST_NAME)
            every_name.update(names.filter(fits.fill_null(value=False)))
    return frozenset(every_name)


def _disclosure(store: Store, trace: str, treatments: dict[str, str]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for table, described in store.manifest(trace).tables.items():
        privacy = privacy_of(table)
        together = []
        for name in described.columns:
            kind = privacy.get(name, "identifier")
            treatment = treatments.get(kind, "kept")
            if treatment != "digest":
                together.append(name)
            rows.append(_counts(store, trace, table, [name], treatment))
        if together:
            rows.append(_counts(store, trace, table, together, None) | {"column": None})
    return declared(pl.DataFrame(rows, schema=schema_of(Disclosure)), Disclosure)


def _counts(
    store: Store, trace: str, table: str, columns: list[str], treatment: str | None
) -> dict[str, Any]:
    rows = store.scan(trace, table).select(columns)
    values = rows.drop_nulls() if treatment else rows
    counts = (
        values.group_by(columns)
        .len()
        .select(distinct=pl.len().cast(pl.Int64), single=(pl.col("len") == 1).sum().cast(pl.Int64))
    )
    counted = counts.collect(engine="streaming").row(0, named=True)
    return {"table": table, "column": columns[0], "treatment": treatment} | counted


_ROW, _ALL, _LACKS, _WHEN, _LASTED, _BAND, _GROUP = (f"#{number}" for number in range(7))

_FIRST = (_LACKS, "status", "gpus", "user")


def with_equal_groups(stored: pl.LazyFrame, table: str, least: int, /) -> pl.LazyFrame:
    """Return the rows, with equal values but the key in each group of at least `least` rows.

    Rows of a group agree in as many columns as possible (status, GPUs, user, then those of few
    values), and are near in time and runtime. A time or duration becomes the mean of its group,
    another number a middle one. What is missing in a row, or a text that differs, becomes null;
    such a status is unknown.
    """
    [key] = get_key(table)
    types, privacy = stored.collect_schema(), privacy_of(table)
    names = [name for name in types if name != key]
    times = [name for name in names if privacy.get(name) == "time"]
    lengths = [name for name in names if privacy.get(name) == "duration"]
    numbers = [name for name in TABLES[table].columns() if types.get(name, pl.Null()).is_numeric()]
    values = [name for name in names if name not in numbers or name == "gpus"]
    shown = stored.select(
        *values,
        pl.concat_str(pl.lit(""), *(pl.col(n).is_null() for n in times + lengths)).alias(_LACKS),
        pl.coalesce(*times, 0.0).alias(_WHEN),
        pl.coalesce(*lengths, 0.0).alias(_LASTED),
    ).collect(engine="streaming")
    distinct = {name: shown[name].n_unique() for name in [_LACKS, *values]}
    order = dict.fromkeys((*_FIRST, *sorted(distinct, key=lambda name: distinct[name])))
    levels = [name for name in order if distinct.get(name, shown.height) * least <= shown.height]
    numbered = stored.with_columns(_group(shown, levels, least))

    def merged(name: str) -> pl.Expr:
        column = pl.col(name)
        if name in times + lengths:
            return pl.when(column.null_count() == 0).then(column.mean())
        if name in numbers:
            middle = column.quantile(0.5, "lower").cast(types[name])
            return pl.when(column.null_count() == 0).then(middle)
        other = pl.lit("unknown" if name == "status" else None, types[name])
        return pl.when(column.n_unique() == 1).then(column.first()).otherwise(other)

    groups = numbered.group_by(_GROUP).agg(merged(name).alias(name) for name in names)
    return numbered.select(key, _GROUP).join(groups, on=_GROUP).select(types.names())


def _group(rows: pl.DataFrame, levels: list[str], least: int) -> pl.Series:
    rows = rows.with_row_index(_ROW).with_columns(pl.lit(0).alias(_ALL))
    grouped: list[pl.DataFrame] = []
    last = 0
    for width in range(len(levels), -1, -1):
        by = [_ALL, *levels[:width]]
        size, place = pl.len().over(by), pl.int_range(pl.len()).over(by)
        many = rows.filter(size >= least)
        rows = rows.filter(size < least)
        # bands of time, within which rows of one runtime are near each other
        bands = (size / least).sqrt().ceil()
        many = many.sort(*by, _WHEN).with_columns((place * bands // size).alias(_BAND))
        many = many.sort(*by, _BAND, _LASTED)
        begins = (place % least == 0) & (place <= size - least)
        many = many.select(_ROW, (begins.cum_sum() + last).alias(_GROUP))
        last += many[_GROUP].n_unique()
        grouped.append(many)
    grouped.append(rows.select(_ROW, pl.lit(last).alias(_GROUP)))  # fewer than a group
    return pl.concat(grouped, how="vertical_relaxed").sort(_ROW)[_GROUP]
