"""Kinds of column, with dtype, unit, meaning and null rule."""

from __future__ import annotations

from typing import Final

import dataframely as dy
import polars as pl

STATUSES: Final = ("completed", "failed", "cancelled", "running", "pending", "unknown")
"""The status values of every trace; publishers' values are mapped to them."""

LARGEST: Final = 1e18
"""Largest absolute value of a number; what is larger is no measurement."""
_LARGEST_WHOLE: Final = 10**15
"""Of which thousands add up without an overflow."""
LARGEST_S: Final = 1e12
"""Largest time: beyond the year 9999 ("never"), and below any recent time in milliseconds."""

REJECTED: Final = pl.Schema(
    {"file": pl.String, "row": pl.Int64, "line": pl.Int64, "rule": pl.String, "text": pl.String}
)
"""Rejected rows: file, row (data rows counted from 1), line (as an editor counts), the first rule
that the row broke, and its text as published (of a reshaped table: its cells')."""


def text(
    meaning: str,
    *,
    key: bool = False,
    nullable: bool = False,
    privacy: str = "label",
    name: str | None = None,
) -> dy.String:
    """Name, identifier or label; an empty string is never kept, it is null.

    `name` is given where the column's name is a keyword of Python. `privacy` states what
    anonymizing does: a ``label`` stays, an ``identifier`` becomes a digest (of a ``rank``, unless
    it only numbers the workers), a job's ``name`` digests of its parts, and so does a ``reason`` of
    more than one word.
    """
    return dy.String(
        alias=name,
        primary_key=key,
        nullable=nullable and not key,
        min_length=1,
        metadata={"unit": "text", "privacy": privacy},
        description=meaning,
    )


def identifier(meaning: str, *, key: bool = False, nullable: bool = False) -> dy.String:
    """Name of one user, job, machine or the like."""
    return text(meaning, key=key, nullable=nullable, privacy="identifier")


def status(meaning: str) -> dy.String:
    """One of :data:`STATUSES`; null where the publisher gave no word."""
    return dy.String(
        nullable=True,
        check={"in_closed_set": lambda column: column.is_in(STATUSES)},
        metadata={"unit": "one of " + ", ".join(STATUSES)},
        description=meaning,
    )


def measure(
    meaning: str, *, unit: str, key: bool = False, nullable: bool = False, positive: bool = False
) -> dy.Float64:
    """Number from 0 (or above it if `positive`) to :data:`LARGEST`, with its unit."""
    return dy.Float64(
        primary_key=key,
        nullable=nullable and not key,
        min=None if positive else 0,
        min_exclusive=0 if positive else None,
        max=LARGEST,
        metadata={"unit": unit},
        description=meaning,
    )


def whole(
    meaning: str,
    *,
    unit: str = "count",
    key: bool = False,
    nullable: bool = False,
    minimum: int = 1,
    name: str | None = None,
) -> dy.Int64:
    """Whole number from `minimum` to 10^15; `name` is that of a column called as a method."""
    return dy.Int64(
        alias=name,
        primary_key=key,
        nullable=nullable and not key,
        min=minimum,
        max=_LARGEST_WHOLE,
        metadata={"unit": unit},
        description=meaning,
    )


def number(meaning: str, *, unit: str, nullable: bool = False) -> dy.Float64:
    """Number of any sign up to :data:`LARGEST`, with its unit."""
    return dy.Float64(
        nullable=nullable, min=-LARGEST, max=LARGEST, metadata={"unit": unit}, description=meaning
    )


def seconds(meaning: str, *, nullable: bool = True) -> dy.Float64:
    """Duration in seconds; not negative."""
    return _in_seconds(meaning, "duration", nullable=nullable)


def clock(meaning: str, *, nullable: bool = True) -> dy.Float64:
    """Time in seconds: Unix time, or on the trace's own clock; not negative."""
    return _in_seconds(meaning, "time", nullable=nullable)


def _in_seconds(meaning: str, privacy: str, *, nullable: bool) -> dy.Float64:
    metadata = {"unit": "s", "privacy": privacy}
    return dy.Float64(
        nullable=nullable, min=0, max=LARGEST_S, metadata=metadata, description=meaning
    )


def not_before(later: str, earlier: str) -> object:
    """Rule of a row: one of its times is not before another."""
    return dy.rule()(lambda _: pl.col(later) >= pl.col(earlier))
