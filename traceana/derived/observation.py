"""When the rows of a trace were observed: left truncation and censoring by its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.outcomes.truncation import estimate_unlisted

if TYPE_CHECKING:
    from traceana.store.manifest import Manifest


@dataclass(frozen=True)
class Observation:
    """Observation window of rows with a runtime, and what it cuts off."""

    start_s: float | None
    end_s: float | None
    """The window; None where it is not known."""
    stated: bool
    """Whether the manifest states it; else it is derived from the times in the trace."""
    n: int
    """Rows with a runtime, or with a start and no end."""
    n_truncated: int
    """Those that started before the window: seen only because they lasted into it."""
    n_censored: int
    """Those still running at its end."""
    n_open: int
    """Those of them without an end."""
    n_unstarted: int
    n_ended: int
    """Other rows without a start, but pending ones; and those of them with an end."""
    n_unlisted: float | None
    """Estimate of the rows that a trace without unfinished rows omits; None for other traces."""

    def describe(self, noun: str, /) -> str:
        """Return what the window cuts off, as sentences; empty for no row."""
        if not self.n:
            return ""
        known = "a runtime or a start" if self.n_open else "a runtime"
        window = f"window {'stated' if self.stated else 'derived'}"
        text = (
            f"None of the {noun} started before the observation window or were still running "
            f"at its end ({window})."
        )
        if self.n_truncated + self.n_censored:
            text = (
                f"Of {self.n:,} {noun} with {known}, {self.n_truncated:,} started before the "
                f"observation window (left-truncated) and {self.n_censored:,} were still running "
                f"at its end (right-censored; {window})."
            )
        if self.n_open:
            text += (
                f" The {self.n_open:,} {noun} with a start and no end are taken as running until "
                "the window's end; their GPU-hours are not counted."
            )
        if self.n_unstarted:
            text += f" {self.n_unstarted:,} {noun} without a start are excluded"
            text += f", of which {self.n_ended:,} have an end" if self.n_ended else ""
            text += ": they may have started before the window."
        if self.n_unlisted is not None:
            more = max(self.n_unlisted, 0.0)
            text += (
                f" Every listed row ended within the window, so runtimes are right-truncated: "
                f"{noun} still running at its end are missing, an estimated {more:,.0f} "
                f"({100 * more / (self.n + more):.2g} %; Lynden-Bell's estimator; a lower "
                "bound, since runtimes longer than the window are never listed)."
            )
        return text


def observe(rows: pl.DataFrame, manifest: Manifest, /) -> tuple[pl.DataFrame, Observation]:
    """Add the columns duration_s, entry_s and observed, by the window of the rows' trace.

    duration_s is the runtime; without one, that of a row with a start and no end lasts until the
    window's end, unless its status is that of an ended or pending row. A row that started before
    the window has the runtime at its start as entry_s, others 0. Not observed to end is such a row,
    and one of status running that has no end or ends at the window's end. If the trace lists only
    survivors of an earlier time, a derived window starts at the first recorded end.
    """
    stated = manifest.window == "stated"
    first, last = manifest.window_start_s, manifest.window_end_s
    names = {*rows.columns}
    if not stated and manifest.lists_only_survivors and "end_s" in names:
        first = rows["end_s"].min()  # type: ignore[assignment]
    runtime, status = pl.col("runtime_s"), pl.lit(None, pl.String)
    if "status" in names:
        status = pl.col("status").cast(pl.String)
    start = next((name for name in ("start_s", "submit_s") if _has(rows, name)), None)
    null = pl.lit(None, pl.Float64)
    begin = pl.col("start_s") if start == "start_s" else null
    end = pl.col(start) + runtime if start else null
    if _has(rows, "end_s"):
        end = pl.col("end_s")
    if start is not None and last is not None and not stated:
        last = max(last, rows.select(end.max()).item() or last)
    until = null if last is None else pl.lit(float(last))
    running = status.is_null() | status.is_in(("running", "unknown"))
    open_ = runtime.is_null() & end.is_null() & running & (begin <= until)
    rows = rows.with_columns(duration_s=pl.when(open_).then(until - begin).otherwise(runtime))
    duration, entry = pl.col("duration_s"), pl.lit(0.0)
    if start is not None and first is not None:
        entry = pl.min_horizontal((first - pl.col(start)).clip(0), duration).fill_null(0.0)
    still = (status == "running") & ~(end < until).fill_null(value=False)
    rows = rows.with_columns(entry_s=entry, observed=~(still | open_).fill_null(value=False))
    used = dict.fromkeys(("runtime_s", "duration_s", "entry_s", "observed", start or "runtime_s"))
    known = rows.select(*used).filter(duration.is_not_null())  # not all columns: memory
    unstarted = rows.filter(duration.is_null() & begin.is_null(), status.ne_missing("pending"))
    if start != "start_s":
        unstarted = rows.clear()
    truncated, censored = int((known["entry_s"] > 0).sum()), int((~known["observed"]).sum())
    complete = known.height == rows.height and not censored and not truncated
    return rows, Observation(
        first, last, stated, known.height, truncated, censored,
        known["runtime_s"].null_count(), unstarted.height, unstarted.select(end.count()).item(),
        estimate_unlisted(known, start, last) if complete and start and last is not None else None,
    )  # fmt: skip


def _has(rows: pl.DataFrame, name: str) -> bool:
    return name in rows.columns and rows[name].count() > 0
