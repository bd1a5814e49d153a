"""FGD (ATC'23): jobs of the openb trace that share GPUs, and their placement."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide
from traceana.questions.scheduling.placement import SEEDS, placement_runs, reversed_pairs
from traceana.simulate.placement.sweep import summarize_placement

if TYPE_CHECKING:
    from traceana.store.session import Session

_TRACE: Final = "alibaba-openb-2023"
_PRINTED_SEEDS: Final = 10
_WITH_GPUS: Final = pl.col("gpus") > 0


def thousands(session: Session, claim: Claim) -> Judgement:
    """Compare a total of the machines with a number printed in thousands."""
    machines = session.scan(_TRACE, "machines").filter(_WITH_GPUS)
    totals = {"gpu_machines": pl.len(), "gpus": pl.col("gpus").sum(), "cores": pl.col("cpus").sum()}
    value = machines.select(totals[claim.values["aggregate"]]).collect().item()
    printed = int(claim.published.replace(",", ""))
    step = 1000 if printed % 1000 == 0 else 100
    return decide(holds=round(value / step) * step == printed, measured=f"{value:,.0f}")


def _of_sharing(session: Session, condition: pl.Expr) -> float:
    """Return the percentage of the tasks that share a GPU for which a condition holds."""
    sharing = session.scan(_TRACE, "jobs").filter(_WITH_GPUS, pl.col("gpus") < 1)
    percent: float = sharing.select(100 * condition.mean()).collect().item()
    return percent


def shares_below(session: Session, claim: Claim) -> Judgement:
    """Find how many tasks request a small fraction of a GPU."""
    percent = _of_sharing(session, pl.col("gpus") < claim.values["below"])
    return decide(holds=percent <= float(claim.published), measured=f"{percent:.1f} %")


def shares_of(session: Session, claim: Claim) -> Judgement:
    """Find how many tasks request one fraction of a GPU."""
    percent = _of_sharing(session, (pl.col("gpus") - claim.values["gpus"]).abs() < 1e-9)
    return decide(
        holds=abs(percent - float(claim.published)) <= 2,
        measured=f"{percent:.1f} %",
    )


def _summary(session: Session) -> pl.DataFrame:
    return summarize_placement(session.once(placement_runs, _TRACE)).filter(arrived=100)


def _means(session: Session, quantity: str, ties: str = "name") -> dict[str, float]:
    rows = session.once(_summary).filter(ties=ties)
    return dict(rows.select("policy", quantity).iter_rows())


def mean_at_100(session: Session, claim: Claim) -> Judgement:
    """Compare a mean over seeds with the printed one."""
    values: dict[str, Any] = dict(claim.values)
    mean = _means(session, values["quantity"])[values["policy"]]
    error = values["std"] * sqrt(1 / len(SEEDS) + 1 / _PRINTED_SEEDS)
    return decide(
        holds=abs(mean - float(claim.published)) <= 3 * error,
        measured=f"{mean:.2f} % (mean of {len(SEEDS)} seeds)",
        note="Ties by name, where each run names the machines at random.",
        evidence=session.once(_summary),
    )


def saved(session: Session, claim: Claim) -> Judgement:
    """Compare the GPUs that are not allocated with those under another policy."""
    allocated = _means(session, "allocated")
    other = claim.values["against"]
    percent = 100 * (1 - (100 - allocated["fgd"]) / (100 - allocated[other]))
    return decide(
        holds=abs(percent - float(claim.published)) <= claim.values["points"],
        measured=f"{percent:.0f} % of the GPUs that {other} does not allocate",
        note="GPUs not allocated when the jobs have requested 100 % of them. With ties broken at "
        "random, fgd saves none: see fgd-ties.",
    )


def more_gpus(session: Session, claim: Claim) -> Judgement:
    """Count the GPUs that are allocated beyond those of another policy."""
    allocated = _means(session, "allocated")
    other = claim.values["against"]
    gpus = session.scan(_TRACE, "machines").select(pl.col("gpus").sum()).collect().item()
    more = (allocated["fgd"] - allocated[other]) / 100 * gpus
    return decide(
        holds=abs(more - float(claim.published)) <= claim.values["gpus"],
        measured=f"{more:.0f} GPUs more than {other}",
        note="Of the five other policies dotprod is the one that fits the printed number; "
        "random allocates fewer GPUs still.",
    )


def ties_at_random(session: Session, _claim: Claim) -> Judgement:
    """Compare the order of the policies under both rules of ties."""
    means = _means(session, "allocated", "random")
    pairs = reversed_pairs(session.once(_summary))
    ranked = sorted(means, key=lambda policy: -means[policy])
    return decide(
        holds=not pairs,
        measured=f"ties at random: {', '.join(f'{name} {means[name]:.1f} %' for name in ranked)}",
        note="Reversed: " + "; ".join(f"{first} before {second}" for first, second in pairs)
        if pairs
        else "No pair of policies changes its order.",
        evidence=session.once(_summary),
    )
