"""Whose doing an end is: the job's, the user's limit, the machine's or the scheduler's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw

from traceana.store.frames import column_names

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrameT

END_CLASS: Final = "end_class"
"""Name of the column."""
_REASONS: Final = {
    "machine": "node_?fail|boot_?fail|node_?lost|node_?shutdown",
    "user limit": "time_?out|time_?limit|deadline|out[ _-]?of[ _-]?me|oom|mem(ory)?_?limit",
    "scheduler": "preempt|requeue|revoked|evicted",
}
"""Beginnings of end reasons by class, as a regular expression without regard to case."""
DECISIVE: Final = f"(?i)^({'|'.join(_REASONS.values())}|time|requeued)"
"""Beginnings of end reasons that decide a result, whatever follows."""
CLASSES: Final = (*_REASONS, "job", "removed while running", "removed before start")
"""The classes; an end without one is a completion, or not known."""


def with_end_class(jobs: IntoFrameT, /) -> IntoFrameT:
    """Add the column `end_class`: who or what ended each job.

    - machine: a node failed
    - user limit: the time, memory or deadline that the user requested was reached
    - scheduler: preempted, requeued or evicted
    - job: another failure
    - removed while running, removed before start: other cancelled jobs, with and without a runtime

    A job that completed, still runs or waits, or whose status is unknown has null. The first three
    are known by the end reason, whatever the status is.

    Parameters
    ----------
    jobs
        One row per job: status, and where the frame has them end_reason, runtime_s and start_s;
        eager or lazy, of any supported engine.

    Returns
    -------
    DataFrame
        The same frame with one more column, or as it is if it has it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "status": ["failed", "failed", "cancelled", "completed"],
    ...     "end_reason": ["TIMEOUT", "FAILED", "CANCELLED", "COMPLETED"], "runtime_s": 60.0,
    ... })
    >>> traceana.with_end_class(jobs)["end_class"].to_list()
    ['user limit', 'job', 'removed while running', None]
    """
    names = column_names(jobs)
    if END_CLASS in names:
        return jobs
    frame: Any = nw.from_native(jobs)
    return frame.with_columns(_end_class(names).alias(END_CLASS)).to_native()  # type: ignore[no-any-return]


def _end_class(names: list[str]) -> nw.Expr:
    status, no = nw.col("status").cast(nw.String), nw.lit(value=False)
    ran = no
    if "runtime_s" in names:
        ran = nw.col("runtime_s") > 0
    elif "start_s" in names:
        ran = ~nw.col("start_s").is_null()
    removed = nw.when(ran.fill_null(value=False)).then(nw.lit(CLASSES[-2]))
    end_class = (
        nw.when(status == "failed")
        .then(nw.lit("job"))
        .otherwise(nw.when(status == "cancelled").then(removed.otherwise(nw.lit(CLASSES[-1]))))
    )
    if "end_reason" not in names:
        return end_class
    reason, ended = nw.col("end_reason").cast(nw.String), status.is_in(["failed", "cancelled"])
    for name, words in _REASONS.items():
        is_one = reason.str.contains(f"(?i)^({words})")
        chosen = (ended & is_one).fill_null(value=False)
        end_class = nw.when(chosen).then(nw.lit(name)).otherwise(end_class)
    return end_class
