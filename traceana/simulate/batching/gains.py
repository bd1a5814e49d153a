"""Throughput ratios that published speedups imply."""

from __future__ import annotations

from itertools import permutations
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.devices import DEVICES, LEVELS
from traceana.simulate.batching.tables import PublishedGains
from traceana.stats.arguments import is_number
from traceana.tables.declare import declared, returns, schema_of

OVERHEADS: Final = (0.0, 0.1, 0.2)
"""Overheads, as fractions of the uniform step, for which ratios are computed."""

_TOLERANCE: Final = 1.5
"""Factor from the FLOPS ratio within which a throughput ratio is plausible."""

# claim, gain, fast device and how many, slow device and how many
_GAINS: Final = (
    ("batching-cpu-gpu-resnet", 4.0, "p100", 1, "xeon-48", 1),
    ("batching-cpu-gpu-cnn", 1.2, "p100", 1, "xeon-48", 1),
    ("batching-gpu-resnet", 4.5, "t4", 2, "p4", 2),
    ("batching-gpu-cnn", 2.1, "t4", 2, "p4", 2),
)
_SLOWDOWNS: Final = (("batching-hetero-resnet", 3.0), ("batching-hetero-linreg", 2.0))


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
    """Compare each published speedup with the throughput ratio that it implies.

    Speedups of Tyagi and Sharma (ACSOS'20), devices of :data:`DEVICES`.

    Returns
    -------
    DataFrame
        With the columns
        {columns}

        The two slowdowns are those of three CPU workers with 48 cores in all, one of them slow:
        largest_gain is that of the most uneven split of :data:`LEVELS`, and is_plausible states
        whether any of these gives it.

    Examples
    --------
    >>> import traceana
    >>> gains = traceana.published_gains()
    >>> gains.select("published", "ratio", "is_plausible").head(2).rows()
    [(4.0, 7.0, False), (1.2, 1.4, False)]
    """
    tflops = dict(DEVICES.select("device", "tflops").iter_rows())
    rows = []
    for name, gain, quick, fast, weak, slow in _GAINS:
        implied = [
            implied_throughput_ratio(gain, fast=fast, slow=slow, overhead_share=share)
            for share in OVERHEADS
        ]
        ratio, by_flops = implied[0], tflops[quick] / tflops[weak]
        assert ratio is not None  # noqa: S101 - there is one wherever there is no overhead
        plausible = by_flops / _TOLERANCE <= ratio <= by_flops * _TOLERANCE
        most = largest_gain(by_flops, fast=fast, slow=slow)
        note = f"{fast} {quick} at {ratio:.2f} times the throughput of {slow} {weak}" + (
            "" if plausible else f"; their FLOPS differ by {by_flops:.2f}, worth {most:.2f} at most"
        )
        overhead = _overhead(gain, most)
        devices = f"{fast} {quick} + {slow} {weak}"
        pairs = _pairs(tflops, gain, fast, slow)
        rows.append(
            (name, gain, devices, *implied, by_flops, most, plausible, note, overhead, pairs)
        )
    rows += [_slowdown(name, times) for name, times in _SLOWDOWNS]
    table = pl.DataFrame(rows, schema=schema_of(PublishedGains), orient="row")
    return declared(table, PublishedGains)


def _slowdown(name: str, times: float) -> tuple[object, ...]:
    """Compare a slowdown with mean(x) / min(x) at equal total cores."""
    by_level = {level: sum(cores) / len(cores) / min(cores) for level, cores in LEVELS.items()}
    reach = [level for level, ratio in by_level.items() if ratio >= times]
    note = f"cores split {reach[0]} or less evenly give it" if reach else "no split of ours does"
    note += f"; of three workers, the slowest has {48 / 3 / times:.1f} of 48 cores"
    implied = [
        implied_throughput_ratio(times, fast=2, slow=1, overhead_share=share) for share in OVERHEADS
    ]
    largest = max(by_level.values())
    return name, times, "2 + 1 CPU workers", *implied, None, largest, bool(reach), note, None, None


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
