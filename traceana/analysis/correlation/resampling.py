"""The rows of a group with the clusters drawn of them, the same draws for every pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST
from traceana.errors import DataError
from traceana.stats.cluster_correlation import Draws, count_distinct, draw_clusters
from traceana.stats.null_correlation import Null, null_correlations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceana.analysis.correlation.pairs import Pair

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


@dataclass(frozen=True)
class PairRows:
    """The usable rows of one pair, and the draws of their clusters, if any are drawn."""

    x: Floats
    y: Floats
    clusters: Whole
    draws: Draws | None
    seed: int

    def null(self, asked: Sequence[tuple[str, str]], /) -> dict[tuple[str, str], Null]:
        """Return what the (level, method) asked for are by chance; nothing without clusters."""
        if self.draws is None or count_distinct(self.clusters) < 2:
            return {}
        return null_correlations(
            *(self.x, self.y, self.clusters, asked),
            resamples=len(self.draws.counts),
            rng=np.random.default_rng(self.seed),
        )


@dataclass(frozen=True)
class GroupRows:
    """The rows of a group, whose cluster each is, and the draws of these."""

    rows: pl.DataFrame
    clusters: Whole
    draws: Draws | None
    seed: int

    @classmethod
    def draw(
        cls,
        rows: pl.DataFrame,
        names: Sequence[str],
        /,
        *,
        resamples: int,
        rng: np.random.Generator,
    ) -> GroupRows:
        """Draw the clusters that columns name (together); without a name nothing is drawn."""
        for name in names:
            if missing := rows[name].null_count():
                raise DataError(
                    f"cluster {name} is null in {missing} row(s): fill it or leave them out"
                )
        if not names or rows.is_empty():
            return cls(rows, np.zeros(rows.height, dtype=np.int64), None, 0)
        # numbered in the order of their names: every engine's rows come in an order of its own
        of = rows.select(pl.struct(names).rank("dense") - 1).to_series().to_numpy()
        clusters = of.astype(np.int64)
        draws = draw_clusters(clusters, resamples=resamples, rng=rng)
        return cls(rows, clusters, draws, int(rng.integers(2**62)))

    def of_pair(self, pair: Pair, /) -> PairRows:
        """Return the rows with both values within plus and minus ``LARGEST``."""
        x, y = (self.rows[name] for name in pair)
        usable = ((x.abs() <= LARGEST) & (y.abs() <= LARGEST)).fill_null(value=False)
        keep = usable.to_numpy()
        draws = self.draws and replace(self.draws, cells=self.draws.cells[keep])
        a, b = (part.filter(usable).to_numpy() for part in (x, y))
        return PairRows(a, b, self.clusters[keep], draws, self.seed)
