"""Throughput ratios that published speedups imply."""

from __future__ import annotations

from itertools import permutations
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.devices import DEVICES, PUBLISHED
from traceana.simulate.batching.tables import PublishedGains
from traceana.stats.arguments import is_number
from traceana.tables.declare import declared, returns, schema_of

OVERHEADS: Final = (0.0, 0.1, 0.2)
"""Overheads, as fractions of the uniform step, for which ratios are computed."""


def implied_throughput_ratio(
    gain: float, /, *, fast: int = 1, slow: int = 1, overhead_share: float = 0.0
) -> float | None:
    r"""Compute the throughput ratio of workers that a speedup implies.

    Uniform batches take :math:`a + b / x_s`; batches that equalize times take
    :math:`a + K b / (n_f x_f + n_s x_s)`, K being :math:`n_f + n_s`. With overhead
    :math:`a = \varphi (a + b / x_s)`, their ratio g gives

    .. math:: x_f / x_s = \left(K \frac{1 - \varphi}{1 / g - \varphi} - n_s\right) / n_f

    which is :math:`(K g - n_s) / n_f` without overhead.

    Parameters
    ----------
    gain
        Time of uniform batches over time of the best ones, 1 or more.
    fast, slow
        Numbers of fast workers and slow workers.
    overhead_share
        Fraction of the uniform step that no batch size changes, in [0, 1).

    Returns
    -------
    float or None
        None if the overhead alone takes longer than the sped-up step: no ratio is possible.

    Examples
    --------
    >>> import traceana
    >>> traceana.implied_throughput_ratio(1.5)
    2.0
    >>> round(traceana.implied_throughput_ratio(1.5, overhead_share=0.1), 2)
    2.18
    """
    numbers = all(map(is_number, (gain, fast, slow, overhead_share)))
    if not numbers or gain < 1 or min(fast, slow) < 1 or not 0 <= overhead_share < 1:
        raise DataError(
            "a gain is 1 or more, there is a worker or more of each kind, and the overhead's share "
            f"is in [0, 1); found {gain!r}, {fast!r}, {slow!r}, {overhead_share!r}"
        )
    left = 1 / gain - overhead_share
    if left <= 0:
        return None
    return ((fast + slow) * (1 - overhead_share) / left - slow) / fast


def largest_gain(ratio: float, /, *, fast: int = 1, slow: int = 1) -> float:
    """Return mean(x) / min(x) at a throughput ratio: the maximum speedup of any split."""
    return (fast * ratio + slow) / (fast + slow) / min(ratio, 1)


@returns(PublishedGains)
def published_gains() -> pl.DataFrame:
    """Compare each published factor with the throughputs of its cluster.

    Factors and clusters of Tyagi and Sharma (ACSOS'20): CPU cores, or half-precision FLOPS.

    Returns
    -------
    DataFrame
        With the columns
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> gains = traceana.published_gains().filter(id="batching-level-2")
    >>> gains.select("published", pl.col("largest_gain").round(2), "is_plausible").rows()
    [(2.0, 1.44, False)]
    """
    tflops = dict(DEVICES.select("device", "tflops").iter_rows())
    rows = []
    for name, stated in PUBLISHED["gains"].items():
        gain, throughputs = float(stated["factor"]), PUBLISHED["clusters"][stated["cluster"]]
        slowest = min(throughputs)
        others = [each for each in throughputs if each != slowest]
        fast, slow = len(others), len(throughputs) - len(others)
        implied = [
            implied_throughput_ratio(gain, fast=fast, slow=slow, overhead_share=share)
            for share in OVERHEADS
        ]
        differ = sum(others) / fast / slowest
        most = largest_gain(differ, fast=fast, slow=slow)
        plausible = gain <= most
        note = (
            f"{stated['model']}: the throughputs of {stated['cluster']} allow at most "
            f"{most:.2f}, {'which includes' if plausible else 'less than'} the published factor"
        )
        unlike = len(set(throughputs)) > 2
        pairs = None if unlike else _pairs(tflops, gain, fast, slow)
        row = (name, gain, stated["cluster"], *implied, differ, most, plausible, note)
        rows.append((*row, _overhead(gain, most), pairs))
    table = pl.DataFrame(rows, schema=schema_of(PublishedGains), orient="row")
    return declared(table, PublishedGains)


def _pairs(tflops: dict[str, float], gain: float, fast: int, slow: int) -> str:
    """Return the pairs of devices whose FLOPS allow a gain, the least unlike first."""
    ratios = sorted((tflops[a] / tflops[b], f"{a} and {b}") for a, b in permutations(tflops, 2))
    reach = [
        pair
        for ratio, pair in ratios
        if ratio > 1 and largest_gain(ratio, fast=fast, slow=slow) >= gain
    ]
    return ", ".join(reach) or "none"


def _overhead(gain: float, most: float) -> float | None:
    """Return the overhead at which a speedup of `most` becomes one of `gain`."""
    return None if gain > most else (1 / gain - 1 / most) / (1 - 1 / most)
