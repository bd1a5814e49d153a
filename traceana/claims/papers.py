"""Papers with their claims and figures, a TOML each, and the check of every claim."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, TypeAlias

import polars as pl
from polars.exceptions import PanicException

from traceana.catalog import load_catalog
from traceana.claims.claim import (
    Claim,
    ClaimResults,
    Judgement,
    agrees,
    decide,
    not_testable,
    round_as,
    untested,
)
from traceana.claims.tables import ClaimVerdicts
from traceana.errors import DataError, StoreError, ask_for_report, did_you_mean
from traceana.store import Store, TableEntry
from traceana.store.cache import Cache, code_digest, key_of, versions
from traceana.tables.declare import schema_of


@dataclass(frozen=True)
class Paper:
    """A paper, or the description of a trace by its publisher.

    Attributes
    ----------
    title
        Its title.
    read
        Returns its claims in order, and imports the analyses they need.
    figures
        Its figures: the fields of :class:`traceana.claims.papers.PublishedFigure`.

    Examples
    --------
    >>> from traceana.claims import PAPERS
    >>> PAPERS["zeus"].title
    "Zeus (NSDI'23)"
    """

    title: str
    read: Callable[[], tuple[Claim, ...]]
    figures: tuple[dict[str, str], ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Its claims, in order."""
        return self.read()


def read_paper(name: str, text: str, /) -> Paper:
    """Read the TOML of a paper, or of the README of a trace.

    Each ``[claims.<id>]`` has the fields of :class:`Claim`; what the paper's own lines state holds
    for all of its claims. ``measure`` names a function (default: the id) of the module
    ``traceana.claims.<module>`` (default: the paper's). SQL may take its place: ``count``, an
    aggregate over the first table (without a table, over `values`), or ``query`` over the tables,
    see :class:`Query`. ``series`` makes one claim of each of its parts, which are the printed
    value or a table of words; ``{word}`` in the other fields is replaced, and ``{part}`` by the
    part. Each ``[[figures]]`` is one of :attr:`Paper.figures`.
    """
    content = tomllib.loads(text)
    shared = {
        key: value for key, value in content.items() if key not in ("title", "claims", "figures")
    }
    entries = {key: shared | entry for key, entry in content["claims"].items()}
    figures = tuple(content.get("figures", ()))
    return Paper(content["title"], partial(_claims, name, entries), figures)


def _claims(name: str, entries: Mapping[str, dict[str, Any]]) -> tuple[Claim, ...]:
    claims = []
    for key, stated in _expanded(entries):
        module, measure = stated.pop("module", name), stated.pop("measure", key)
        sql = Query(name=module.replace("-", "_"), **{part: stated.pop(part, "") for part in _SQL})
        if sql.count or sql.query:
            stated["measure"] = partial(_measure, sql)
        else:
            stated["measure"] = getattr(_module(sql.name), measure.replace("-", "_"))
        stated["needs"] = tuple(stated.get("needs", ()))
        claims.append(Claim(id=key, paper=name, **stated))
    return tuple(claims)


