"""LLM training jobs of ByteDance (OSDI'25): how slow their steps are, and what explains it."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, not_testable, span, untested
from traceana.errors import DataError
from traceana.questions.operations.analyze import job_names, operations_of
from traceana.questions.stragglers.analyze import attributes_of_jobs
from traceana.simulate.operations.replay import replay_operations, slowdown_by, worker_slowdown
from traceana.simulate.operations.run import prepare
from traceana.store import Store, Trace

_GROUPINGS: Final = ("kind", "stage", "dp_rank")
_RELATIVE: Final = 1e-6
_KEY: Final = ["job", "family", "group", "step"]
_SCHEMA: Final = {
    "job": pl.String,
    "family": pl.String,
    "group": pl.String,
    "step": pl.Int64,
    "value": pl.Float64,
}


def published_numbers() -> pl.DataFrame:
    """Return the published numbers by step: [job, family, group, step, value]."""
    text = files("traceana.claims").joinpath("bytedance-stragglers.csv").read_bytes()
    return pl.read_csv(text, schema=_SCHEMA)


def _numbers(trace: Trace) -> pl.DataFrame:
    """Return the numbers of the result files for every job of a trace, as replayed."""
    rows: list[tuple[str, str, str, int | None, float]] = []
    for job in job_names(trace):
        try:
            model = prepare(operations_of(trace, job))
        except DataError:  # another job than the published ones
            continue
        replayed, workers = replay_operations(model), worker_slowdown(model)
        for step, measured, _, original, ideal, slowdown in replayed.steps.rows():
            rows += [
                (job, "step-times", "measured", step, measured),
                (job, "step-times", "original", step, original),
                (job, "step-times", "ideal", step, ideal),
                (job, "step-slowdowns", "measured", step, measured / original),
                (job, "step-slowdowns", "original", step, slowdown),
            ]
        rows += [
            (job, "slowdowns", "measured", None, replayed.launch_slowdown),
            (job, "slowdowns", "original", None, replayed.slowdown),
        ]
        for by in _GROUPINGS:
            alone = slowdown_by(model, by).select(pl.col(by).cast(pl.String), "slowdown")
            rows += [(job, by, group, None, value) for group, value in alone.rows()]
            both = slowdown_by(model, (by, "step"))
            shown = both.select(pl.col(by).cast(pl.String), "step", "slowdown")
            rows += [(job, f"{by}-by-step", *row) for row in shown.rows()]
        for family, name, row, fraction in zip(
            ("last-stage", "slowest-workers"),
            ("Ms", "Mw"),
            workers.explained.iter_rows(named=True),
            (workers.m_s, workers.m_w),
            strict=True,
        ):
            named = {
                "tori": workers.t_original_s,
                "tideal": workers.t_ideal_s,
                "trem": row["t_removal_s"],
                "tadd": row["t_addition_s"],
                "rem": row["explained_removal"],
                "add": row["explained_addition"],
                name: fraction,
            }
            rows += [(job, family, group, None, value) for group, value in named.items()]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _of_store(store: Store, claim: Claim) -> pl.DataFrame:
    return store.trace(claim.tables[0][0]).once(_numbers)


def quantity(store: Store, claim: Claim) -> Judgement | float | None:
    """Return the slowdown of a job or group, a step time, or a fraction that a group explains."""
    numbers, job = _of_store(store, claim), claim.values["job"]
    if numbers.filter(job=job).is_empty():
        return untested(f"{job} is not among the jobs of {claim.needs[0]}")
    name = claim.values["quantity"]
    families = {"S": "slowdowns", "Mw": "slowest-workers"}
    families |= dict.fromkeys(("Ms", "tori", "tideal"), "last-stage")
    group = claim.values.get("group", "original" if name == "S" else name)
    table = numbers.filter(job=job, family=families.get(name, name), group=group)
    return table["value"][0] if table.height else None


def family(store: Store, claim: Claim) -> Judgement:
    """Compare every number of a family with the replayed one."""
    published = published_numbers().filter(family=claim.values["family"])
    if published.height != claim.numbers:
        raise DataError(f"{claim.id}: {published.height} numbers are published")
    numbers = _of_store(store, claim)
    absent = set(published["job"]) - set(numbers["job"])
    if absent:
        return untested(f"not among the jobs of {claim.needs[0]}: {', '.join(sorted(absent))}")
    both = published.join(
        numbers, on=_KEY, how="left", suffix="_here", nulls_equal=True
    ).with_columns(difference=(pl.col("value_here") / pl.col("value") - 1).abs())
    equal = both.filter(pl.col("difference") <= _RELATIVE).height
    largest = span(both["difference"])[1]
    return decide(
        holds=equal == both.height,
        measured=f"{equal:,} of {both.height:,} equal to 1e-6, the largest relative difference "
        f"is {largest:.1g}",
        evidence=both.filter(pl.col("difference").fill_null(1) > _RELATIVE)
        if equal < both.height
        else None,
    )


def private(store: Store, claim: Claim) -> Judgement:
    """Return the slowdowns of the public jobs; the statement is on private ones."""
    table = _of_store(store, claim).filter(family="slowdowns", group="original").sort("job")
    parts = [f"{job} {value:.3f}" for job, value in table.select("job", "value").rows()]
    return not_testable(f"slowdown of the public jobs: {', '.join(parts)}")


def attribute(store: Store, claim: Claim) -> Judgement:
    """Compare the attribute that explains a job by compute times with the published one."""
    attributes = store.trace(claim.tables[0][0]).once(attributes_of_jobs).attributes
    table = attributes.filter(job_id=claim.values["job"])
    if table.is_empty():
        return untested(f"{claim.values['job']} is not among the jobs of {claim.needs[0]}")
    expected = {name: value for name, value in claim.values.items() if name != "job"}
    parts = [
        f"{row['attribute']} {row['group']} {row['explained']:.3f}"
        for row in table.drop_nulls("explained").iter_rows(named=True)
    ]
    return decide(
        holds=table.filter("explains", **expected).height == 1,
        measured=f"fraction explained: {', '.join(parts)}",
        evidence=table,
    )
