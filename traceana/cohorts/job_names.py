"""Job names without the numbers that differ from job to job."""

from __future__ import annotations

import polars as pl


def without_numbers(name: pl.Expr, /) -> tuple[pl.Expr, pl.Expr]:
    """Return the names with # for the number that they end in, and then for every number.

    A number at the end may be hexadecimal, such as that of a commit.
    """
    ending = name.str.replace(r"[-_.]?[0-9a-f]*[0-9][0-9a-f]*$", "#")
    return ending, ending.str.replace_all(r"\d+", "#")
