"""Rows that come tick by tick with the same workers in the same order, read as they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST
from traceana.stats.dispersion import row_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

PROBE: Final = 10_000
"""Rows in which the first tick must end."""


def moments_in_order(
    rows: pl.LazyFrame, by: Sequence[str], at: str, over: str, value: str, /, *, ddof: int
) -> pl.DataFrame | None:
    """Return [*by, at, n_workers, mean, std], sorted; None if the rows are not in order.

    The order: all rows of a job together, its ticks ascending, every tick with the same workers
    in the same order and a finite value of each. The order of the jobs is free. What makes it
    fast is that each row is compared with another one at a fixed distance only: nothing is hashed
    or grouped. Memory grows with the ticks, not with the rows.
    """
    schema = rows.collect_schema()
    if not (schema[at].is_numeric() or schema[at].is_temporal()) or not schema[value].is_numeric():
        return None
    width = _first_tick(rows.head(PROBE).collect(), (*by, at), over)
    if width is None or not _workers_repeat(rows, over, width):
        return None
    ticks = _read_ticks(rows.select(at, pl.col(value).cast(pl.Float64)), width, ddof)
    if ticks is None:
        return None
    first = pl.any_horizontal(
        pl.col("index") == 0, *(pl.col(name).ne_missing(pl.col(name).shift()) for name in by)
    )
    jobs = rows.select(by).with_row_index("index").filter(first).collect(engine="streaming")
    starts = jobs["index"].to_numpy().astype(np.int64)
    if (starts % width).any() or jobs.select(by).is_duplicated().any():
        return None
    return _join(jobs.select(by), starts // width, ticks, at)


def _first_tick(head: pl.DataFrame, keys: Sequence[str], over: str) -> int | None:
    """Return how many workers the first tick has; None if it is not plain."""
    if head.height < 2:
        return None
    same = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).first()) for key in keys)
    width = head.select(same.arg_min()).item()
    workers = head[over].head(width)
    plain = width >= 2 and not workers.has_nulls() and workers.n_unique() == width
    return width if plain else None


def _workers_repeat(rows: pl.LazyFrame, over: str, width: int) -> bool:
    # only the first tick's workers, which have none before them, differ
    differs = pl.col(over).ne_missing(pl.col(over).shift(width))
    return bool(rows.select(differs.sum()).collect(engine="streaming").item() == width)


def _read_ticks(rows: pl.LazyFrame, width: int, ddof: int) -> pl.DataFrame | None:
    parts = []
    rest = rows.head(0).collect()
    for batch in rows.collect_batches(lazy=True, engine="streaming"):
        whole = pl.concat([rest, batch]) if rest.height else batch
        n_ticks = whole.height // width
        rest = whole.tail(whole.height - n_ticks * width)
        part = whole.head(n_ticks * width)
        x = part.to_series(1).to_numpy()
        times = part.to_series(0).to_numpy().reshape(n_ticks, width)
        # NaN, which also stands for null, is not equal to itself nor in range
        if n_ticks and not (
            (times == times[:, :1]).all() and x.min() >= 0 and x.max() <= LARGEST
        ):
            return None
        n, mean, std = row_moments(x.reshape(n_ticks, width), ddof=ddof)
        parts.append(
            part.select(pl.nth(0).gather_every(width)).with_columns(
                n_workers=n, mean=mean, std=std
            )
        )
    return pl.concat(parts) if not rest.height else None


def _join(
    jobs: pl.DataFrame, starts: np.typing.NDArray[np.int64], ticks: pl.DataFrame, at: str
) -> pl.DataFrame | None:
    """Give each tick its job, in the jobs' order; None if a job's ticks do not ascend."""
    times = ticks[at].to_numpy()
    ascends = times[1:] > times[:-1]
    ascends[starts[1:] - 1] = True
    if not ascends.all():
        return None
    lengths = np.diff(starts, append=ticks.height)
    job = np.repeat(np.arange(len(starts)), lengths)
    if jobs.width:
        order = jobs.with_row_index("place").sort(jobs.columns, nulls_last=True)["place"]
        if not order.is_sorted():
            places = order.to_numpy()
            job = np.repeat(places, lengths[places])
            within = np.arange(len(job)) - np.repeat(
                np.cumsum(lengths[places]) - lengths[places], lengths[places]
            )
            ticks = ticks[starts[job] + within]
    return pl.concat([jobs[job], ticks], how="horizontal")
