"""Alibaba's GPU clusters: PAI (MLaaS in the Wild, NSDI'22; task analysis) and openb (FGD, ATC'23).

The analysis of tasks took success for Terminated (completed) and failure for every other status.
A runtime is the last end of a task's instances minus their first start, over the instances of
which both are known (policy "drop" of :func:`traceana.analysis.task_runtimes`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis import implied_n, runtime_by, runtime_correlations
from traceana.analysis.frames import open_frame, reduce_frame
from traceana.claims.claim import Claim, Judgement, decide, untested
from traceana.claims.printed import agrees, as_printed, same_number
from traceana.derived.tasks import sampled_rows, task_sample, task_times

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.store.session import Session

_PAPER: Final = "pai"
_TRACE: Final = "alibaba-pai-2020"
_JOBS, _TASKS, _INSTANCES, _MACHINES = (
    (_TRACE, table) for table in ("jobs", "tasks", "instances", "machines")
)
_PODS, _NODES = (("alibaba-openb-2023", table) for table in ("jobs", "machines"))
_FEATURES: Final = {
    "gpu": "gpu_percent", "cpu": "cpu_percent", "memory": "memory_gib", "size": "n_instances",
}  # fmt: skip
_CORRELATIONS: Final = {
    ("success", "gpu"): ("0.44", "2.01e-02"),
    ("success", "cpu"): ("0.64", "4.51e-07"),
    ("success", "memory"): ("0.35", "3.78e-05"),
    ("success", "size"): ("0.04", "4.50e-01"),
    ("failure", "gpu"): ("-0.14", "4.98e-01"),
    ("failure", "cpu"): ("-0.11", "4.50e-01"),
    ("failure", "memory"): ("-0.09", "3.19e-01"),  # p is printed as 3.19e-0.1
    ("failure", "size"): ("0.04", "4.50e-01"),
}
_RUNTIMES: Final = {
    "success": {
        "MISC": "5197.2", "P100": "7669.9", "T4": "2876.3", "V100": "9707.03",
        "V100M32": "11905.27",
    },
    "failure": {
        "MISC": "5993.6", "P100": "7114.5", "T4": "5064.8", "V100": "11332.1", "V100M32": "6889.3",
    },
}  # fmt: skip


def _runtimes(session: Session) -> pl.DataFrame:
    frame = task_times(session, _TRACE).drop("job_id")
    completed = pl.col("status") == "completed"
    return frame.with_columns(
        outcome=pl.when(completed).then(pl.lit("success")).otherwise(pl.lit("failure"))
    )


def _correlations(session: Session) -> pl.DataFrame:
    frame = session.once(_runtimes).drop("outcome")
    failure = session.manifest(_TRACE).failure_statuses
    return runtime_correlations(frame, failure=failure, method="pearson", level="group_mean").table


def _judge_jobs(session: Session) -> Judgement:
    jobs = session.scan(*_JOBS).select(pl.len()).collect().item()
    sampled = sampled_rows(session, _TRACE, session.frame(*_INSTANCES))
    rows = open_frame(sampled, keys=("job_id",))
    each = rows.group_by("job_id").agg(n=nw.len())
    least, most = reduce_frame(each, (), least=nw.col("n").min(), most=nw.col("n").max()).row(0)
    return decide(
        holds=agrees(jobs, "1,050,501") and (least, most) == (2, 6330),
        measured=f"{jobs:,} jobs; from {least:,} to {most:,} instances a job",
        note="Rows of the job table and of the instance table by job; the publisher itself counts "
        f"1,055,501 jobs.{_sampled(session, 'Instances a job are')}",
    )


def _sampled(session: Session, what: str) -> str:
    """Return what the note of a judgement adds where it is not of all tasks."""
    sample = session.once(task_sample, _TRACE)
    return "" if sample is None else f" {what} of a sample: {sample.description}."


def _correlation(outcome: str, feature: str) -> Claim:
    r, p = _CORRELATIONS[outcome, feature]

    def judge(session: Session) -> Judgement:
        table = session.once(_correlations).filter(outcome=outcome, x=_FEATURES[feature])
        found = table.row(0, named=True) if table.height else {"r": None}
        if found["r"] is None:
            return untested(f"no correlation can be had: {found.get('note') or 'no such task'}")
        return decide(
            holds=agrees(found["r"], r) and agrees(found["pvalue_t"], p),
            measured=f"r = {as_printed(found['r'], r)} (p = {as_printed(found['pvalue_t'], p)})",
            note=f"Over {found['n_groups']:,} distinct values, means of {found['n']:,} tasks whose "
            "runtime is known; of the others the end is lost, and other policies on it differ."
            + _sampled(session, "They are"),
            evidence=table,
        )

    what = {"gpu": "GPU %", "cpu": "CPU %", "memory": "memory", "size": "task size"}[feature]
    return Claim(
        f"pai-{outcome}-{feature}",
        _PAPER,
        f"mean runtime against {what}, {outcome}: r = {r} (p = {p})",
        f"r = {r} (p = {p})",
        (_TASKS, _INSTANCES),
        judge,
        "task_runtimes, runtime_correlations",
    )


def _runtime(outcome: str) -> Claim:
    printed = _RUNTIMES[outcome]

    def judge(session: Session) -> Judgement:
        rows = session.once(_runtimes).filter(outcome=outcome)
        table = runtime_by(rows, "gpu_type").filter(pl.col("gpu_type").is_in(list(printed)))
        means = dict(table.select("gpu_type", "mean_s").rows())
        return decide(
            holds=all(agrees(means.get(gpu), mean) for gpu, mean in printed.items()),
            measured=", ".join(
                f"{gpu} {as_printed(means.get(gpu), mean)}" for gpu, mean in printed.items()
            ),
            note=f"Means over the {table['n'].sum():,} tasks of these types with a known runtime."
            + _sampled(session, "They are"),
            evidence=table,
        )

    told = ", ".join(f"{gpu} {mean}" for gpu, mean in printed.items())
    return Claim(
        f"pai-{outcome}-runtime",
        _PAPER,
        f"mean runtime in s, {outcome}: {told}",
        told,
        (_TASKS, _INSTANCES),
        judge,
        "task_runtimes, runtime_by",
    )


def _judge_machines(session: Session) -> Judgement:
    machines = session.scan(*_MACHINES).select("gpus").collect()["gpus"]
    gpus, with_gpu = machines.sum(), int((machines > 0).sum())
    return decide(
        # "about 1,800" is read as: to the hundred that is printed
        holds=gpus > 6500 and round(with_gpu, -2) == 1800,
        measured=f"{gpus:,.0f} GPUs on {with_gpu:,} machines that have any",
        note=f"{len(machines):,} machines are listed; those without a GPU are not counted.",
    )


def _judge_consistency(_session: Session) -> Judgement:
    rows = []
    for (outcome, feature), (r, p) in _CORRELATIONS.items():
        implied = implied_n(r, p)
        rows.append((outcome, feature, r, p, implied.low, implied.high))
    table = pl.DataFrame(
        rows, schema=["outcome", "feature", "r", "p", "groups_least", "groups_most"], orient="row"
    )
    missing = table["groups_least"].null_count()
    told = [
        f"{outcome} {feature} {'none' if low is None else f'{low}-{high}'}"
        for outcome, feature, _, _, low, high in rows
    ]
    (p, times), *_ = Counter(pair[1] for pair in _CORRELATIONS.values()).most_common(1)
    twice = _CORRELATIONS["success", "size"] == _CORRELATIONS["failure", "size"]
    note = "Each pair implies a number of distinct values that the feature may well have" + (
        f"; yet p = {p} is printed {times} times, and r and p of task size are the same for success"
        " and failure, which looks copied."
        if twice
        else "."
    )
    return decide(
        holds=not missing,
        measured=f"groups: {', '.join(told)}",
        note="Some pairs are of no two-sided Pearson test." if missing else note,
        evidence=table,
    )


def _rows_of(need: tuple[str, str]) -> Callable[[Session], int]:
    return lambda session: int(session.scan(*need).select(pl.len()).collect().item())


def _judge_openb_gpus(session: Session) -> Judgement:
    gpus = session.scan(*_NODES).select(pl.col("gpus").sum()).collect().item()
    return decide(
        holds=gpus > 6200, measured=f"{gpus:,.0f}", note="Sum over the nodes' list of GPUs."
    )


CLAIMS: Final = (
    Claim(
        "pai-jobs", _PAPER, "1,050,501 jobs; instances per job from 2 to 6330",
        "1,050,501; 2 to 6330", (_JOBS, _INSTANCES), _judge_jobs,
    ),
    *(_correlation(outcome, feature) for outcome, feature in _CORRELATIONS),
    *(_runtime(outcome) for outcome in _RUNTIMES),
    Claim(
        "pai-machines", _PAPER, "over 6,500 GPUs on about 1,800 machines",
        "over 6,500 on about 1,800", (_MACHINES,), _judge_machines,
    ),
    Claim(
        "pai-internal-consistency", _PAPER,
        "for each printed (r, p) there is a plausible number of groups that a two-sided Pearson "
        "test implies",
        f"{len(_CORRELATIONS)} pairs of r and p", (), _judge_consistency, "implied_n",
    ),
    Claim(
        "openb-tasks", _PAPER, "8,152 tasks", "8,152", (_PODS,),
        same_number("8,152", _rows_of(_PODS), "Rows of the default list of pods."),
    ),
    Claim(
        "openb-nodes", _PAPER, "1,523 nodes", "1,523", (_NODES,),
        same_number("1,523", _rows_of(_NODES), "Rows of the list of all nodes."),
    ),
    Claim(
        "openb-gpus", _PAPER, "over 6,200 GPUs", "over 6,200", (_NODES,), _judge_openb_gpus,
    ),
)  # fmt: skip
