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
    """Rows with a runtime."""
    n_truncated: int
    """Those that started before the window: seen only because they lasted into it."""
    n_censored: int
    """Those still running at its end."""
    n_unlisted: float | None
    """Estimate of the rows that a trace without unfinished rows omits; None for other traces."""

    def describe(self, noun: str, /) -> str:
        """Return what the window cuts off, as sentences; empty for no row."""
        if not self.n:
            return ""
        window = f"window {'stated' if self.stated else 'derived'}"
        text = (
            f"None of the {noun} started before the observation window or were still running "
            f"at its end ({window})."
        )
        if self.n_truncated + self.n_censored:
            text = (
                f"Of {self.n:,} {noun} with a runtime, {self.n_truncated:,} started before the "
                f"observation window (left-truncated) and {self.n_censored:,} were still running "
                f"at its end (right-censored; {window})."
            )
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
    """Add the columns entry_s and observed to rows with runtime_s, by the window of their trace.

    A row that started before the window has the runtime at its start as entry_s, others 0. A row
    of status running that ends at the window's end, or without a recorded end, is not observed to
    end. If the trace lists only survivors of an earlier time, a derived window starts at the first
    recorded end.
    """
    stated = manifest.window == "stated"
    first, last = manifest.window_start_s, manifest.window_end_s
    names = {*rows.columns}
    if not stated and manifest.lists_only_survivors and "end_s" in names:
        first = rows["end_s"].min()  # type: ignore[assignment]
    runtime = pl.col("runtime_s")
    start = next((name for name in ("start_s", "submit_s") if _has(rows, name)), None)
    entry, observed = pl.lit(0.0), pl.lit(value=True)
    if start is not None and first is not None:
        entry = pl.min_horizontal((first - pl.col(start)).clip(0), runtime).fill_null(0.0)
    end = pl.col("end_s") if _has(rows, "end_s") else pl.col(start or "runtime_s") + runtime
    if start is not None and last is not None and not stated:
        last = max(last, rows.select(end.max()).item() or last)
    if last is not None and "status" in names and (start or _has(rows, "end_s")):
        ended = (end < last).fill_null(value=False)
        still = (pl.col("status").cast(pl.String) == "running") & ~ended
        observed = ~still.fill_null(value=False)
    rows = rows.with_columns(entry_s=entry, observed=observed)
    used = dict.fromkeys(("runtime_s", "entry_s", "observed", start or "runtime_s"))
    known = rows.select(*used).filter(runtime.is_not_null())  # not all columns: memory
    truncated, censored = int((known["entry_s"] > 0).sum()), int((~known["observed"]).sum())
    complete = known.height == rows.height and not censored and not truncated
    return rows, Observation(
        first, last, stated, known.height, truncated, censored,
        estimate_unlisted(known, start, last) if complete and start and last is not None else None,
    )  # fmt: skip


def _has(rows: pl.DataFrame, name: str) -> bool:
    return name in rows.columns and rows[name].count() > 0
