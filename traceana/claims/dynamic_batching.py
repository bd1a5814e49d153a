"""Dynamic batching on heterogeneous workers (Tyagi and Sharma, ACSOS'20).

The hardware cannot be had. What can be judged is the throughput ratio that a gain implies under
the authors' model, what the devices' peak FLOPS (their estimate of throughput) allow, and what the
controller does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, not_testable
from traceana.claims.printed import span
from traceana.simulate import published_gains, replay_batching, simulate_batching
from traceana.simulate.batching.devices import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.store.session import Session

_PAPER: Final = "dynamic-batching"
_SAMPLES: Final = ("alibaba-minibatch-2020", "worker_samples")
_NEAR: Final = 0.05
"""Times are near-equal where the slowest worker takes at most this share more than the mean."""


def _gains(_session: Session) -> pl.DataFrame:
    return published_gains()


def _gain(session: Session, name: str) -> dict[str, Any]:
    return session.once(_gains).filter(id=name).row(0, named=True)


def _of_cores(name: str) -> Callable[[Session], Judgement]:
    """Judge a slowdown on CPU workers: the paper's split of cores is not printed with it."""

    def judge(session: Session) -> Judgement:
        found = _gain(session, name)
        times = found["published"]
        measured = (
            f"needs a slowest worker of 1/{times:g} of the mean throughput: at equal total cores, "
            f"1/{times:g} of its even share"
        )
        if found["is_plausible"]:
            return not_testable(
                measured,
                "The model bears it if cores are split unevenly enough; which split was used is "
                "not said with it, and the cluster cannot be had.",
            )
        return decide(
            holds=False, measured=measured, note="No split of cores that is known of gives it."
        )

    return judge


def _of_devices(name: str) -> Callable[[Session], Judgement]:
    """Judge a gain on devices: where both are named, their FLOPS bound it."""

    def judge(session: Session) -> Judgement:
        found = _gain(session, name)
        gain, most = found["published"], found["largest_gain"]
        both_named = "xeon" not in found["devices"]
        measured = (
            f"implies a throughput ratio of {found['ratio']:.2f}; peak FLOPS differ by "
            f"{found['flops_ratio']:.2f}, worth {most:.2f}x at most"
        )
        evidence = session.once(_gains).filter(id=name).drop("note")
        if both_named and gain > most and not found["is_plausible"]:
            return decide(
                holds=False,
                measured=measured,
                note="The model cannot bear it at the ratio of the devices' peak single-precision "
                "FLOPS, the paper's own estimate of throughput, nor at half as much again.",
                evidence=evidence,
            )
        why = (
            "The model bears it"
            if gain <= most
            else "The model bears it only with a CPU slower than assumed"
        )
        if not both_named:
            why += "; the Xeon is not named, so that its FLOPS are assumed"
        return not_testable(measured, f"{why}, and the devices cannot be had.", evidence=evidence)

    return judge


def _judge_equalises(_session: Session) -> Judgement:
    rows = []
    for name, cores in LEVELS.items():
        if len(set(cores)) == 1:
            continue
        workers = [(0.0, float(each)) for each in cores]
        result = simulate_batching(workers, controller="proportional")
        last = result.batches.filter(step=result.batches["step"].max())["iteration_s"].to_numpy()
        first = result.batches.filter(step=0)["iteration_s"].to_numpy()
        excess = (float(times.max() / times.mean()) - 1 for times in (first, last))
        rows.append((name, *excess))
    table = pl.DataFrame(rows, schema=["cores", "excess_first", "excess_last"], orient="row")
    _, most = span(table["excess_last"])
    return decide(
        holds=most <= _NEAR,
        measured=f"the slowest worker takes at most {100 * most:.1f} % more than the mean (before: "
        f"{_percent(table['excess_first'])})",
        note=f"Simulated: the proportional controller on {table.height} uneven splits of 48 cores "
        f"of constant speed; it holds up to {100 * _NEAR:.0f} %; what is left is whole samples.",
        evidence=table,
    )


def _judge_open_loop(session: Session) -> Judgement:
    names = ("measured", "proportional")
    replay = replay_batching(session.scan(*_SAMPLES), controllers=(*names, "oracle")).jobs
    saved = (
        replay.filter(pl.col("controller").is_in(names))
        .pivot("controller", index="job_id", values="of_possible")
        .drop_nulls()
    )
    less = saved.filter(pl.col("measured") < pl.col("proportional")).height
    once, always = (_percent(saved[name]) for name in names)
    return decide(
        holds=less == saved.height,
        measured=f"one adjustment saves {once} of what can be saved, adjusting always {always}; "
        f"less in {less} of {saved.height} jobs",
        note="Replay of recorded workers, whose throughput changes: the one adjustment is by the "
        "first times measured, and what can be saved is what hindsight saves at each tick.",
        evidence=saved,
    )


def _percent(shares: pl.Series) -> str:
    low, high = span(shares)
    return f"{100 * low:.0f} % to {100 * high:.0f} %"


def _claim(
    name: str,
    statement: str,
    published: str,
    judge_of: Callable[[str], Callable[[Session], Judgement]],
) -> Claim:
    return Claim(name, _PAPER, statement, published, (), judge_of(name), "published_gains")


CLAIMS: Final = (
    _claim(
        "batching-hetero-resnet",
        "ResNet-50 and a one-layer CNN take 3x the time on a heterogeneous cluster", "3x",
        _of_cores,
    ),
    _claim("batching-hetero-linreg", "linear regression takes 2x", "2x", _of_cores),
    _claim(
        "batching-cpu-gpu-resnet", "P100 + 48-core Xeon: ResNet-50 improves 4x", "4x", _of_devices,
    ),
    _claim("batching-cpu-gpu-cnn", "P100 + 48-core Xeon: CNN improves 1.2x", "1.2x", _of_devices),
    _claim("batching-gpu-resnet", "2 T4 + 2 P4: ResNet-50 improves 4.5x", "4.5x", _of_devices),
    _claim("batching-gpu-cnn", "2 T4 + 2 P4: CNN improves 2.1x", "2.1x", _of_devices),
    Claim(
        "batching-equalises", _PAPER, "near-equal iteration time on all workers", "near-equal", (),
        _judge_equalises, "simulate_batching",
    ),
    Claim(
        "batching-open-loop-not-enough", _PAPER,
        "one adjustment by estimated throughput is not enough when resources change",
        "not enough", (_SAMPLES,), _judge_open_loop, "replay_batching",
    ),
)  # fmt: skip
