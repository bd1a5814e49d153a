"""Papers whose claims are checked: a TOML with the statements, a module with what measures them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.claims.claim import Claim
from traceana.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traceana.store import Store


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
        Its figures: the fields of :class:`traceana.claims.published_figures.PublishedFigure`.

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
    ``traceana.claims.<module>`` (default: the paper's); ``count`` is an SQL aggregate over the
    first table instead. Each ``[[figures]]`` is one of :attr:`Paper.figures`.
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
    for key, entry in entries.items():
        stated = dict(entry)
        module = import_module(f"traceana.claims.{stated.pop('module', _module(name))}")
        measure, sql = stated.pop("measure", _module(key)), stated.pop("count", None)
        stated["measure"] = partial(_count, sql) if sql else getattr(module, measure)
        stated["needs"] = tuple(stated.get("needs", ()))
        claims.append(Claim(id=key, paper=name, **stated))
    return tuple(claims)


def _module(name: str) -> str:
    return name.replace("-", "_")


def _count(sql: str, store: Store, claim: Claim) -> float:
    number: float = store.scan(*claim.tables[0]).select(pl.sql_expr(sql)).collect().item()
    return number


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
    """Return the paper with an id, else those whose id or title contains the name, as ``antman``.

    Raises a DataError if there is none.
    """
    ids = tuple(names)
    meant = name.casefold()
    names = tuple(paper for paper in ids if meant in f"{paper} {PAPERS[paper].title}".casefold())
    if name in ids or len(names) in (0, len(ids)):
        names = (name,)
    if names[0] not in ids:
        hint = did_you_mean(name, ids)
        raise DataError(f"no paper is called {name!r}; the papers are {', '.join(ids)}{hint}")
    return names
