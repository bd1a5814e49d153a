"""Compare every published claim with the store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.catalog import load_catalog
from traceana.claims.claim import Claim, ClaimResults, Judgement, decide, untested
from traceana.claims.papers import PAPERS, find_papers
from traceana.claims.rounding import agrees, round_as
from traceana.claims.tables import ClaimVerdicts
from traceana.errors import DataError
from traceana.store import Store
from traceana.store.cache import Cache, code_digest, key_of, versions
from traceana.store.ledger import ledger_json
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.store import TableEntry

_SCHEMA: Final = schema_of(ClaimVerdicts)
_CACHE: Final = Cache("claims")
_BY_DIGITS: Final = "The printed digits are compared"
_JUDGED: Final = ("reproduced", "differs", "observation")
_WHOLE: Final = 0.9
"""Fraction of the published rows below which a table is incomplete; READMEs round and misprint."""


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
    entries = {
        (trace, entry.table): entry
        for trace in store.traces()
        for entry in store.ledger(trace).entries
    }
    rows, evidence = [], {}
    for done, claim in enumerate(claims, 1):
        verdict = _judge(claim, store, entries)
        compared = f"{'Compared by the tolerance' if claim.tolerance else _BY_DIGITS}."
        stated = {name: getattr(claim, name) for name in _SCHEMA if hasattr(claim, name)}
        judged = {"measured": verdict.measured, "verdict": verdict.verdict}
        judged["reason"] = verdict.note or claim.note or compared
        rows.append(stated | judged | {"source": _source(claim, entries)})
        if verdict.evidence is not None:
            evidence[claim.id] = verdict.evidence
        if progress is not None:
            progress(done / len(claims))
    used = dict.fromkeys(need for claim in claims for need in claim.tables if need in entries)
    altered = dict.fromkeys(
        f"{trace}/{file.file}"
        for trace, table in used
        for file in entries[trace, table].files
        if file.as_published is False and not file.synthetic
    )
    return ClaimResults(pl.DataFrame(rows, schema=_SCHEMA), evidence, tuple(altered))


def _judge(claim: Claim, store: Store, entries: dict[tuple[str, str], TableEntry]) -> Judgement:
    verdict = _lacking(claim, store, entries) or _measured_once(claim, store)
    if verdict.verdict not in _JUDGED:
        return verdict
    files = [file for need in claim.tables for file in entries[need].files]
    altered = dict.fromkeys(file.file for file in files if file.as_published is False)
    unknown = dict.fromkeys(file.file for file in files if file.as_published is None)
    if altered:
        reason = f"{', '.join(altered)} is not the published file (its sha256 differs)"
        return replace(verdict, verdict="untested", note=reason)
    if unknown and verdict.verdict == "differs":
        reason = (
            f"whether {', '.join(unknown)} is the published file is unknown (no sha256 of it was "
            "published)"
        )
        return replace(verdict, verdict="untested", note=reason)
    return verdict


def _lacking(
    claim: Claim, store: Store, entries: dict[tuple[str, str], TableEntry]
) -> Judgement | None:
    """Return why the tables of a claim cannot decide it, or None if they can."""
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
    if claim.every_file:
        missing = dict.fromkeys(csv for need in claim.tables for csv in store.missing(*need))
        if missing:
            return untested(f"files of the trace are not in the store: {', '.join(missing)}")
        for trace, table in claim.tables:
            published = load_catalog()[trace].rows.get(table, 0) if trace in load_catalog() else 0
            entry = entries[trace, table]
            whole = all(file.as_published for file in entry.files)
            if not whole and entry.rows_read < _WHOLE * published:
                return untested(
                    f"a part of {trace}/{table} is in the store: {entry.rows_read:,} of "
                    f"{published:,} published rows"
                )
    return None


def _measured_once(claim: Claim, store: Store) -> Judgement:
    """Return the cached judgement of a claim, or measure it."""
    part = claim.measure if isinstance(claim.measure, partial) else partial(claim.measure)
    measure = part.func
    if not measure.__module__.startswith("traceana."):
        return _measured(claim, store)
    stated = {**vars(claim), "measure": (measure.__module__, measure.__qualname__, part.args)}
    ledgers = [
        ledger_json(store.ledger(trace)) for trace in dict.fromkeys(t for t, _ in claim.tables)
    ]
    key = key_of(stated, ledgers, code_digest(), versions())
    verdict = _CACHE.load(key)
    if not isinstance(verdict, Judgement):
        verdict = _measured(claim, store)
        _CACHE.save(key, verdict)
    return verdict


def _measured(claim: Claim, store: Store) -> Judgement:
    try:
        verdict = claim.measure(store, claim)
    except DataError as error:
        return untested(f"the rows in the store cannot be analyzed: {error}")
    if not isinstance(verdict, Judgement):
        measured = round_as(verdict, claim.published)
        verdict = decide(holds=agrees(verdict, claim.published), measured=measured)
    if claim.kind == "observation" and verdict.verdict in ("reproduced", "differs"):
        return replace(verdict, verdict="observation")
    return verdict


def _source(claim: Claim, entries: dict[tuple[str, str], TableEntry]) -> str | None:
    rows = {need: entries[need].rows_kept for need in claim.tables if need in entries}
    parts = [
        "/".join(need) + (f" ({rows[need]:,} rows)" if need in rows else "")
        for need in claim.tables
    ]
    return "; ".join(parts) or None
