"""Microsoft's ITP clusters, and the plans that ElasticFlow (ASPLOS'23) generated for their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide
from traceana.claims.rounding import agrees, span
from traceana.questions.deadlines.plans import rates, rules
from traceana.questions.workload.summary import workload_summary

if TYPE_CHECKING:
    from traceana.store import Store


_ITP: Final = ("microsoft-itp-2021", "jobs")
_JOBS: Final = ("elasticflow-2023", "jobs")
_PLANS: Final = ("elasticflow-2023", "training_plans")
_TESTBED: Final = "195job"
_ALPHA: Final = 0.05


def itp_gpu_hours(store: Store, _claim: Claim) -> float:
    """Sum the GPU-hours."""
    hours: float = workload_summary(store.scan(*_ITP))["gpu_hours"].item()
    return hours


def itp_span(store: Store, claim: Claim) -> Judgement:
    """Compare the length of the clock."""
    submitted, ended = pl.col("submit_s"), pl.col("submit_s") + pl.col("runtime_s")
    jobs = store.scan(*_ITP).select(submitted=submitted / 86_400, ended=ended / 86_400).collect()
    (first, _), (_, last) = span(jobs["submitted"]), span(jobs["ended"])
    return decide(
        holds=agrees(last, claim.values["days"]) and first < 1,
        measured=f"first submission on day {first:.2f}, last end on day {last:.2f}",
    )


def elasticflow_deadline_rule(store: Store, _claim: Claim) -> Judgement:
    """Test the rules of the deadlines."""
    found = store.trace(_PLANS[0]).once(rules)
    of_deadlines = found.filter(pl.col("rule").str.starts_with("tightness"))
    rejected = of_deadlines.filter(pl.col("pvalue_adjusted") < _ALPHA)
    fit = of_deadlines.row(0, named=True)
    left, runtime = pl.col("deadline_s") - pl.col("submit_s"), pl.col("runtime_s")
    jobs = store.scan(*_PLANS).join(store.scan(*_JOBS), on=("cluster", "job_id"))
    # deadlines are cut to whole seconds, so that up to one more may have been left
    outside = jobs.filter((left + 1 <= 0.5 * runtime) | (left >= 1.5 * runtime)).collect().height
    return decide(
        holds=rejected.is_empty() and not outside,
        measured=f"(deadline - submission) / runtime is uniform on [0.5, 1.5): {outside} of "
        f"{fit['n']:,} plans outside, KS distance {fit['value']:.4f} (p = {fit['pvalue']:.2f})",
        note="The rule: that distribution, and no dependence on runtime, GPUs, submission, model "
        "or batch size. No test rejects it."
        if rejected.is_empty() and not outside
        else "The rule that was tested does not hold"
        + (f": {'; '.join(rejected['rule'])} is rejected." if len(rejected) else " for all plans."),
        evidence=found,
    )


def elasticflow_iterations_random(store: Store, _claim: Claim) -> Judgement:
    """Count the iterations that follow from other columns."""
    found = store.trace(_PLANS[0]).once(rules)
    determined = found.filter(rule="iterations are floor(rate * runtime)").row(0, named=True)
    n, fraction = determined["n"], determined["value"]
    cells = store.trace(_PLANS[0]).once(rates)
    return decide(
        holds=fraction < 0.5,
        measured=f"{round(fraction * n):,} of {n:,} are floor(rate * runtime), with "
        f"{cells['is_one_rate'].sum()} rates for {cells.height} (model, batch size, GPUs)",
        note="Iterations follow from model, batch size, GPUs and runtime; model and batch size "
        "were drawn."
        if fraction >= 0.5
        else "Few follow from model, batch size, GPUs and runtime.",
        evidence=found,
    )


def elasticflow_testbed(store: Store, claim: Claim) -> Judgement:
    """Find the jobs of the testbed among those of the clusters."""
    plans, jobs = store.scan(*_PLANS).collect(), store.scan(*_JOBS).collect()
    listed = plans.filter(cluster=_TESTBED)
    beside = listed.join(
        plans.filter(pl.col("cluster") != _TESTBED), on="job_id", suffix="_there"
    ).join(jobs, left_on=("cluster_there", "job_id"), right_on=("cluster", "job_id"))
    names = ("model", "batch_size", "iterations", "deadline_s")
    same = {name: (beside[name] == beside[f"{name}_there"]).sum() for name in names}
    cells = (
        store.trace(_PLANS[0]).once(rates).select("model", "batch_size", "gpus", "iterations_per_s")
    )
    implied = (pl.col("iterations_per_s") * pl.col("runtime_s")).floor()
    kept = beside.join(cells, on=("model", "batch_size", "gpus")).filter(
        implied == pl.col("iterations")
    )
    clusters = ", ".join(beside["cluster_there"].unique().sort())
    parts = ", ".join(f"{name.removesuffix('_s')} {number}" for name, number in same.items())
    return decide(
        holds=agrees(listed.height, claim.published) and beside.height == listed.height,
        measured=f"{listed.height} jobs, {beside.height} of them rows of {clusters or 'no cluster'}"
        f"; equal there: {parts}",
        note=f"GPUs and runtime are the raw rows' (the iterations of {kept.height} follow from "
        "them), but the generated columns were drawn again. That the jobs ran cannot be checked.",
        evidence=pl.DataFrame({"column": list(same), "equal": list(same.values())}),
    )


def example(store: Store, claim: Claim) -> Judgement:
    """Search a printed row: its id, and its values under any id."""
    first, *others = claim.tables
    rows = store.scan(*first)
    for other in others:
        rows = rows.join(store.scan(*other), on=("cluster", "job_id"), maintain_order="left")
    name = claim.values["job_id"]
    values = {column: value for column, value in claim.values.items() if column != "job_id"}
    kept = rows.select("cluster", "job_id", *values)
    same = pl.all_horizontal(pl.col(column) == value for column, value in values.items())
    found = (
        kept.filter(same | (pl.col("job_id") == name)).with_columns(same.alias("same")).collect()
    )
    whole = found.filter("same", job_id=name)
    if len(whole):
        return decide(
            holds=True, measured=f"a row of {whole['cluster'][0]}", note="Every value is compared."
        )
    of_name, of_values = found.filter(job_id=name), found.filter("same")
    parts = [
        f"the printed job_id is in {cluster} with other values"
        for cluster in of_name["cluster"].unique().sort()
    ] + [
        f"the values are in {cluster} under {other}"
        for cluster, other in of_values.select("cluster", "job_id").rows()
    ]
    return decide(
        holds=False,
        measured=f"no such row; {'; '.join(parts) or 'neither its job_id nor its values'}",
        note="The printed job_id belongs to another job."
        if len(of_name)
        else "No row has the printed job_id.",
        evidence=found.drop("same"),
    )
