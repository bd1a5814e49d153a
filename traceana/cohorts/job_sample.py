"""A reproducible sample of whole jobs from a trace with too many to analyze them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.store.frames import admit_columns, reduce_frame

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

MAX_TASKS: Final = 1_300_000
"""A trace with at most so many tasks is analyzed completely, such as the published PAI trace.

In a trace without tasks, each job counts as one.
"""
SAMPLED_TASKS: Final = 1_000_000
"""About so many tasks are sampled from a larger trace."""
SEED: Final = 1
_LETTERS: Final = (3, 4, 5)
"""Three characters at the end of a job_id have some thousand values, in digests and numbers."""
_MIN_ENDINGS: Final = 50


@dataclass(frozen=True)
class JobSample:
    """The jobs whose job_id ends in one of the endings that were drawn at random.

    Rows of any table are thus selected by job_id alone, in any engine, without a list of jobs.
    """

    endings: tuple[str, ...]
    """The endings drawn."""
    letters: int
    """Characters of an ending."""
    n_endings: int
    """Number of possible endings."""
    drawn: int
    tasks: int
    """Tasks of the jobs drawn, and of all jobs."""
    noun: str = "tasks"
    """What is counted: tasks, or jobs in a trace without tasks."""

    @property
    def fraction(self) -> float:
        """Fraction of the tasks that is in the sample."""
        return self.drawn / self.tasks

    @property
    def description(self) -> str:
        """What is in the sample, for a sentence."""
        return (
            f"{self.drawn:,} of {self.tasks:,} {self.noun} ({100 * self.fraction:.1f} %), "
            f"{'those of whole jobs ' * (self.noun != 'jobs')}drawn by the end of their job_id "
            f"(seed {SEED})"
        )

    def rows_of(self, frame: IntoFrameT, /) -> IntoFrameT:
        """Return the rows of a table with a job_id that are in the sample, lazily if it is lazy."""
        rows: nw.LazyFrame[Any] = nw.from_native(frame)
        drawn: IntoFrameT = rows.filter(_ending(self.letters).is_in(list(self.endings))).to_native()
        return drawn

    def relative_errors(self, tasks: pl.DataFrame, /) -> dict[str, float | None]:
        """Estimate the relative standard errors of totals over all tasks.

        A total is estimated by the ratio estimator for cluster samples: the total of the sample
        times all tasks over those drawn. With G endings drawn without replacement, a fraction f of
        all, totals t_g and numbers of tasks n_g, the relative error is sqrt((1 - f) G / (G - 1) sum
        of (t_g - n_g t / n)^2) / t (Cochran, Sampling Techniques, 1977, section 6.4). None if G is
        1 or the total is 0. `tasks` are those of the sample: job_id, and the columns to sum,
        null as 0.
        """
        ending = pl.col("job_id").cast(pl.String).str.tail(self.letters)
        sums = {name: pl.col(name).sum() for name in tasks.columns if name != "job_id"}
        parts = reduce_frame(tasks.with_columns(ending), ("job_id",), **sums, **{".n": pl.len()})
        n = parts[".n"].cast(pl.Float64).to_numpy()
        left = (1 - len(self.endings) / self.n_endings) * len(n) / max(len(n) - 1, 1)
        errors: dict[str, float | None] = {}
        for total in parts.drop("job_id", ".n"):
            t = total.cast(pl.Float64).to_numpy()
            off = t - n * (t.sum() / n.sum())
            has_spread = len(t) > 1 and t.sum() > 0
            errors[total.name] = (
                float(np.sqrt(left * (off**2).sum()) / t.sum()) if has_spread else None
            )
        return errors


def draw_jobs(tasks: IntoFrame, /, *, max_tasks: int, noun: str = "tasks") -> JobSample:
    """Draw endings of job_id at random until their jobs would exceed `max_tasks` tasks.

    Endings have three characters, or more if fewer than 50 of them would be drawn.
    """
    rows = admit_columns(tasks, ("job_id",))
    for letters in _LETTERS:
        parts = reduce_frame(rows.select(ending=_ending(letters)), ("ending",), tasks=nw.len())
        table = parts.drop_nulls("ending")
        mixed = table[np.random.default_rng(SEED).permutation(table.height)]
        within = int((mixed["tasks"].cum_sum() <= max_tasks).sum())
        if within >= _MIN_ENDINGS:
            break
    chosen = mixed.head(max(within, 1)).sort("ending")
    drawn, total = (int(each["tasks"].sum()) for each in (chosen, parts))
    return JobSample(tuple(chosen["ending"]), letters, table.height, drawn, total, noun)


def _ending(letters: int) -> nw.Expr:
    return nw.col("job_id").cast(nw.String).str.tail(letters)
