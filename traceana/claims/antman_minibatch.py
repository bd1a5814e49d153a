"""Mini-batch time of workers (AntMan, OSDI'20): the CoV table and four jobs' worker times."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.analysis import summarize_cov
from traceana.claims.claim import Claim, Judgement, decide, not_testable, untested
from traceana.claims.printed import same_number, span
from traceana.derived.workers import cov_matches, stragglers

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.store.session import Session

_PAPER: Final = "antman-minibatch"
_TRACE: Final = "alibaba-minibatch-2020"
_COV: Final = (_TRACE, "cov_samples")
_SAMPLES: Final = (_TRACE, "worker_samples")
_WORKERS: Final = 10
_IS_ROW: Final = 0.99
"""A job is a row of the table where rounding explains this share of the differences, or more."""


def _files(session: Session) -> pl.DataFrame:
    time = pl.col("batch_time")
    jobs = session.scan(*_SAMPLES).group_by("job_id")
    return (
        jobs.agg(
            workers=pl.col("worker_id").n_unique(),
            gpus=pl.col("gpus").drop_nulls().unique().sort(),
            first_s=pl.col("time_s").min(),
            last_s=pl.col("time_s").max(),
            smallest=time.min(),
            largest=time.max(),
        )
        .sort("job_id")
        .collect()
    )


def _own_range(session: Session) -> pl.DataFrame:
    """How far each worker's own time varies: its 95 % over its 5 % quantile."""
    high, low = (pl.col("batch_time").quantile(q, "linear") for q in (0.95, 0.05))
    return (
        session.scan(*_SAMPLES)
        .group_by("job_id", "worker_id")
        .agg(own_range=high / low)
        .sort("job_id", "worker_id")
        .collect()
    )


def _judge_workers(session: Session) -> Judgement:
    files = session.once(_files)
    largest = session.scan(*_COV).group_by("job_id").agg(pl.col("cov").max()).sort("cov").collect()
    # n values that are not negative have a CoV of sqrt(n) at most, with ddof 1
    beyond = largest.filter(pl.col("cov") > sqrt(_WORKERS))
    tight = largest.filter(pl.col("cov") > sqrt(_WORKERS - 1)).height
    of_files = "/".join(str(n) for n in files["workers"].unique().sort())
    measured = (
        f"{of_files} workers in the {files.height} job files; of {largest.height} jobs in the CoV "
        f"table {tight} need {_WORKERS} or more, {beyond.height} need more than {_WORKERS}"
    )
    if not beyond.is_empty() or of_files != str(_WORKERS):
        return decide(
            holds=False, measured=measured, note="A CoV above sqrt(n) or a file says otherwise."
        )
    return not_testable(
        measured,
        "The table has CoVs and no number of workers: a CoV of c needs c^2 workers or more, which "
        "could refute the statement and does not, and nothing public could confirm it for all.",
        evidence=largest.tail(tight) if tight else None,
    )


def _judge_definition(session: Session) -> Judgement:
    matches = session.once(cov_matches, _TRACE)
    rows = matches.filter(pl.col("share_within_rounding") > _IS_ROW)
    above = session.scan(*_COV).filter(pl.col("cov") > sqrt(_WORKERS - 1)).collect().height
    bound = f"{above:,} CoVs above {sqrt(_WORKERS - 1):g}, the largest that {_WORKERS} values have"
    if rows.is_empty():
        if above:
            note = "No ten values give such CoVs with the population deviation."
            return decide(holds=False, measured=bound, note=note, evidence=matches)
        return untested("no job file is a row of the table, with either deviation")
    found = rows["job_id"].unique().sort().to_list()
    sample = rows["ddof"].sum() > 0
    told = []
    for ddof, name in ((1, "sample"), (0, "population")):
        same = matches.filter(pl.col("job_id").is_in(found), pl.col("ddof") == ddof)
        within = (same["share_within_rounding"] * same["overlap"]).round().sum()
        told.append(f"{within:,.0f} of {same['overlap'].sum():,} by the {name} deviation")
    return decide(
        holds=not sample and not above,
        measured=f"{', '.join(found)} are rows of the table to within rounding at "
        f"{', '.join(told)}; {bound} with the population deviation",
        note="The table was made with the sample deviation, sqrt(1/(N-1) sum (x-mu)^2)."
        if sample
        else "Each job that is a row of the table is so with the population deviation.",
        evidence=matches,
    )


def _judge_scale(session: Session) -> Judgement:
    files = session.once(_files)
    least, most = span(files["smallest"])[0], span(files["largest"])[1]
    own = files.filter(largest=1000).height
    return decide(
        holds=own == files.height and least >= 0,
        measured=f"the largest is 1000 in {own} of {files.height} files; all from {least:g} to "
        f"{most:g}",
        note="Each file is scaled by its own maximum and its smallest stays above 0, so that "
        "times of two jobs cannot be compared.",
    )


def _of_job(
    job: str, gpus: float, judge: Callable[[Session, pl.DataFrame], Judgement]
) -> Callable[[Session], Judgement]:
    """Judge a job: the GPU share it asked for, then what is said of its workers."""

    def judge_job(session: Session) -> Judgement:
        file = session.once(_files).filter(job_id=job)
        if file.is_empty():
            return untested(f"{job} is not among the jobs of {'/'.join(_SAMPLES)}")
        found = judge(session, session.once(stragglers, _TRACE).episodes.filter(job_id=job))
        asked = file["gpus"].item().to_list()
        share = ", ".join(f"{100 * each:g} %" for each in asked) or "unknown"
        return Judgement(
            found.verdict if asked == [gpus] else "differs",
            f"GPU request {share}; {found.measured}",
            found.note,
            found.evidence,
        )

    return judge_job


