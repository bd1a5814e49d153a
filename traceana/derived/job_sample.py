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
"""A trace with no more is analysed whole, as the published PAI trace is."""
SAMPLED_TASKS: Final = 1_000_000
"""Of a trace with more, jobs are drawn that have about so many."""
SEED: Final = 1
_LETTERS: Final = (3, 4, 5)
"""Three at the end of a job's id are some thousand endings of digests, and of counted ids."""
_FEWEST: Final = 50


@dataclass(frozen=True)
class JobSample:
    """The jobs whose id ends in one of some endings, which were drawn at random.

    So each table says by itself which of its rows are in, whatever engine reads it, and nothing
    of the size of the trace is held to know it.

    Attributes
    ----------
    endings
        The endings drawn.
    letters
        How many an ending has.
    n_endings
        How many endings there are.
    drawn, tasks
        Tasks of the jobs drawn, and of all jobs.
    """

    endings: tuple[str, ...]
    letters: int
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
        drawn: IntoFrameT = rows.filter(_ending(self.letters).is_in(list(self.endings))).to_native()
        return drawn

    def relative_errors(self, tasks: pl.DataFrame, /) -> dict[str, float | None]:
        """Standard errors of totals over all tasks, estimated from this sample, over those totals.

        A total is that of the sample times all tasks over those drawn. The endings are the units
        that were drawn without replacement, and the total t_g of each is held against what its
        number of tasks n_g lets expect (Cochran, Sampling Techniques, 1977, section 6.4):
        sqrt((1 - f) G / (G - 1) sum of (t_g - n_g t / n)^2) / t, of the share f of the endings,
        which is G of them. None where G is 1 or the total is 0.

        Parameters
        ----------
        tasks
            The tasks of the sample: job_id, and what is summed, null as 0.
        """
        ending = pl.col("job_id").cast(pl.String).str.tail(self.letters)
        parts = tasks.group_by(ending).agg(pl.exclude("job_id").sum(), pl.len().alias(".n"))
        n = parts[".n"].cast(pl.Float64).to_numpy()
        left = (1 - len(self.endings) / self.n_endings) * len(n) / max(len(n) - 1, 1)
        errors: dict[str, float | None] = {}
        for total in parts.drop("job_id", ".n"):
            t = total.cast(pl.Float64).to_numpy()
            off = t - n * (t.sum() / n.sum())
            known = len(t) > 1 and t.sum() > 0
            errors[total.name] = float(np.sqrt(left * (off**2).sum()) / t.sum()) if known else None
        return errors


def draw_jobs(tasks: IntoFrame, /, *, most: int) -> JobSample:
    """Draw endings of job_id at random until their jobs would have more than `most` tasks.

    Endings have three letters; more in a trace so large that few endings would be drawn.

    Parameters
    ----------
    tasks
        One row a task: [job_id]; eager or lazy, of any listed engine.
    most
        Tasks that the sample may have; it has at least one ending all the same.
    """
    rows = admit_columns(tasks, ("job_id",))
    for letters in _LETTERS:
        parts = reduce_frame(rows.select(ending=_ending(letters)), ("ending",), tasks=nw.len())
        known = parts.drop_nulls("ending")
        mixed = known[np.random.default_rng(SEED).permutation(known.height)]
        within = int((mixed["tasks"].cum_sum() <= most).sum())
        if within >= _FEWEST:
            break
    chosen = mixed.head(max(within, 1)).sort("ending")
    drawn, total = (int(each["tasks"].sum()) for each in (chosen, parts))
    return JobSample(tuple(chosen["ending"]), letters, known.height, drawn=drawn, tasks=total)


def _ending(letters: int) -> nw.Expr:
    return nw.col("job_id").cast(nw.String).str.tail(letters)
