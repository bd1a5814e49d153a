"""Alibaba's GPU clusters: PAI (MLaaS in the Wild, NSDI'22; task analysis) and openb (FGD, ATC'23).

The analysis of tasks took success for Terminated (completed) and failure for every other status.
A runtime is the last end of a task's instances minus their first start.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, agrees, decide, round_as, span, untested
from traceana.claims.papers import PAPERS
from traceana.cohorts.task_times import END_IMPUTATIONS
from traceana.cohorts.tasks import instance_times, sample_jobs, task_times
from traceana.errors import DataError
from traceana.questions.correlations.analyze import runtime_correlations
from traceana.questions.correlations.points import implied_n
from traceana.questions.failures.runtimes import runtime_by
from traceana.store import Store, Trace

_TRACE: Final = "alibaba-pai-2020"
_FAILURE: Final = ("failed", "cancelled", "running", "pending", "unknown")


def top_users(store: Store, claim: Claim) -> float:
    """Return the percentage of the instances of the users with most instances."""
    instances, tags = (store.scan(*table) for table in claim.tables)
    users = tags.select("inst_id", "user").drop_nulls().unique("inst_id")
    each = instances.join(users, on="inst_id").group_by("user").len().sort("len", descending=True)
    counts = each.collect(engine="streaming")["len"]
    if counts.is_empty():
        raise DataError("no instance has a user")
    top = counts.head(ceil(claim.values["users"] * len(counts)))
    return 100 * float(top.to_numpy().sum() / counts.to_numpy().sum())


def _correlations(trace: Trace) -> pl.DataFrame:
    """Return the correlations over group means under every imputation of missing ends."""
    return pl.concat(
        runtime_correlations(
            task_times(trace, policy).drop("job_id"),
            failure=_FAILURE,
            method="pearson",
            level="group_mean",
        ).table.select(pl.lit(policy).alias("end_imputation"), pl.all())
        for policy in END_IMPUTATIONS
    )


def _runtimes(trace: Trace) -> pl.DataFrame:
    """Return the mean runtimes by GPU type under every imputation of missing ends."""
    success = pl.col("status") == "completed"
    outcome = pl.when(success).then(pl.lit("success")).otherwise(pl.lit("failure"))
    return pl.concat(
        runtime_by(rows, "gpu_type").select(
            pl.lit(policy).alias("end_imputation"), pl.lit(name).alias("outcome"), pl.all()
        )
        for policy in END_IMPUTATIONS
        for (name,), rows in task_times(trace, policy)
        .with_columns(outcome=outcome)
        .group_by("outcome", maintain_order=True)
    )


def correlation(store: Store, claim: Claim) -> Judgement:
    """Compare r and p with those under each imputation of missing ends."""
    printed = {"r": claim.values["r"], "pvalue_t": claim.values["p"]}
    table = (
        store.trace(_TRACE)
        .once(_correlations)
        .filter(outcome=claim.values["outcome"], x=claim.values["x"])
    )
    if not table["r"].count():
        note = table["note"].to_list() or ["no such task"]
        return untested(f"no correlation can be computed: {note[0]}")
    parts = [
        f"{row['end_imputation']}: r = {round_as(row['r'], printed['r'])} "
        f"(p = {round_as(row['pvalue_t'], printed['pvalue_t'])})"
        for row in table.iter_rows(named=True)
    ]
    return _under_policies(
        store, parts, {row["end_imputation"]: row for row in table.to_dicts()}, printed, table
    )


def runtimes(store: Store, claim: Claim) -> Judgement:
    """Compare mean runtimes with those under each imputation of missing ends."""
    printed: dict[str, str] = claim.values["means"]
    rows = store.trace(_TRACE).once(_runtimes).filter(outcome=claim.values["outcome"])
    table = rows.filter(pl.col("gpu_type").is_in(list(printed)))
    means: dict[str, dict[str, Any]] = {policy: {} for policy in END_IMPUTATIONS}
    for policy, gpu, mean in table.select("end_imputation", "gpu_type", "mean_s").rows():
        means[policy][gpu] = mean
    parts = []
    for policy, of in means.items():
        each = [f"{gpu} {round_as(of.get(gpu), mean)}" for gpu, mean in printed.items()]
        parts.append(f"{policy}: {', '.join(each)}")
    return _under_policies(store, parts, means, printed, table)


def _under_policies(
    store: Store,
    parts: list[str],
    measured: Mapping[str, Mapping[str, Any]],
    printed: Mapping[str, str],
    evidence: pl.DataFrame,
) -> Judgement:
    """Decide by the imputations whose values all agree, or name the nearest one."""
    agreeing = {
        policy: sum(agrees(values.get(name), text) for name, text in printed.items())
        for policy, values in measured.items()
    }
    fits = [policy for policy, n in agreeing.items() if n == len(printed)]
    first = next(iter(printed))
    nearest = min(
        measured,
        key=lambda policy: abs((measured[policy].get(first) or 1e99) - float(printed[first])),
    )
    sample = store.trace(_TRACE).once(sample_jobs)
    note = (
        f"The printed numbers fit end_imputation {', '.join(fits)}."
        if fits
        else f"No end_imputation gives the printed numbers; the nearest is {nearest} "
        f"({agreeing[nearest]} of {len(printed)} agree)."
    )
    if sample is not None:
        note += f" Of a sample: {sample.description}."
    return decide(holds=bool(fits), measured="; ".join(parts), note=note, evidence=evidence)


def terminated_runtime(store: Store, _claim: Claim) -> Judgement:
    """Compare the two runtimes of completed tasks."""
    tasks = (
        store.trace(_TRACE)
        .once(instance_times)
        .tasks.filter(
            pl.col("status") == "completed",
            pl.col("n_known") == pl.col("n_instances"),
            pl.col("n_known") > 0,
        )
    )
    both = tasks.drop_nulls(["task_start_s", "task_end_s"]).select(
        task=pl.col("task_end_s") - pl.col("task_start_s"),
        instances=pl.col("last_s") - pl.col("first_s"),
    )
    if both.is_empty():
        return untested("no completed task has both runtimes")
    gap = (both["task"] - both["instances"]).abs()
    same, mean = int((gap < 1).sum()), float(gap.to_numpy().mean())
    sample = store.trace(_TRACE).once(sample_jobs)
    return decide(
        holds=same == both.height,
        measured=f"{same:,} of {both.height:,} are equal to the second; the differences are up to "
        f"{span(gap)[1]:,.0f} s, {mean:,.1f} s on average"
        + (f" (of a sample: {sample.description})" if sample else ""),
        evidence=both.with_columns(difference=gap).sort("difference", descending=True).head(10),
    )


def consistency(_store: Store, _claim: Claim) -> Judgement:
    """Return the number of groups that each printed pair of r and p implies."""
    rows = []
    for claim in PAPERS["pai"].claims:
        if "r" in claim.values:
            r, p = claim.values["r"], claim.values["p"]
            implied = implied_n(r, p)
            rows.append((*claim.id.split("-")[1:], r, p, implied.low, implied.high))
    table = pl.DataFrame(
        rows, schema=["outcome", "feature", "r", "p", "groups_min", "groups_max"], orient="row"
    )
    parts = [
        f"{outcome} {feature} {'none' if low is None else f'{low}-{high}'}"
        for outcome, feature, _, _, low, high in rows
    ]
    return decide(
        holds=not table["groups_min"].null_count(),
        measured=f"groups: {', '.join(parts)}",
        evidence=table,
    )
