"""Dynamic batching on heterogeneous workers (Tyagi and Sharma, ACSOS'20).

The hardware cannot be obtained. What can be measured is what the authors' model allows: at most
mean(x) / min(x) without overhead, and what the controller does with constant throughputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, agrees, decide, not_testable, span
from traceana.simulate import (
    Proportional,
    Smoothed,
    implied_throughput_ratio,
    replay_batching,
    simulate_batching,
    sweep_batching,
)
from traceana.simulate.batching.sweep import largest_gain
from traceana.simulate.batching.workers import LEVELS, PUBLISHED, SPLITS
from traceana.store import Store

_DEAD_BAND: Final = PUBLISHED["dead_band"]
_NOISE: Final = 0.05


def _printed(claim: Claim) -> tuple[list[float], str]:
    """Return the throughputs of the workers of a claim, and its printed factor."""
    stated = PUBLISHED["gains"][claim.id]
    return PUBLISHED["clusters"][stated["cluster"]], stated["factor"]


def _name(split: Sequence[float]) -> str:
    return "/".join(map(str, split))


def split_gain(_store: Store, claim: Claim) -> Judgement:
    """Compare a factor with that of whole batches on a split of cores, and with its bound."""
    split, printed = _printed(claim)
    workers = [(0.0, float(cores)) for cores in split]
    speedup = simulate_batching(workers, controller="oracle").speedup
    bound, factor = sum(split) / len(split) / min(split), float(printed)
    measured = f"{speedup:.3f}x on {_name(split)}; at most {bound:.2f}x"
    holds = agrees(speedup, printed)
    if not holds and factor < bound:
        share = (1 - factor / bound) / (factor - factor / bound)
        return not_testable(
            f"{measured}; {factor:g}x if overhead is {100 * share:.0f} % of an equal-batch step"
        )
    rows = {"worker": list(range(1, len(split) + 1)), "cores": split}
    return decide(holds=holds, measured=measured, evidence=pl.DataFrame(rows))


def devices(_store: Store, claim: Claim) -> Judgement:
    """Compare a gain with that of the ratio of half-precision FLOPS."""
    throughputs, printed = _printed(claim)
    gain, slowest = float(printed), min(throughputs)
    slow = throughputs.count(slowest)
    counts = {"fast": len(throughputs) - slow, "slow": slow}
    flops = [max(throughputs), slowest]
    by_flops = flops[0] / flops[1]
    ratio, most = implied_throughput_ratio(gain, **counts), largest_gain(by_flops, **counts)
    return not_testable(
        f"implies a throughput ratio of {ratio:.2f}; FLOPS differ by {by_flops:.2f}, worth "
        f"{most:.2f}x at most",
        evidence=pl.DataFrame({"device": ["fast", "slow"], "flops": flops}),
    )


def equalises(_store: Store, claim: Claim) -> Judgement:
    """Simulate the controller on a split of cores."""
    _, last = _ends(SPLITS[claim.values["split"]])
    excess = _excess(last)
    return decide(
        holds=excess <= _DEAD_BAND,
        measured=f"the slowest worker takes {100 * excess:.1f} % more than the mean at the end",
        evidence=last,
    )


def _ends(split: Sequence[float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the batches of the proportional controller at the first step and the last change."""
    workers = [(0.0, float(each)) for each in split]
    batches = simulate_batching(workers, controller="proportional").batches
    return batches.filter(step=0), batches.filter(step=batches["step"].max())


def _excess(batches: pl.DataFrame) -> float:
    """Return by how much the slowest worker takes longer than the mean, as a fraction."""
    times = batches["iteration_s"].to_numpy()
    return float(times.max() / times.mean()) - 1


def two_adjustments(_store: Store, claim: Claim) -> Judgement:
    """Count the adjustments of the controller with the paper's dead-band."""
    rows = []
    for name in claim.values["splits"]:
        workers = [(0.0, float(each)) for each in SPLITS[name]]
        result = simulate_batching(workers, controller=Smoothed())
        rows.append((_name(SPLITS[name]), result.adjustments))
    table = pl.DataFrame(rows, schema=["cores", "adjustments"], orient="row")
    low, high = span(table["adjustments"])
    return decide(
        holds=high <= claim.values["most"],
        measured=f"{low:g} to {high:g} adjustments on {table.height} splits",
        evidence=table,
    )


def oscillates(_store: Store, claim: Claim) -> Judgement:
    """Compare adjustments with and without a dead-band."""
    split = SPLITS[claim.values["split"]]
    bands = {"none": 0.0, "5 %": _DEAD_BAND}
    sweep = sweep_batching(
        {_name(split): split},
        controllers=[
            Proportional(dead_band=band, averages=True, name=name) for name, band in bands.items()
        ],
        overheads_s=(0.0,),
        noise_cvs=(_NOISE,),
        seeds=range(5),
    )
    means = sweep.group_by("controller").agg(pl.col("adjustments").mean()).sort("controller")
    mean_of = dict(means.iter_rows())
    return decide(
        holds=mean_of["none"] > 10 * mean_of["5 %"],
        measured=f"{mean_of['none']:.0f} adjustments in 200 steps without a dead-band, "
        f"{mean_of['5 %']:.0f} with one",
        evidence=means,
    )


def quotient(_store: Store, claim: Claim) -> Judgement:
    """Divide two printed numbers."""
    first, second = claim.values["of"]
    value, least = first / second, claim.values.get("more_than")
    holds = value > least if least else agrees(value, claim.values["is"])
    rows = pl.DataFrame({"dividend": [first], "divisor": [second], "quotient": [value]})
    return decide(holds=holds, measured=f"{value:.2f}", evidence=rows)


def batching_equalises(_store: Store, _claim: Claim) -> Judgement:
    """Simulate the controller on uneven splits of cores."""
    uneven = {name: split for name, split in LEVELS.items() if len(set(split)) > 1}
    rows = [(name, *map(_excess, _ends(split))) for name, split in uneven.items()]
    table = pl.DataFrame(rows, schema=["cores", "excess_first", "excess_last"], orient="row")
    return decide(
        holds=True,
        measured=f"the slowest worker takes at most {100 * span(table['excess_last'])[1]:.1f} % "
        f"more than the mean (before: {_percent(table['excess_first'])}) on {table.height} uneven "
        "splits of cores",
        evidence=table,
    )


def open_loop(store: Store, claim: Claim) -> Judgement:
    """Compare one adjustment with continual adjustment of recorded workers."""
    names = ("measured", "proportional")
    samples = store.scan(*claim.tables[0])
    replay = replay_batching(samples, controllers=(*names, "oracle")).jobs
    saved = (
        replay.filter(pl.col("controller").is_in(names))
        .pivot("controller", index="job_id", values="of_possible")
        .drop_nulls()
    )
    less = saved.filter(pl.col("measured") < pl.col("proportional")).height
    once, always = (_percent(saved[name]) for name in names)
    return decide(
        holds=less == saved.height,
        measured=f"one adjustment saves {once} of the possible saving, continual adjustment "
        f"{always}; less in {less} of {saved.height} jobs",
        evidence=saved,
    )


def _percent(fractions: pl.Series) -> str:
    low, high = span(fractions)
    return f"{100 * low:.0f} % to {100 * high:.0f} %"
