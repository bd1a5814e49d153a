"""What is known of the stragglers of some jobs, and how it prints itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traceana.results.base import Result

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False)
class StragglerResult(Result):
    """Stragglers of some jobs, as :func:`traceana.analysis.detect_stragglers` finds them.

    Attributes
    ----------
    episodes
        One row an episode: stretches in which a worker is slow against its own usual and its
        peers. Empty where there is none.
    levels
        One row a worker: how slow it is all along.
    jobs
        One row a job: what slow workers cost it.
    """

    episodes: pl.DataFrame
    levels: pl.DataFrame
    jobs: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        lines = [
            f"{_count(self.jobs.height, 'job')}, {_count(self.levels.height, 'worker')}",
            f"episodes: {self._episodes()}",
            f"levels:   {self._levels()}",
        ]
        slowdown = self.jobs["slowdown"].drop_nulls()
        if len(slowdown):
            lines.append(
                f"slowdown: {_middle_and_largest(slowdown)} "
                "(sum of the slowest over sum of the mean)"
            )
        notes = self.jobs["note"].value_counts(sort=True).drop_nulls().rows()
        lines += [f"note:     {_count(number, 'job')}: {note!s}" for note, number in notes]
        return "\n".join(lines)

    def _episodes(self) -> str:
        if self.episodes.is_empty():
            return "none"
        severity = self.episodes["severity"]
        return (
            f"{self.episodes.height}, in {(self.jobs['n_episodes'] > 0).sum()} of "
            f"{_count(self.jobs.height, 'job')}; up to {self.episodes['n_at_once'].max()!s} at "
            f"once; severity {_middle_and_largest(severity)}"
        )

    def _levels(self) -> str:
        slow = int(self.levels["is_slow"].sum())
        if not slow:
            return "no worker is slow all along"
        return (
            f"{_count(slow, 'worker')} slow all along, in {(self.jobs['n_slow_workers'] > 0).sum()}"
            f" of {_count(self.jobs.height, 'job')}"
        )


def _middle_and_largest(numbers: pl.Series) -> str:
    middle: Any = numbers.median()
    largest: Any = numbers.max()
    return f"median {middle:.3g}, largest {largest:.3g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
