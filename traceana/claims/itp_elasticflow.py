"""Microsoft's ITP clusters, and the plans that ElasticFlow (ASPLOS'23) generated for their jobs."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import workload_summary
from traceana.claims.claim import Claim, Judgement, decide
from traceana.claims.printed import agrees, same_number, span
from traceana.derived.plans import rates, rules

if TYPE_CHECKING:
    from traceana.store.session import Session

_PAPER: Final = "itp-elasticflow"
_ITP: Final = ("microsoft-itp-2021", "jobs")
_JOBS: Final = ("elasticflow-2023", "jobs")
_PLANS: Final = ("elasticflow-2023", "training_plans")
_TESTBED: Final = "195job"
_SPAN: Final = (date(2021, 3, 4), date(2021, 5, 3))
_EXAMPLE: Final = {
    "submit_s": 16566.0, "iterations": 40285, "model": "bert", "deadline_s": 21347.0,
    "batch_size": 64, "gpus": 4.0, "runtime_s": 3890.0,
}  # fmt: skip
_ALPHA: Final = 0.05


def _workload(session: Session) -> pl.DataFrame:
    return workload_summary(session.scan(*_ITP))


def _judge_span(session: Session) -> Judgement:
    submitted, ended = pl.col("submit_s"), pl.col("submit_s") + pl.col("runtime_s")
    jobs = session.scan(*_ITP).select(submitted=submitted / 86_400, ended=ended / 86_400).collect()
    (first, _), (_, last) = span(jobs["submitted"]), span(jobs["ended"])
    days = str((_SPAN[1] - _SPAN[0]).days)
    return decide(
        holds=agrees(last, days) and first < 1,
        measured=f"first submission on day {first:.2f}, last end on day {last:.2f}",
        note=f"The dates printed are {days} days apart, and so long is the clock of the trace; it "
        "has no calendar, so that the dates themselves cannot be seen.",
    )


def _judge_rule(session: Session) -> Judgement:
    found = session.once(rules, _PLANS[0])
    of_deadlines = found.filter(pl.col("rule").str.starts_with("tightness"))
    rejected = of_deadlines.filter(pl.col("pvalue_adjusted") < _ALPHA)
    fit = of_deadlines.row(0, named=True)
    left, runtime = pl.col("deadline_s") - pl.col("submit_s"), pl.col("runtime_s")
    jobs = session.scan(*_PLANS).join(session.scan(*_JOBS), on=("cluster", "job_id"))
    # deadlines are cut to whole seconds, so that up to one more may have been left
    outside = jobs.filter((left + 1 <= 0.5 * runtime) | (left >= 1.5 * runtime)).collect().height
    return decide(
        holds=rejected.is_empty() and not outside,
        measured=f"(deadline - submission) / runtime is uniform on [0.5, 1.5): {outside} of "
        f"{fit['n']:,} plans outside, KS distance {fit['value']:.4f} (p = {fit['pvalue']:.2f})",
        note="A rule is found and bears its tests: that distribution, and no dependence on runtime,"
        " GPUs, submission, model or batch size."
        if rejected.is_empty() and not outside
        else "The rule that was looked for does not hold"
        + (f": {'; '.join(rejected['rule'])} is rejected." if len(rejected) else " for all plans."),
        evidence=found,
    )


def _judge_random(session: Session) -> Judgement:
    found = session.once(rules, _PLANS[0])
    determined = found.filter(rule="iterations are floor(rate * runtime)").row(0, named=True)
    n, share = determined["n"], determined["value"]
    cells = session.once(rates, _PLANS[0])
    note = (
        "Iterations follow from model, batch size, GPUs and runtime; what was drawn is model and "
        "batch size."
    )
    return decide(
        # a drawn number would be the one that its row determines once in thousands of rows
        holds=share < 0.5,
        measured=f"{round(share * n):,} of {n:,} are floor(rate * runtime), with "
        f"{cells['is_one_rate'].sum()} rates for {cells.height} (model, batch size, GPUs)",
        note=note if share >= 0.5 else "Few follow from model, batch size, GPUs and runtime.",
        evidence=found,
    )


def _judge_testbed(session: Session) -> Judgement:
    plans, jobs = session.scan(*_PLANS).collect(), session.scan(*_JOBS).collect()
    listed = plans.filter(cluster=_TESTBED)
    beside = listed.join(
        plans.filter(pl.col("cluster") != _TESTBED), on="job_id", suffix="_there"
    ).join(jobs, left_on=("cluster_there", "job_id"), right_on=("cluster", "job_id"))
    names = ("model", "batch_size", "iterations", "deadline_s")
    same = {name: (beside[name] == beside[f"{name}_there"]).sum() for name in names}
    cells = session.once(rates, _PLANS[0]).select("model", "batch_size", "gpus", "iterations_per_s")
    implied = (pl.col("iterations_per_s") * pl.col("runtime_s")).floor()
    kept = beside.join(cells, on=("model", "batch_size", "gpus")).filter(
        implied == pl.col("iterations")
    )
    clusters = ", ".join(beside["cluster_there"].unique().sort())
    told = ", ".join(f"{name.removesuffix('_s')} {number}" for name, number in same.items())
    return decide(
        holds=agrees(listed.height, "195") and beside.height == listed.height,
        measured=f"{listed.height} jobs, {beside.height} of them rows of {clusters or 'no cluster'}"
        f"; equal there: {told}",
        note=f"GPUs and runtime are the raw rows' (the iterations of {kept.height} follow from "
        "them), but the generated columns were drawn anew; that the jobs ran cannot be seen.",
        evidence=pl.DataFrame({"column": list(same), "equal": list(same.values())}),
    )


def _judge_example(session: Session) -> Judgement:
    rows = (
        session.scan(*_PLANS)
        .join(session.scan(*_JOBS), on=("cluster", "job_id"))
        .filter(**_EXAMPLE)
        .select("cluster", "job_id", *_EXAMPLE)
        .collect()
    )
    return decide(
        holds=not rows.is_empty(),
        measured=f"a row of {', '.join(rows['cluster'])}" if len(rows) else "no such row",
        note="Every value printed is compared, the job's and the plan's.",
        evidence=rows,
    )


_PRINTED_HOURS: Final = "1,632,719.7"

CLAIMS: Final = (
    Claim(
        "itp-jobs", _PAPER, "69,351 jobs", "69,351", (_ITP,),
        same_number(
            "69,351",
            lambda session: session.once(_workload)["jobs"].item(),
            "Jobs of the ten files.",
        ),
        "workload_summary",
    ),
    Claim(
        "itp-gpu-hours", _PAPER, "1,632,719.7 GPU-hours", _PRINTED_HOURS, (_ITP,),
        same_number(
            _PRINTED_HOURS,
            lambda session: session.once(_workload)["gpu_hours"].item(),
            "Sum of GPUs times runtime over all jobs.",
        ),
        "workload_summary",
    ),
    Claim(
        "itp-clusters", _PAPER, "10 clusters", "10", (_ITP,),
        same_number(
            "10",
            lambda session: session.scan(*_ITP).select(pl.n_unique("cluster")).collect().item(),
            "One file a cluster.",
        ),
    ),
    Claim(
        "itp-span", _PAPER, "2 months, 2021-03-04 to 2021-05-03", "2021-03-04 to 2021-05-03",
        (_ITP,), _judge_span,
    ),
    Claim(
        "elasticflow-deadline-rule", _PAPER,
        'the deadline follows a rule ("generated based on specific rules")',
        "specific rules, not printed", (_PLANS, _JOBS), _judge_rule, "deadline_rules",
    ),
    Claim(
        "elasticflow-iterations-random", _PAPER, 'num_iteration is "randomly generated"',
        "randomly generated", (_PLANS, _JOBS), _judge_random, "deadline_rules, iteration_rates",
    ),
    Claim(
        "elasticflow-testbed", _PAPER,
        "195 jobs ran on the real testbed: which, and do they keep their raw rows' values?",
        "195", (_PLANS, _JOBS), _judge_testbed, "iteration_rates",
    ),
    Claim(
        "elasticflow-example", _PAPER,
        "the README's example row (16566, 40285, bert, 21347, 64, 4, 3890) stands in the trace",
        "16566, 40285, bert, 21347, 64, 4, 3890", (_PLANS, _JOBS), _judge_example,
    ),
)  # fmt: skip
