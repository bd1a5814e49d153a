"""Ends counted by runtime, and the estimates over them: what the curves are made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, collect, reduce_frame
from traceana.analysis.outcomes.readings import open_outcomes
from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.stats import incidence

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

ENDS: Final = ("completed", "failed", "cancelled")
"""Statuses that are an end where no others are named."""


@dataclass(frozen=True)
class EndCurves:
    """Curves of what has ended by each runtime, and what they are taken over.

    Attributes
    ----------
    curves
        One row a group, curve and time at which it steps.
    groups
        One row a group and curve.
    """

    curves: pl.DataFrame
    groups: pl.DataFrame

    def __str__(self) -> str:
        """Return the groups as a table."""
        with pl.Config(tbl_rows=20, tbl_cols=-1, tbl_width_chars=120):
            return f"{self.curves.height} steps; in all\n{self.groups}"


def check_events(events: Names, /) -> tuple[str, ...]:
    """Return the statuses that are an end.

    Raises
    ------
    DataError
        If one is no status, is named twice, or there is none.
    """
    ways = as_names(events)
    if not ways or len(set(ways)) < len(ways) or not set(ways) <= set(STATUSES):
        raise DataError(
            f"events must name statuses, each once: {', '.join(STATUSES)}; found is "
            f"{', '.join(ways) or 'none'}"
        )
    return ways


def estimate_ends(
    frame: IntoFrame,
    keys: tuple[str, ...],
    ways: tuple[str, ...],
    /,
    *,
    running_until_s: float | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Count ends by runtime, and estimate how much has ended.

    Returns
    -------
    (times, groups)
        times [*keys, time_s, <way>..., n_at_risk, survival, survival_variance, and of each way
        "<way> incidence" and "<way> variance"], a row a group and runtime in rising order;
        groups [*keys, n, <way>..., n_censored, n_left_out, last_s], a row a group.
    """
    counts = count_ends(frame, keys, ways, running_until_s=running_until_s)
    known = pl.col("time_s").is_not_null()
    sums = {name: pl.col(name).filter(known).sum() for name in ("n", *ways)}
    totals = {
        **sums,
        "n_left_out": pl.col("n").filter(~known).sum(),
        "last_s": pl.col("time_s").max(),
    }
    groups = counts.group_by(keys).agg(**totals) if keys else counts.select(**totals)
    groups = groups.with_columns(n_censored=pl.col("n") - pl.sum_horizontal(ways))
    times = counts.filter(known).with_columns(n_censored=pl.col("n") - pl.sum_horizontal(ways))
    parts = [
        incidence(times[begin:stop].select(ways).to_numpy(), times["n_censored"][begin:stop])
        for begin, stop in _slices(times, keys)
    ]
    columns = {
        "n_at_risk": [part.at_risk for part in parts],
        "survival": [part.surviving for part in parts],
        "survival_variance": [part.surviving_variance for part in parts],
    }
    for place, way in enumerate(ways):
        columns[f"{way} incidence"] = [part.ended[:, place] for part in parts]
        columns[f"{way} variance"] = [part.ended_variance[:, place] for part in parts]
    estimates = {
        name: pl.Series(np.concatenate([np.empty(0), *pieces])) for name, pieces in columns.items()
    }
    times = times.with_columns(**estimates).with_columns(pl.col("n_at_risk").cast(pl.Int64))
    return times, groups.sort(keys, nulls_last=True) if keys else groups


def count_ends(
    frame: IntoFrame,
    keys: tuple[str, ...],
    ways: tuple[str, ...] = (),
    /,
    *,
    running_until_s: float | None,
) -> pl.DataFrame:
    """Return [*keys, time_s, n, <way>...]: rows by runtime, and how many of them ended each way."""
    until_s = running_until_s
    measures = ("runtime_s",) if until_s is None else ("runtime_s", "start_s")
    lazy = open_outcomes(frame, keys, measures)
    status, time = nw.col("status"), nw.col("runtime_s")
    if until_s is not None:
        still = (status == "running") & time.is_null()
        latest = collect(lazy.filter(still).select(nw.col("start_s").max())).item()
        if latest is not None and not latest <= until_s < float("inf"):
            raise DataError(
                f"running_until_s is {until_s:g}, and a row of status running starts at {latest:g}"
            )
        time = nw.when(still).then(until_s - nw.col("start_s")).otherwise(time)
    return reduce_frame(
        lazy.with_columns(time.alias("time_s")),
        (*keys, "time_s"),
        n=nw.len(),
        **{way: nw.when(status == way).then(status).count() for way in ways},
    )


def _slices(times: pl.DataFrame, keys: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return where each group begins and stops."""
    if times.is_empty():
        return []
    change = np.zeros(times.height - 1, dtype=bool)
    for key in keys:
        column = times[key]
        change |= column.slice(1).ne_missing(column.head(-1)).to_numpy()
    edges = [0, *(np.flatnonzero(change) + 1).tolist(), times.height]
    return list(pairwise(edges))
