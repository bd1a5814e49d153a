"""When the rows of a trace were observed: left truncation and censoring by its window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw

from traceana.analysis.frames import collect, reduce_frame
from traceana.analysis.outcomes.truncation import estimate_unlisted

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrameT

    from traceana.derived.job_sample import JobSample
    from traceana.store.manifest import Manifest


@dataclass(frozen=True)
class Observation:
    """Observation window of rows with a runtime, and what it cuts off.

    Attributes
    ----------
    start_s, end_s
        The window; None where it is not known.
    stated
        Whether the manifest states it; else it is derived from the times in the trace.
    n
        Rows with a runtime.
    n_truncated
        Those that started before the window: seen only because they lasted into it.
    n_censored
        Those still running at its end.
    n_unlisted
        Estimate of the rows that a trace without unfinished rows omits; None for other traces.
    """

    start_s: float | None
    end_s: float | None
    stated: bool
    n: int
    n_truncated: int
    n_censored: int
    n_unlisted: float | None

    def describe(self, noun: str, /) -> str:
        """Return what the window cuts off, as sentences; empty for no row."""
        if not self.n:
            return ""
        window = f"window {'stated' if self.stated else 'derived'}"
        text = f"No {noun} are left-truncated or right-censored ({window})."
        if self.n_truncated + self.n_censored:
            text = (
                f"{self.n_truncated:,} of {self.n:,} {noun} with a runtime are left-truncated "
                f"(started before the observation window) and {self.n_censored:,} are "
                f"right-censored (still running at its end; {window})."
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


def observe(
    rows: IntoFrameT, manifest: Manifest, /, *, sample: JobSample | None = None
) -> tuple[IntoFrameT, Observation]:
    """Add the columns entry_s and observed to rows with runtime_s, by the window of their trace.

    A row that started before the window has the runtime at its start as entry_s, others 0. A row
    of status running that ends at the window's end is not observed to end. If the trace lists only
    survivors of an earlier time, a derived window starts at the first recorded end. Rows that are
    missing are estimated from the `sample` of the rows, if there is one.
    """
    stated = manifest.window == "stated"
    first, last = manifest.window_start_s, manifest.window_end_s
    frame: Any = nw.from_native(rows)
    names = frame.collect_schema().names()
    times = [name for name in ("start_s", "submit_s", "end_s") if name in names]
    count = reduce_frame(frame.lazy(), (), **{name: nw.col(name).count() for name in times})
    there = [name for name in times if count[name].item()]
    if not stated and manifest.lists_only_survivors and "end_s" in names:
        first = reduce_frame(frame.lazy(), (), first=nw.col("end_s").min()).item()
    runtime = nw.col("runtime_s")
    start = next((name for name in there if name != "end_s"), None)
    entry, observed = nw.lit(0.0), nw.lit(value=True)
    if start is not None and first is not None:
        entry = nw.min_horizontal((first - nw.col(start)).clip(0), runtime).fill_null(0.0)
    end = nw.col("end_s") if "end_s" in there else nw.col(start or "runtime_s") + runtime
    if start is not None and last is not None and not stated:
        last = max(last, reduce_frame(frame.lazy(), (), last=end.max()).item() or last)
    if last is not None and "status" in names and (start or "end_s" in there):
        still = (nw.col("status").cast(nw.String) == "running") & (end >= last)
        observed = ~still.fill_null(value=False)
    seen = frame.with_columns(entry.alias("entry_s"), observed.alias("observed"))
    known = seen.lazy().filter(~runtime.is_null())
    n_rows, n, truncated, censored = (
        *reduce_frame(frame.lazy(), (), n=nw.len()).row(0),
        *reduce_frame(
            known,
            (),
            n=nw.len(),
            truncated=(nw.col("entry_s") > 0).cast(nw.Int64).sum(),
            censored=(~nw.col("observed")).cast(nw.Int64).sum(),
        )
        .fill_null(0)
        .row(0),
    )
    unlisted = None
    if n == n_rows and not censored and not truncated and start and last is not None:
        drawn: Any = nw.from_native(sample.rows_of(known.to_native())) if sample else known
        unlisted = estimate_unlisted(collect(drawn.select("runtime_s", start)), start, last)
        if unlisted is not None and sample is not None:
            unlisted /= sample.fraction
    observation = Observation(first, last, stated, n, truncated, censored, unlisted)
    native: IntoFrameT = seen.to_native()
    return native, observation
