"""Dynamic batching on heterogeneous workers (Tyagi and Sharma, ACSOS'20).

The hardware cannot be obtained. What can be measured is the throughput ratio that a gain implies
under the authors' model, and what the controller does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, not_testable
from traceana.claims.rounding import span
from traceana.simulate import published_gains, replay_batching, simulate_batching
from traceana.simulate.batching.devices import LEVELS

if TYPE_CHECKING:
    from traceana.store import Store


def cores(_store: Store, claim: Claim) -> Judgement:
    """Return what a slowdown on CPU workers needs; the split of cores was not published."""
    found = published_gains().filter(id=claim.id).row(0, named=True)
    times = found["published"]
    return not_testable(
        f"needs a slowest worker of 1/{times:g} of the mean throughput: at equal total cores, "
        f"1/{times:g} of an equal split",
        f"Under the model, {'an' if found['is_plausible'] else 'only an extremely'} uneven split "
        "of cores has this slowdown; the split was not published, and the cluster is not "
        "available.",
    )


def devices(_store: Store, claim: Claim) -> Judgement:
    """Return the throughput ratio that a gain implies, beside that of the peak FLOPS."""
    evidence = published_gains().filter(id=claim.id)
    found = evidence.row(0, named=True)
    gain, most = found["published"], found["largest_gain"]
    by_flops = (
        "is within what peak FLOPS allow under the model"
        if gain <= most
        else "is above what peak FLOPS allow under the model, so FLOPS cannot be the throughput"
    )
    assumed = (
        "; the Xeon is not named, so its FLOPS are assumed" if "xeon" in found["devices"] else ""
    )
    return not_testable(
        f"implies a throughput ratio of {found['ratio']:.2f}; peak FLOPS differ by "
        f"{found['flops_ratio']:.2f}, worth {most:.2f}x at most",
        f"The gain {by_flops}{assumed}. The throughputs were not published, and the devices are "
        "not available.",
        evidence=evidence.drop("note"),
    )


def batching_equalises(_store: Store, _claim: Claim) -> Judgement:
    """Simulate the controller on uneven splits of cores."""
    rows = []
    for name, split in LEVELS.items():
        if len(set(split)) == 1:
            continue
        workers = [(0.0, float(each)) for each in split]
        batches = simulate_batching(workers, controller="proportional").batches
        last = batches.filter(step=batches["step"].max())["iteration_s"].to_numpy()
        first = batches.filter(step=0)["iteration_s"].to_numpy()
        rows.append((name, *(float(times.max() / times.mean()) - 1 for times in (first, last))))
    table = pl.DataFrame(rows, schema=["cores", "excess_first", "excess_last"], orient="row")
    return decide(
        holds=True,
        measured=f"the slowest worker takes at most {100 * span(table['excess_last'])[1]:.1f} % "
        f"more than the mean (before: {_percent(table['excess_first'])}) on {table.height} uneven "
        "splits of 48 cores",
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