def _judge_job1(session: Session, episodes: pl.DataFrame) -> Judgement:
    first, last = session.once(_files).filter(job_id="job_1").select("first_s", "last_s").row(0)
    told = [
        f"worker {row['worker_id']} from {100 * (row['onset_s'] - first) / (last - first):.0f} % "
        f"of the job on, {row['severity']:.2f} times its usual"
        for row in episodes.iter_rows(named=True)
    ]
    onset = ((episodes["onset_s"] - first) / (last - first)).to_list()
    return decide(
        holds=episodes["worker_id"].to_list() == ["6"] and 0.25 <= onset[0] <= 0.75,
        measured=f"episodes: {'; '.join(told) or 'none'}",
        note="It holds where worker 6 alone has an episode, one that begins in the middle half of "
        "the job.",
        evidence=episodes,
    )


def _judge_job2(session: Session, episodes: pl.DataFrame) -> Judgement:
    medians = session.once(stragglers, _TRACE).levels.filter(job_id="job_2")["median"]
    least, most = span(medians)
    between = most / least
    own = span(session.once(_own_range).filter(job_id="job_2")["own_range"])[1]
    return decide(
        holds=episodes.is_empty() and between > own,
        measured=f"{episodes.height} episodes; workers' medians differ by a factor of "
        f"{between:.2f}, a worker's own 95 % and 5 % quantiles by {own:.2f} at most",
        note="It holds where no worker has an episode and workers differ by more than any of them "
        "varies.",
    )


def _judge_job3(session: Session, episodes: pl.DataFrame) -> Judgement:
    return _several("job_3", session, episodes, "It holds where two workers or more")


def _judge_job4(session: Session, episodes: pl.DataFrame) -> Judgement:
    own = span(session.once(_own_range).filter(job_id="job_4")["own_range"])[1]
    found = _several(
        "job_4", session, episodes, "It holds where some worker's own time doubles and two"
    )
    return Judgement(
        found.verdict if own >= 2 else "differs",
        f"{found.measured}; a worker's own 95 % and 5 % quantiles differ by a factor of "
        f"{own:.2f} at most",
        found.note,
        found.evidence,
    )


def _several(job: str, session: Session, episodes: pl.DataFrame, holds: str) -> Judgement:
    slow = session.once(stragglers, _TRACE).levels.filter(job_id=job).filter("is_slow")["worker_id"]
    in_episodes = episodes["worker_id"].unique()
    return decide(
        holds=len(set(slow) | set(in_episodes)) >= 2,
        measured=f"{episodes.height} episodes of {len(in_episodes)} workers, {len(slow)} workers "
        "slow all along",
        note=f"{holds} have an episode or are slow all along.",
        evidence=episodes,
    )


def _judge_diversity(session: Session) -> Judgement:
    jobs = summarize_cov(session.scan(*_COV))
    low, high = np.quantile(jobs["median"].to_numpy(), (0.1, 0.9)).tolist()
    within = float(np.median((jobs["q95"] / jobs["q05"]).to_numpy()))
    return decide(
        holds=high >= 2 * low and within >= 2,
        measured=f"job medians: a tenth below {low:.3f}, a tenth above {high:.3f}; within the "
        f"middle job the 95 % quantile is {within:.1f} times the 5 % one",
        note='"Diverse" has no number: it is taken to hold where each of the two is a factor of 2 '
        "or more.",
    )


CLAIMS: Final = (
    Claim(
        "antman-jobs", _PAPER, "the CoV table holds 100 training jobs", "100", (_COV,),
        same_number(
            "100",
            lambda session: session.scan(*_COV).select(pl.n_unique("job_id")).collect().item(),
            "Rows of the published table.",
        ),
    ),
    Claim(
        "antman-workers", _PAPER, "each of them has 10 workers", "10", (_COV, _SAMPLES),
        _judge_workers,
    ),
    Claim(
        "antman-cov-definition", _PAPER,
        "CoV uses the population standard deviation, sqrt(1/N sum (x-mu)^2)",
        "population standard deviation (ddof 0)", (_COV, _SAMPLES), _judge_definition,
        "match_cov_rows",
    ),
    Claim(
        "antman-scale", _PAPER, "mini-batch time is normalised to 0-1000", "0-1000", (_SAMPLES,),
        _judge_scale,
    ),
    Claim(
        "antman-job1", _PAPER,
        "GPU request 25 %; a straggler, worker 6, emerges in the middle of the training",
        "25 %, worker 6, in the middle", (_SAMPLES,), _of_job("job_1", 0.25, _judge_job1),
        "detect_stragglers", every_file=False,
    ),
    Claim(
        "antman-job2", _PAPER,
        "GPU request 20 %; variation is stable, but workers have different mini-batch times",
        "20 %, stable, different workers", (_SAMPLES,), _of_job("job_2", 0.2, _judge_job2),
        "detect_stragglers", every_file=False,
    ),
    Claim(
        "antman-job3", _PAPER, "GPU request 25 %; there are multiple stragglers",
        "25 %, multiple stragglers", (_SAMPLES,), _of_job("job_3", 0.25, _judge_job3),
        "detect_stragglers", every_file=False,
    ),
    Claim(
        "antman-job4", _PAPER,
        "GPU request 50 %; there are multiple stragglers, and the mini-batch time may fluctuate",
        "50 %, multiple stragglers, fluctuation", (_SAMPLES,),
        _of_job("job_4", 0.5, _judge_job4), "detect_stragglers", every_file=False,
    ),
    Claim(
        "antman-cov-diversity", _PAPER, "CoV is diverse between jobs and between iterations",
        "diverse", (_COV,), _judge_diversity, "summarize_cov",
    ),
)  # fmt: skip
