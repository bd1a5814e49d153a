"""Fault logs: the faults of an observation window, and the times that each machine is down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.stats.arguments import is_number
from traceana.store.frames import as_names, collect, open_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    from traceana.store.frames import Names

    Floats = NDArray[np.float64]

DAY_S: Final = 86_400.0
Window = tuple[float | datetime, float | datetime]


@dataclass(frozen=True)
class FaultLog:
    """Faults in an observation window.

    `rows` has the faults that began in the window: [*keys, machine, start, end, is_open]; end is
    that of the window where the repair had not ended (`is_open`), and null where it is unknown.
    `downs` has [*keys, machine, start, end] of all faults that reach into the window, cut at its
    end; an unknown end is the start.
    """

    rows: pl.DataFrame
    downs: pl.DataFrame
    machine: str
    total_machines: int
    is_stated: bool
    window_s: tuple[float, float]
    has_ends: bool
    n_missing: int
    n_outside: int

    @property
    def span_s(self) -> float:
        """Length of the window."""
        return self.window_s[1] - self.window_s[0]

    @property
    def node_days(self) -> float:
        """Machines times days."""
        return self.total_machines * self.span_s / DAY_S

    @property
    def down_s(self) -> pl.Expr:
        """Length of an outage within the window."""
        return pl.col("end") - pl.col("start").clip(self.window_s[0])

    def outages(self, keys: Sequence[str] = (), /) -> pl.DataFrame:
        """Return the times that each machine is down [*keys, machine, start, end], merged."""
        own = [*keys, self.machine]
        before = pl.col("end").cum_max().shift().over(own)
        new = (before.is_null() | (pl.col("start") > before)).cum_sum()
        return (
            self.downs.sort(*own, "start", nulls_last=True)
            .with_columns(outage=new)
            .group_by(*own, "outage", maintain_order=True)
            .agg(pl.col("start").min(), pl.col("end").max())
            .drop("outage")
        )


def read_log(
    faults: IntoFrame,
    /,
    by: Names = (),
    *,
    machine: str,
    start: str,
    end: str | None,
    total_machines: int | None,
    window: Window | None,
) -> FaultLog:
    """Read the faults of a log; see :func:`~traceana.machine_reliability` for the parameters."""
    keys = as_names(by)
    measures = {"start": start} if end is None else {"start": start, "end": end}
    opened = open_frame(
        faults, keys=(*keys, machine), measures=measures, roles={"machine": machine}
    )
    ends = nw.lit(None, nw.Float64) if end is None else nw.col(end)
    read = collect(
        opened.select(*keys, nw.col(machine), nw.col(start).alias("start"), ends.alias("end"))
    ).cast({"start": pl.Float64, "end": pl.Float64})
    if machine in ("start", "end") or {*keys} & {"start", "end", "is_open"}:
        raise DataError("columns named start, end or is_open cannot be grouped by; rename them")
    known = read.drop_nulls([machine, "start"]).sort("start", machine, *keys, nulls_last=True)
    if (known["end"] < known["start"]).any():
        raise DataError(f"a fault ends before it starts: {end} is below {start}")
    first, last = _window(window, known)
    inside = known.filter(
        pl.col("start") <= last, pl.max_horizontal("start", "end").fill_null(first) >= first
    )
    inside = inside.filter((pl.col("start") >= first) | pl.col("end").is_not_null())
    has_ends = bool(inside["end"].count())
    is_last = pl.col("start") == pl.col("start").max().over(machine)
    is_open = pl.lit(has_ends) & ((pl.col("end").is_null() & is_last) | (pl.col("end") > last))
    marked = inside.with_columns(is_open=is_open.fill_null(value=False)).with_columns(
        end=pl.when("is_open").then(last).otherwise("end")
    )
    failed = marked[machine].n_unique()
    if total_machines is not None and not is_number(total_machines, whole=True):
        raise DataError(f"total_machines must be a whole number; it is {total_machines!r}")
    if total_machines is not None and total_machines < max(failed, 1):
        raise DataError(
            f"total_machines is {total_machines:,}, and {failed:,} machines have a fault in the "
            "window; state all machines that the log is about"
        )
    if total_machines is None and not failed:
        raise DataError("no fault is in the window; state total_machines")
    return FaultLog(
        rows=marked.filter(pl.col("start") >= first),
        downs=marked.with_columns(end=pl.coalesce("end", "start")).drop("is_open"),
        machine=machine,
        total_machines=total_machines or failed,
        is_stated=total_machines is not None,
        window_s=(first, last),
        has_ends=has_ends,
        n_missing=read.height - known.height,
        n_outside=known.height - inside.height,
    )


def _window(window: Window | None, known: pl.DataFrame) -> tuple[float, float]:
    """Return the stated window in seconds, or that of the first to the last time."""
    if window is None:
        if known.is_empty():
            raise DataError("the log has no fault with a machine and a start; state window=")
        first = float(known["start"][0])
        last = max(float(known["start"][-1]), float(known["end"].max() or 0.0))  # type: ignore[arg-type]
    else:
        try:
            first, last = map(_seconds, window)
        except (TypeError, ValueError):
            raise DataError(
                f"window must be its beginning and end, in seconds or as datetimes; it is "
                f"{window!r}"
            ) from None
    if not last > first:
        raise DataError(
            f"the observation window has no length (from {first:g} s to {last:g} s); state window="
        )
    return first, last


def _seconds(time: float | datetime) -> float:
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if not is_number(time):
        raise TypeError
    return float(time)


def steps_of(outages: pl.DataFrame, window_s: tuple[float, float], /) -> pl.DataFrame:
    """Return the machines down over time, [time_s, machines_down], from the window's beginning."""
    lasting = outages.filter(pl.col("end") > pl.col("start"))
    edges = pl.concat(
        [
            pl.DataFrame({"time_s": [window_s[0]], "change": [0]}),
            lasting.select(time_s=pl.col("start").clip(window_s[0]), change=pl.lit(1, pl.Int64)),
            lasting.select(time_s="end", change=pl.lit(-1, pl.Int64)),
        ]
    )
    changes = edges.group_by("time_s").agg(pl.col("change").sum()).sort("time_s")
    return changes.select("time_s", machines_down=pl.col("change").cum_sum()).filter(
        pl.col("time_s") < window_s[1]
    )


def seconds_down(steps: pl.DataFrame, edges: Floats, window_s: tuple[float, float], /) -> Floats:
    """Return the machine-seconds down between each two edges, which lie in the window."""
    times = np.append(steps["time_s"].to_numpy(), window_s[1])
    areas = np.append(0.0, np.cumsum(steps["machines_down"].to_numpy() * np.diff(times)))
    return np.diff(np.interp(edges, times, areas))
