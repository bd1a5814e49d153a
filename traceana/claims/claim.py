"""Claims, the judgement of each by its printed digits, and the verdicts on all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from traceana.claims.tables import ClaimVerdicts
from traceana.errors import DataError
from traceana.store import Store
from traceana.tables.result import Result

VERDICTS: Final = ("reproduced", "differs", "observation", "untested", "not testable")
"""`observation` is the verdict on unpublished results; it is not counted as a reproduction."""
KINDS: Final = ("count", "result", "model statement", "arithmetic", "definition", "observation")
"""A count of what a data set has, a result of an analysis or experiment, a statement of a model,
arithmetic of printed numbers, a definition, or an unpublished result (observation)."""
_NOT_MEASURED: Final = ("untested", "not testable")


@dataclass(frozen=True, repr=False, eq=False)
class Judgement(Result):
    """Verdict of a measuring function, with the measured value.

    Attributes
    ----------
    verdict
        One of :data:`VERDICTS`.
    measured
        Measured value as text; None if there is none.
    note
        The reason for the verdict; empty for the claim's own note.
    evidence
        The rows behind it, few enough to be shown; None if the measured text is enough.

    Examples
    --------
    >>> from traceana.claims import Judgement
    >>> Judgement("differs", "0.52", "The published table was rounded.").verdict
    'differs'
    """

    verdict: str
    measured: str | None
    note: str = ""
    evidence: pl.DataFrame | None = None


@dataclass(frozen=True)
class Claim:
    """A published statement, and the function that measures it.

    Attributes
    ----------
    id, paper
        Its id, and that of its paper in :data:`traceana.claims.PAPERS`.
    statement, published, values
        The statement, the value that is compared, as printed, and further printed values.
    needs, every_file
        Tables, as ``trace/table``, that it is measured in, and whether with all published files. If
        one is not in the store, has no row, is synthetic or lacks a file, the claim is untested.
    measure, function
        Takes the store and the claim; returns a :class:`Judgement`, or a number to compare with the
        published one; the public functions behind it.
    note
        The reason for the verdict, if the judgement has none.
    reference, section
        Where it was published: the source, and its section, table or figure, or README.
    kind
        One of :data:`traceana.claims.claim.KINDS`.
    tolerance
        What is compared and how closely, beginning with ``ours:`` or ``authors:``, who chose it.
        None: the published digits.
    numbers
        How many published numbers it compares; of a single statement 1.
    series
        What the ids of the claims of one series begin with; empty if it is of none.

    Examples
    --------
    >>> from traceana.claims import PAPERS
    >>> claim = PAPERS["zeus-2023"].read()[0]
    >>> claim.id, claim.needs
    ('zeus-pairs', ('zeus-2023/training_runs', 'zeus-2023/power_profiles'))
    """

    id: str
    paper: str
    statement: str
    published: str
    needs: tuple[str, ...]
    measure: Callable[[Store, Claim], Judgement | float | None]
    note: str = ""
    reference: str = ""
    section: str = ""
    kind: str = "result"
    tolerance: str | None = None
    function: str = "Store.scan"
    every_file: bool = True
    values: Mapping[str, Any] = field(default_factory=dict)
    numbers: int = 1
    series: str = ""

    @property
    def tables(self) -> tuple[tuple[str, str], ...]:
        """Trace and table of each of its needs."""
        return tuple((need.split("/")[0], need.split("/")[1]) for need in self.needs)


def decide(
    *, holds: bool, measured: str, note: str = "", evidence: pl.DataFrame | None = None
) -> Judgement:
    """Return ``reproduced`` if the statement holds, else ``differs``.

    Parameters
    ----------
    holds
        Whether the data support the statement.
    measured
        Measured value, as text with its unit.
    note
        Reason, and what a reader must know of the measurement.
    evidence
        Rows behind the verdict.

    Examples
    --------
    >>> from traceana.claims import decide
    >>> decide(holds=0.52 > 0.5, measured="52 %").verdict
    'reproduced'
    """
    return Judgement("reproduced" if holds else "differs", measured, note, evidence)


def untested(note: str, /) -> Judgement:
    """Return the verdict ``untested``: data of the claim are not available.

    Parameters
    ----------
    note
        What is missing.

    Examples
    --------
    >>> from traceana.claims import untested
    >>> untested("not in the store: zeus-2023/training_runs").verdict
    'untested'
    """
    return Judgement("untested", None, note)


def not_testable(
    measured: str, note: str = "", *, evidence: pl.DataFrame | None = None
) -> Judgement:
    """Return the verdict ``not testable``, with the measured value and the reason.

    Parameters
    ----------
    measured, note, evidence
        As in :func:`decide`.

    Examples
    --------
    >>> from traceana.claims import not_testable
    >>> not_testable("2 machines", "The paper used a private trace.").verdict
    'not testable'
    """
    return Judgement("not testable", measured, note, evidence)


@dataclass(frozen=True, repr=False, eq=False)
class ClaimResults(Result):
    """Result of :func:`check_claims`.

    Attributes
    ----------
    table
        One row per claim, with the columns of :class:`~traceana.claims.tables.ClaimVerdicts`.
    evidence
        Rows behind a verdict, by claim.
    altered
        Files, as ``trace/file``, whose sha256 differs from that of the published file.

    Examples
    --------
    >>> import traceana
    >>> results = traceana.check_claims(traceana.open_sample(), paper="zeus")
    >>> results.table.select("id", "verdict").row(0)
    ('zeus-potential', 'untested')
    """

    tables = MappingProxyType({"table": ClaimVerdicts})

    table: pl.DataFrame
    evidence: dict[str, pl.DataFrame]
    altered: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Number of claims by verdict; all verdicts are included."""
        return {verdict: self.table.filter(verdict=verdict).height for verdict in VERDICTS}

    @property
    def by_our_tolerance(self) -> dict[str, int]:
        """Number of claims reproduced and different by a tolerance that is not the authors'."""
        ours = self.table.filter(pl.col("tolerance").str.starts_with("ours"))
        return {verdict: ours.filter(verdict=verdict).height for verdict in VERDICTS[:2]}

    @property
    def headline(self) -> str:
        """The counts in a line."""
        ours = self.by_our_tolerance
        parts = [
            f"{number} {verdict}"
            + (f" ({ours[verdict]} by a tolerance of ours)" if ours.get(verdict) else "")
            for verdict, number in self.counts.items()
        ]
        number = self.table.height
        claims = f"{number} claim{'' if number == 1 else 's'}"
        return f"{claims}: {', '.join(parts)}{self._families}{self._results}"

    @property
    def by_kind(self) -> pl.DataFrame:
        """Number of claims by kind and verdict; all verdicts are included."""
        rows = [
            (kind, *(self.table.filter(kind=kind, verdict=verdict).height for verdict in VERDICTS))
            for kind in KINDS
            if kind in self.table["kind"]
        ]
        return pl.DataFrame(rows, schema=["kind", *VERDICTS], orient="row")

    @property
    def _results(self) -> str:
        """Verdicts on results, which are fewer than counts and say more."""
        table = self.by_kind.filter(kind="result")
        if table.is_empty():
            return ""
        reproduced, differs = table.select("reproduced", "differs").row(0)
        number = sum(table.drop("kind").row(0))
        return f"; of {number} results, {reproduced} reproduced and {differs} differ"

    @property
    def _families(self) -> str:
        """The numbers that claims on whole files compare, which are counted apart."""
        families = self.table.filter(pl.col("numbers") > 1, ~pl.col("verdict").is_in(_NOT_MEASURED))
        if families.is_empty():
            return ""
        equal = families.filter(verdict="reproduced")["numbers"].sum()
        return (
            f"; {families.height} of them compare {families['numbers'].sum():,} numbers of result "
            f"files and figures, {equal:,} in those reproduced"
        )

    def summary(self) -> str:
        """Return a short text on the result."""
        differs = self.table.filter(verdict="differs").iter_rows(named=True)
        lines = [self.headline]
        lines += [f"{row['id']}: {row['published']}; measured {row['measured']}" for row in differs]
        lines += [f"not as published: {name}" for name in self.altered]
        return "\n".join(lines)


def agrees(value: float | None, printed: str, /) -> bool:
    """Return whether a value is a printed number rounded to its digits, halves away from 0."""
    rounded = _round(value, printed)
    return rounded is not None and rounded == _number(printed)


def round_as(value: float | None, printed: str, /) -> str:
    """Write a value with the digits of a printed number; "none" if it is missing."""
    rounded = _round(value, printed)
    if rounded is None or value is None:
        return "none"
    if "e" in printed:
        mantissa = printed.partition("e")[0]
        return f"{value:.{len(mantissa.partition('.')[2])}e}"
    return f"{rounded:,}"


def span(values: pl.Series, /) -> tuple[float, float]:
    """Return the smallest and the largest of some numbers."""
    present = values.drop_nulls().to_numpy()
    if not present.size:
        raise DataError(f"no value of {values.name!r} is known")
    return float(present.min()), float(present.max())


def _number(printed: str) -> Decimal:
    return Decimal(printed.replace(",", ""))


def _round(value: float | None, printed: str) -> Decimal | None:
    if value is None or math.isnan(value):
        return None
    exponent = _number(printed).as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101 - a printed number is finite
    return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(exponent), ROUND_HALF_UP)
