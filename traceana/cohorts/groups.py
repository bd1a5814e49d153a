"""How many groups a column has, and how many of them are compared or shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from traceana.store import Trace

MOST_GROUPS: Final = 20
"""A column with more values does not group; of its groups, the largest so many are shown."""


def count_users(trace: Trace, /) -> int:
    """Return the number of users of the jobs; 0 where they are not recorded."""
    if not trace.has("jobs", ("user",)):
        return 0
    users = pl.col("user").drop_nulls().n_unique()
    return int(trace.scan("jobs").select(users).collect().item())
