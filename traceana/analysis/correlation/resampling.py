"""The rows of a group with the clusters drawn of them, the same draws for every pair."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST
from traceana.errors import DataError
from traceana.stats.cluster_correlation import Draws, count_distinct, draw_clusters
from traceana.stats.correlation import correlation, spearman_of_groups, weighted_ranks
from traceana.stats.jackknife import pearson_jackknife
from traceana.stats.null_correlation import Null, null_correlations

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from traceana.analysis.correlation.pairs import Pair

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

_MANY: Final = 50_000  # rows, from which on Polars groups them faster than numpy sorts them


@dataclass(frozen=True)
class PairRows:
    """The usable rows of one pair in one group, and the draws of their clusters, if any are drawn.

    It tells what :class:`traceana.analysis.correlation.pairs.PairSums` does, by every method.
    """

    x: Floats
    y: Floats
    rank: Floats | None
    """Of y, if it is asked for."""
    n: int
    n_missing: int
    clusters: Whole
    draws: Draws | None
    seed: int

    @cached_property
    def held(self) -> dict[str, Any]:
        """How many rows there are, and the ends of those that are usable."""
        return {
            "n": self.n,
            "n_missing": self.n_missing,
            "n_beyond": self.n - len(self.x),
            "x_low": self.x.min(initial=np.inf),
            "x_high": self.x.max(initial=-np.inf),
            "y_low": self.y.min(initial=np.inf),
            "y_high": self.y.max(initial=-np.inf),
        }

    @cached_property
    def points(self) -> pl.DataFrame:
        """[x, size, mean, rank]: each distinct x in order, its rows, and their mean y and rank."""
        means = {"mean": self.y} | ({} if self.rank is None else {"rank": self.rank})
        if len(self.x) < _MANY:
            x, at, size = np.unique(self.x, return_inverse=True, return_counts=True)
            found = {name: np.bincount(at, of) / size for name, of in means.items()}
            return pl.DataFrame({"x": x, "size": size, **found})
        grouped = pl.LazyFrame({"x": self.x, **means}).group_by("x")
        points = grouped.agg(pl.len().alias("size"), pl.exclude("x").mean())
        return points.sort("x").collect(engine="streaming")

    def over_rows(self, method: str, /) -> tuple[float, float | None]:
        """Return a coefficient over rows, and of Pearson's its error on Fisher's scale."""
        if method == "pearson":
            r, error = pearson_jackknife(self.x, self.y)
            return r, None if np.isnan(error) else error
        if self.rank is None or method == "kendall":
            return correlation(self.x, self.y, method=method), None
        away = self.rank - (len(self.x) + 1) / 2
        x, size, rank = (self.points[name].to_numpy() for name in ("x", "size", "rank"))
        return spearman_of_groups(x, size, rank, float(away @ away)), None

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
    """The rows of a group (NaN is missing), whose cluster each is, and the draws of these."""

    values: dict[str, Floats]
    ranked: bool
    clusters: Whole
    draws: Draws | None
    seed: int
    _ranks: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def draw(
        cls,
        rows: pl.DataFrame,
        names: Sequence[str],
        /,
        *,
        measures: Iterable[str],
        ranked: bool,
        resamples: int,
        rng: np.random.Generator,
    ) -> GroupRows:
        """Draw the clusters that columns name (together); without a name nothing is drawn."""
        for name in names:
            if missing := rows[name].null_count():
                raise DataError(
                    f"cluster {name} is null in {missing} row(s): fill it or leave them out"
                )
        values = {name: rows[name].to_numpy() for name in measures}
        if not names or rows.is_empty():
            return cls(values, ranked, np.empty(0, dtype=np.int64), None, 0)
        # numbered in the order of their names: every engine's rows come in an order of its own
        of = rows.select(pl.struct(names).rank("dense") - 1).to_series().to_numpy()
        clusters = of.astype(np.int64)
        draws = draw_clusters(clusters, resamples=resamples, rng=rng)
        return cls(values, ranked, clusters, draws, int(rng.integers(2**62)))

    def of_pair(self, pair: Pair, /) -> PairRows:
        """Return the rows with both values within plus and minus ``LARGEST``."""
        x, y = (self.values[name] for name in pair)
        keep = (np.abs(x) <= LARGEST) & (np.abs(y) <= LARGEST)  # False of NaN
        n, n_missing = len(x), int(np.count_nonzero(np.isnan(x) | np.isnan(y)))
        clusters, draws = self.clusters, self.draws
        if not keep.all():
            x, y = x[keep], y[keep]
            if draws:
                clusters, draws = clusters[keep], replace(draws, cells=draws.cells[keep])
        rank = self._rank(pair[1], y) if self.ranked else None
        return PairRows(x, y, rank, n - n_missing, n_missing, clusters, draws, self.seed)

    def _rank(self, name: str, y: Floats) -> Floats:
        """Return ranks of the usable values of y, once for all x that leave out none of them."""
        if len(y) < np.count_nonzero(~np.isnan(self.values[name])):
            return weighted_ranks(y)
        if name not in self._ranks:
            self._ranks[name] = weighted_ranks(y)
        return self._ranks[name]
