"""A repeatable sample of whole jobs, of a trace with more tasks than are analysed one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import admit_columns, reduce_frame

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

MOST_TASKS: Final = 1_300_000
"""Of a trace with more tasks a sample has about so many; the published PAI trace has fewer."""
SEED: Final = 1
_LETTERS: Final = 3
"""At the end of a job's id: some thousand endings of digests, and of counted ids as well."""


@dataclass(frozen=True)
class JobSample:
    """The jobs whose id ends in one of some endings, which were drawn at random.

    So each table says by itself which of its rows are in, whatever engine reads it, and nothing
    of the size of the trace is held to know it.

    Attributes
    ----------
    endings
        The endings drawn.
    n_endings
        How many there are.
    drawn, tasks
        Tasks of the jobs drawn, and of all jobs.
    """

    endings: tuple[str, ...]
    n_endings: int
    drawn: int
    tasks: int

    @property
    def share(self) -> float:
        """Of the tasks, how many are in it."""
        return self.drawn / self.tasks

    @property
    def told(self) -> str:
        """What is in it, in words."""
        return (
            f"the {self.drawn:,} of {self.tasks:,} tasks ({100 * self.share:.1f} %) that belong to "
            f"jobs drawn whole, by the end of their id (seed {SEED})"
        )

    def rows_of(self, frame: IntoFrameT, /) -> IntoFrameT:
        """Return the rows of a table with a job_id that are in it; lazy where the table is."""
        rows: nw.LazyFrame[Any] = nw.from_native(frame)
        drawn: IntoFrameT = rows.filter(_ending().is_in(list(self.endings))).to_native()
        return drawn

    def relative_error(self, jobs: pl.DataFrame, total: str, /) -> float:
        """Standard error of a total over all tasks, estimated from this sample, over that total.

        The total is that of the sample times all tasks over those drawn. The endings are the units
        that were drawn without replacement, and the total t_g of each is held against what its
        number of tasks n_g lets expect (Cochran, Sampling Techniques, 1977, section 6.4):
        sqrt((1 - f) G / (G - 1) sum of (t_g - n_g t / n)^2) / t, of the share f of the endings,
        which is G of them.

        Parameters
        ----------
        jobs
            The tasks of the sample: [job_id, `total`]; null counts as 0.
        total
            What is summed.
        """
        ending = pl.col("job_id").cast(pl.String).str.tail(_LETTERS)
        parts = jobs.group_by(ending).agg(n=pl.len(), t=pl.col(total).sum())
        n, t = (parts[name].cast(pl.Float64).to_numpy() for name in ("n", "t"))
        off = t - n * (t.sum() / n.sum())
        drawn = len(t)
        left = 1 - len(self.endings) / self.n_endings
        return float(np.sqrt(left * drawn / (drawn - 1) * (off**2).sum()) / t.sum())


def draw_jobs(tasks: IntoFrame, /, *, most: int) -> JobSample:
    """Draw endings of job_id at random until their jobs would have more than `most` tasks."""
    rows = admit_columns(tasks, ("job_id",)).select(ending=_ending())
    parts = reduce_frame(rows, ("ending",), tasks=nw.len())
    total = int(parts["tasks"].sum())
    known = parts.drop_nulls("ending")
    mixed = known[np.random.default_rng(SEED).permutation(known.height)]
    within = int((mixed["tasks"].cum_sum() <= most).sum())
    chosen = mixed.head(max(within, 1)).sort("ending")
    return JobSample(
        tuple(chosen["ending"]), known.height, drawn=int(chosen["tasks"].sum()), tasks=total
    )


def _ending() -> nw.Expr:
    return nw.col("job_id").cast(nw.String).str.tail(_LETTERS)