def _expanded(
    entries: Mapping[str, dict[str, Any]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the claims by id, one of each part of a series, whose words are filled in."""
    for key, entry in entries.items():
        parts = entry.get("series")
        if parts is None:
            yield key, dict(entry)
        for part, values in (parts or {}).items():
            words = {"part": part} | (values if isinstance(values, dict) else {"published": values})
            shared = {name: of for name, of in entry.items() if name != "series"}
            stated = {name: of for name, of in words.items() if name in _FIELDS}
            yield f"{key}-{part}", _filled(shared | stated, words) | {"series": key}


def _filled(value: Any, words: Mapping[str, Any]) -> Any:  # noqa: ANN401  whatever TOML has
    """Replace the names in braces; a text that is one alone becomes its value."""
    if isinstance(value, dict):
        return {name: _filled(of, words) for name, of in value.items()}
    if not isinstance(value, str):
        return value
    if value[1:-1] in words and value == f"{{{value[1:-1]}}}":
        return words[value[1:-1]]
    for name, word in words.items():
        value = value.replace(f"{{{name}}}", str(word))
    return value


_FIELDS: Final = frozenset(("module", *(field.name for field in fields(Claim))))
_SQL: Final = ("count", "rows", "each", "query", "measured", "holds")


@dataclass(frozen=True)
class Query:
    """Measurement of a claim in SQL, over tables and the analyses in ``FRAMES`` of its module."""

    name: str
    """Name of the module."""
    count: str
    """Number to compare with the published one."""
    rows: str
    """Rows that are the evidence, and the table ``rows`` of the query."""
    each: str
    """Text of each of the rows, which `measured` names ``each``."""
    query: str
    """One row of numbers; without `measured` its single number is compared. The table ``printed``
    has the rows of `values`."""
    measured: str
    """Text with the names of these numbers in braces."""
    holds: str
    """Condition on these numbers; none or null: no public data decides the claim."""


def _measure(sql: Query, store: Store, claim: Claim) -> Judgement | float:
    tables = {table: store.scan(trace, table) for trace, table in claim.tables}
    if sql.count:
        of = next(iter(tables.values()), pl.LazyFrame([claim.values]))
        number: float = of.select(pl.sql_expr(sql.count)).collect().item()
        return number
    context, evidence = pl.SQLContext(tables), pl.DataFrame()
    for name, (analysis, *options) in _frames(sql).items():
        context.register(name, store.trace(claim.tables[0][0]).once(analysis, *options))
    if "rows" in claim.values:
        printed, columns = claim.values["rows"], claim.values["columns"]
        context.register("printed", pl.DataFrame(printed, schema=columns, orient="row"))
    if sql.rows:
        evidence = context.execute(sql.rows, eager=True)
        context.register("rows", evidence)
    numbers = context.execute(sql.query).collect(engine="streaming")
    if numbers.is_empty() or None in numbers.row(0):
        raise DataError("a column has no value")
    if not sql.measured:
        number = float(numbers.item())
        holds, measured = agrees(number, claim.published), round_as(number, claim.published)
        return decide(holds=holds, measured=measured, evidence=evidence if sql.rows else None)
    try:
        each = ", ".join(sql.each.format(**row) for row in evidence.iter_rows(named=True))
    except TypeError:
        raise DataError("a row has no value") from None
    measured = sql.measured.format(**numbers.row(0, named=True), each=each)
    shown = evidence if sql.rows else None
    holds = numbers.select(pl.sql_expr(sql.holds or "NULL")).item()
    if holds is None:
        return not_testable(measured, evidence=shown)
    return decide(holds=holds, measured=measured, evidence=shown)


def _module(name: str) -> ModuleType:
    return import_module(f"traceana.claims.{name}")


def _frames(sql: Query) -> dict[str, tuple[Any, ...]]:
    """Return the analyses that a query names."""
    text = f"{sql.rows} {sql.query}"
    if find_spec(f"traceana.claims.{sql.name}") is None:
        return {}
    frames = getattr(_module(sql.name), "FRAMES", {})
    return {name: of for name, of in frames.items() if re.search(rf"\b{name}\b", text)}


PAPERS: Final[dict[str, Paper]] = {
    entry.name.removesuffix(".toml"): read_paper(
        entry.name.removesuffix(".toml"), entry.read_text(encoding="utf-8")
    )
    for entry in sorted(
        files("traceana.claims").iterdir(), key=lambda entry: entry.name.removesuffix(".toml")
    )
    if entry.name.endswith(".toml")
}
"""By the name that ``--paper`` takes."""


def find_papers(name: str, names: Iterable[str], /) -> tuple[str, ...]:
    """Return the paper with an id, else those whose id or title contains the name; or DataError."""
    ids = tuple(names)
    meant = name.casefold()
    names = tuple(paper for paper in ids if meant in f"{paper} {PAPERS[paper].title}".casefold())
    if name in ids or len(names) in (0, len(ids)):
        names = (name,)
    if names[0] not in ids:
        hint = did_you_mean(name, ids)
        raise DataError(f"no paper is called {name!r}; the papers are {', '.join(ids)}{hint}")
    return names


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a paper."""

    shows: str
    """What it shows."""
    figure: str = ""
    """Id of ours; empty if the published data cannot show it."""
    options: str = ""
    """Options of ``traceana figures`` that choose it."""
    number: str = ""
    """Its number in the paper; empty where the source does not number its figures."""
    note: str = ""
    """How ours differs, or why there is none."""
    needs: str = ""
    """File without which a store with its trace cannot show it, and the remedy."""

    @property
    def command(self) -> str:
        """The command that draws it; empty if there is none."""
        return f"traceana figures {self.figure} {self.options}".rstrip() if self.figure else ""

    @property
    def answer(self) -> str:
        """The command and how its picture differs, or why there is none."""
        note = self.note if self.figure else f"not reproducible: {self.note}"
        return f"{self.command} ({note})" if self.figure and note else self.command or note


PUBLISHED: Final[dict[str, tuple[PublishedFigure, ...]]] = {
    name: tuple(PublishedFigure(**entry) for entry in paper.figures)
    for name, paper in PAPERS.items()
    if paper.figures
}
"""By the name of the paper, as ``traceana claims --paper`` takes it."""


def traces_of(paper: str, /) -> tuple[str, ...]:
    """Return the traces that the claims of a paper need; none for a model alone."""
    claims = [claim for name in find_papers(paper, PUBLISHED) for claim in PAPERS[name].claims]
    return tuple(dict.fromkeys(trace for claim in claims for trace, _ in claim.tables))


def options_of(figure: PublishedFigure, /) -> dict[str, str]:
    """Return the options of ``traceana figures`` that choose a figure, by name."""
    words = figure.options.split()
    return {
        name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }


def claims_of(paper: str, number: str, /) -> list[str]:
    """Return the claims of a paper that name the number of a figure or a part, series as one."""
    figure = re.compile(rf"figure {re.escape(number)}(?![0-9])")
    of_figure = Counter(
        f"{claim.series}-*" if claim.series else claim.id
        for claim in (PAPERS[paper].claims if number and paper in PAPERS else ())
        if figure.search(f"{claim.section} {claim.reference}".casefold())
    )
    return [f"{name} ({n})" if n > 1 else name for name, n in of_figure.items()]


def numbered(paper: str, number: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figure of a paper with a number, or its parts: 7 is 7a and 7b."""
    published = figures_of(paper)
    figures = tuple(figure for figure in published if _has_number(figure, number))
    if not figures:
        every = dict.fromkeys(figure.number for figure in published if figure.number)
        numbers = ", ".join(every) or "none"
        raise DataError(f"{paper} has no figure {number!r} here; its numbers are {numbers}")
    return figures


def _has_number(figure: PublishedFigure, number: str) -> bool:
    first, _, last = figure.number.partition(" to ")
    if number.isdigit() and last:
        return int(first) <= int(number) <= int(last)
    return figure.number == number or (number.isdigit() and first.rstrip("abcdef") == number)


def figures_of(paper: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figures of a paper, those with a number first."""
    papers = find_papers(paper, PUBLISHED)
    return tuple(sorted((figure for name in papers for figure in PUBLISHED[name]), key=_order))


def _order(figure: PublishedFigure) -> tuple[bool, int, str]:
    digits = "".join(filter(str.isdigit, figure.number))
    return not figure.number, int(digits or 0), figure.number


Entries: TypeAlias = dict[tuple[str, str], TableEntry]
_SCHEMA: Final = schema_of(ClaimVerdicts)
_CACHE: Final = Cache("claims")
_BY_DIGITS: Final = "The printed digits are compared."
_JUDGED: Final = ("reproduced", "differs", "observation")
_WHOLE: Final = 0.999
"""Fraction of the rows of the published files below which a frame is a part; few are rejected."""
_COUNTED: Final = 0.9
"""The same where only a README counts the rows: it rounds and misprints."""


def check_claims(
    store: Store, /, *, paper: str | None = None, progress: Callable[[float], None] | None = None
) -> ClaimResults:
    """Compare published claims with the data in a store.

    Verdicts: ``reproduced`` (equal to the printed digits, or within the stated tolerance),
    ``differs`` (the note gives the reason, if known), ``observation`` (unpublished, so it
    is no reproduction), ``untested`` (a table is missing, synthetic, incomplete or altered, or
    cannot be analyzed), ``not testable`` (no public data can decide it). A file whose sha256 is
    not the published one decides no claim; one whose sha256 was not published refutes none. Each
    verdict is cached in the user's cache folder until the tables, the claim, the code or the
    version of a library change.

    Parameters
    ----------
    store
        What :func:`open_store` returns.
    paper
        One of :data:`traceana.claims.PAPERS`, or a part of ids and titles; None for all.
    progress
        Called after each claim with the completed fraction.

    Examples
    --------
    >>> import traceana
    >>> results = traceana.check_claims(traceana.open_sample(), paper="itp-elasticflow")
    >>> results.table.filter(id="elasticflow-testbed")["verdict"].item()
    'untested'
    """
    given: object = store
    if not isinstance(given, Store):
        kind = type(given).__name__
        raise DataError(f"expected a store, such as traceana.open_store(path), got {kind}")
    names = PAPERS if paper is None else find_papers(paper, PAPERS)
    claims = [claim for name in names for claim in PAPERS[name].claims]
    stored = _Stored(store)
    entries = stored.entries
    rows, evidence = [], {}
    for done, claim in enumerate(claims, 1):
        verdict = _judge(claim, stored)
        rows.append(_row(claim, verdict, entries))
        if verdict.evidence is not None:
            evidence[claim.id] = verdict.evidence
        if progress is not None:
            progress(done / len(claims))
    return ClaimResults(pl.DataFrame(rows, schema=_SCHEMA), evidence, _altered(claims, entries))


class _Stored:
    """A store and what the verdicts need of its ledgers, read once for all claims."""

    def __init__(self, store: Store) -> None:
        self.store, self.missing = store, cache(store.missing)
        self.ledgers = {trace: store.ledger(trace) for trace in store.traces()}
        self.entries: Entries = {
            (trace, entry.table): entry
            for trace, ledger in self.ledgers.items()
            for entry in ledger.entries
        }


def _altered(claims: list[Claim], entries: Entries) -> tuple[str, ...]:
    altered = [
        f"{trace}/{file.file}"
        for claim in claims
        for trace, table in claim.tables
        if (trace, table) in entries
        for file in entries[trace, table].files
        if file.as_published is False and not file.synthetic
    ]
    return tuple(dict.fromkeys(altered))


def _row(claim: Claim, verdict: Judgement, entries: Entries) -> dict[str, Any]:
    compared = "Compared by the tolerance." if claim.tolerance else _BY_DIGITS
    parts = [
        "/".join(need) + (f" ({entries[need].rows_kept:,} rows)" if need in entries else "")
        for need in claim.tables
    ]
    return {name: getattr(claim, name) for name in _SCHEMA if hasattr(claim, name)} | {
        "measured": verdict.measured,
        "verdict": verdict.verdict,
        "reason": verdict.note or claim.note or compared,
        "source": "; ".join(parts) or None,
    }


def _judge(claim: Claim, stored: _Stored) -> Judgement:
    entries = stored.entries
    verdict = _lacking(claim, stored) or _measured_once(claim, stored)
    if verdict.verdict not in _JUDGED:
        return verdict
    files = [file for need in claim.tables for file in entries[need].files]
    altered = dict.fromkeys(file.file for file in files if file.as_published is False)
    unknown = dict.fromkeys(file.file for file in files if file.as_published is None)
    if altered:
        reason = f"{', '.join(altered)} is not the published file (its sha256 differs)"
    elif unknown and verdict.verdict == "differs":
        names = ", ".join(unknown)
        reason = f"whether {names} is the published file is unknown (no sha256 of it was published)"
    else:
        return verdict
    return replace(verdict, verdict="untested", note=reason)


def _lacking(claim: Claim, stored: _Stored) -> Judgement | None:
    """Return why the tables of a claim cannot decide it, or None if they can."""
    entries = stored.entries
    absent = [
        "/".join(need)
        for need in claim.tables
        if need not in entries or not entries[need].rows_kept
    ]
    if absent:
        return untested(f"not in the store: {', '.join(absent)}")
    synthetic = dict.fromkeys(need[0] for need in claim.tables if entries[need].synthetic)
    if synthetic:
        return untested(f"the store's rows of {', '.join(synthetic)} are synthetic")
    missing = dict.fromkeys(csv for need in claim.tables for csv in stored.missing(*need))
    if missing and claim.every_file:
        return untested(f"files of the trace are not in the store: {', '.join(missing)}")
    for trace, table in claim.tables:
        listed = load_catalog().get(trace)
        published = listed.rows.get(table, 0) if listed else 0
        least = (_WHOLE if listed and listed.tried else _COUNTED) * published
        entry = entries[trace, table]
        whole = all(file.as_published for file in entry.files)
        if not whole and entry.rows_read < least:
            return untested(
                f"a part of {trace}/{table} is in the store: {entry.rows_read:,} of "
                f"{published:,} published rows"
            )
    return None


def _measured_once(claim: Claim, stored: _Stored) -> Judgement:
    """Return the cached judgement of a claim, or measure it."""
    part = claim.measure if isinstance(claim.measure, partial) else partial(claim.measure)
    measure = part.func
    if not measure.__module__.startswith("traceana."):
        return _measured(claim, stored.store)
    stated = {**vars(claim), "measure": (measure.__module__, measure.__qualname__, part.args)}
    ledgers = [stored.ledgers[trace].json for trace in dict.fromkeys(t for t, _ in claim.tables)]
    key = key_of(stated, ledgers, code_digest(), versions())
    verdict = _CACHE.load(key)
    if not isinstance(verdict, Judgement):
        verdict = _measured(claim, stored.store)
        _CACHE.save(key, verdict)
    return verdict


def _measured(claim: Claim, store: Store) -> Judgement:
    try:
        verdict = claim.measure(store, claim)
        if not isinstance(verdict, Judgement):
            measured = round_as(verdict, claim.published)
            verdict = decide(holds=agrees(verdict, claim.published), measured=measured)
    except DataError as error:
        return untested(f"the rows in the store cannot be analyzed: {error}")
    except (StoreError, MemoryError):
        raise
    except (Exception, PanicException) as error:  # noqa: BLE001  costs its claim alone
        return untested(f"it could not be computed. {ask_for_report(f'claim {claim.id}', error)}")
    if claim.kind == "observation" and verdict.verdict in ("reproduced", "differs"):
        return replace(verdict, verdict="observation")
    return verdict
