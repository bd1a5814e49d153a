"""How sure a saving is, from the spread of epochs over the runs of a batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from traceana.stats.bootstrap import RESAMPLES

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    Factors: TypeAlias = dict[int, NDArray[np.float64]]


def resample_epochs(energy: pl.DataFrame, random: np.random.Generator, /) -> Factors:
    """Return, by batch size, the mean epochs of resampled runs over those of all of its runs."""
    batches = energy.select("batch_size", "epochs_of_runs").unique("batch_size").sort("batch_size")
    factors = {}
    for batch_size, epochs in batches.iter_rows():
        drawn = random.choice(np.asarray(epochs, dtype=float), size=(RESAMPLES, len(epochs)))
        factors[batch_size] = drawn.mean(axis=1) / np.mean(epochs)
    return factors


def ratio_interval(
    among: pl.DataFrame, baseline: pl.DataFrame, column: str, factors: Factors, /
) -> tuple[float, float]:
    """Return the 95 % percentile interval of the least of `among` over the baseline.

    Energy and cost are proportional to epochs, so that a resample is a factor a batch size.
    """

    def needed(energy: pl.DataFrame) -> NDArray[np.float64]:
        of_each = [factors[b] * value for b, value in energy[["batch_size", column]].iter_rows()]
        least: NDArray[np.float64] = np.min(of_each, axis=0)
        return least

    low, high = np.quantile(needed(among) / needed(baseline), [0.025, 0.975])
    return float(low), float(high)


def with_one_run(energy: pl.DataFrame, /) -> list[int]:
    """Return the batch sizes that were trained once, of which no spread is known."""
    once = energy.filter(runs=1)["batch_size"].unique().sort()
    return [int(batch_size) for batch_size in once]
