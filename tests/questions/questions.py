"""Functions, the columns they read and the options they refuse, and faults of a column."""

from __future__ import annotations

import inspect
import math
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import traceana as analysis
from tests.questions.energy.zeus_tables import POWER, RUNS
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

N = 60
ROW = pl.int_range(pl.len())


def make_rows() -> pl.DataFrame:
    """Two jobs of three workers at ten ticks; every row is a job of a workload as well."""
    rng, row = np.random.default_rng(1), np.arange(N)
    return pl.DataFrame(
        {
            "job_id": [f"job_{i}" for i in row // 30],
            "worker_id": [str(i) for i in row % 3],
            "time_s": 10.0 * (row % 30 // 3),
            "batch_time": rng.gamma(4, 100, N),
            "sample": row % 30,
            "cov": rng.gamma(2, 0.2, N),
            "cluster": ["c1", "c2"] * (N // 2),
            "submit_s": rng.uniform(0, 1e5, N),
            "start_s": rng.uniform(1e5, 2e5, N),
            "end_s": rng.uniform(2e5, 3e5, N),
            "runtime_s": rng.lognormal(5, 1, N),
            "gpus": rng.choice([0.5, 1, 8], N),
            "status": rng.choice(["completed", "failed"], N),
        }
    )


ROWS = make_rows()
WORKERS = ("job_id", "time_s", "worker_id", "batch_time")
SERIES = ("job_id", "sample", "cov")


@dataclass(frozen=True)
class Question:
    """A function, its needed arguments beside the frame, and the columns it reads of its frame."""

    ask: Callable[..., Any]
    reads: tuple[str, ...]
    measures: tuple[str, ...] = ()
    """Those that must be numbers, neither negative nor infinite."""
    options: tuple[tuple[str, Any], ...] = ()
    """Values that are refused."""
    frame: pl.DataFrame = field(default_factory=lambda: ROWS)

    def __call__(self, frame: Any, **options: Any) -> list[pl.DataFrame]:
        result = self.ask(frame, **options)
        return [result] if isinstance(result, pl.DataFrame) else list(astuple(result))


def with_(function: Callable[..., Any], **needed: Any) -> Callable[..., Any]:
    return lambda frame, **options: function(frame, **{**needed, **options})


def energy(function: Callable[..., Any], **needed: Any) -> dict[str, Question]:
    """Ask of either table, with the other one as it should be."""
    options: list[tuple[str, Any]] = [("eta", bad) for bad in (-1, 2, math.nan, "half", None, [1])]
    options += [("target", bad) for bad in (math.nan, "0.5", [1], 7)]
    options += [
        ("gpu", "none"),
        ("gpu", 1),
        ("gpu", np.array([1, 2])),
        ("dataset", "none"),
        ("dataset", 1),
        *RNGS,
    ]
    known = inspect.signature(function).parameters
    refused = tuple((name, bad) for name, bad in options if name in known)
    of = {name: value for name, value in needed.items() if name in known}
    return {
        f"{function.__name__}, runs": Question(
            lambda runs, **more: function(runs, POWER, **{**of, **more}),
            tuple(RUNS.columns),
            (),
            refused,
            RUNS,
        ),
        f"{function.__name__}, power": Question(
            lambda power, **more: function(RUNS, power, **{**of, **more}),
            tuple(POWER.columns),
            (),
            (),
            POWER,
        ),
    }


RNGS: tuple[tuple[str, Any], ...] = tuple(
    ("rng", bad) for bad in (-1, 1.5, "seed", math.nan, [1.5])
)
CONFIDENCES = tuple(("confidence", bad) for bad in (0, 1, 95, math.nan, "95 %", None))
LENGTHS = (0, -1, math.nan, math.inf, "hour", None, 1e-300, 10**309)
CUTS = tuple(("cut_at", bad) for bad in ("end", math.nan, [1]))
PLACE = {"gpu": "g", "dataset": "cifar100", "target": 0.5}
QUESTIONS: dict[str, Question] = {
    "iteration_cov": Question(
        with_(analysis.iteration_cov, ddof=1),
        WORKERS,
        ("batch_time",),
        (
            *(("ddof", bad) for bad in (2, None, "1", True, np.array([0, 1]))),
            *(("min_workers", bad) for bad in (1, 2.5, math.nan, "x", None, [2], True)),
            ("by", 1),
            ("time", None),
            ("time", pl.col("time_s")),
            ("time", "worker_id"),
            ("worker", "job_id"),
        ),
    ),
    "detect_stragglers": Question(
        analysis.detect_stragglers,
        WORKERS,
        ("batch_time",),
        (
            *(
                (name, bad)
                for bad in (-1, math.nan, math.inf, "x", None, [2], True)
                for name in (
                    "slow_level",
                    "min_severity",
                    "min_reports",
                    "min_duration_s",
                    "max_gap_reports",
                    "evidence",
                )
            ),
            ("slow_level", 1),
            ("min_reports", 2.5),
            ("evidence", 5e-324),
            ("by", "nowhere"),
            ("time", "worker_id"),
        ),
    ),
    "summarize_cov": Question(
        analysis.summarize_cov,
        ("job_id", "cov"),
        ("cov",),
        (("value", 1), ("value", pl.col("cov")), ("by", "cov")),
    ),
    "summarize_cov_series": Question(
        with_(analysis.summarize_cov_series, time="sample"),
        SERIES,
        ("cov",),
        (
            *CONFIDENCES,
            *CUTS,
            *(("lags", bad) for bad in (0, 1.5, "x", None, 10**30)),
            ("time", "cluster"),
            ("time", ["sample"]),
        ),
    ),
    "summarize_cov_pooled": Question(
        with_(analysis.summarize_cov_pooled, time="sample", cut_at=29),
        SERIES,
        ("cov",),
        (*CONFIDENCES, *CUTS, ("by", ()), ("time", "cluster")),
    ),
    "match_cov_rows": Question(
        lambda rows: analysis.match_cov_rows(rows, ROWS),
        WORKERS,
        ("batch_time",),
    ),
    "match_cov_rows, table": Question(
        lambda rows: analysis.match_cov_rows(ROWS, rows),
        SERIES,
        ("sample", "cov"),
    ),
    "workload_summary": Question(
        analysis.workload_summary,
        ("submit_s", "runtime_s", "gpus"),
        ("submit_s", "runtime_s", "gpus"),
    ),
    "arrival_rhythm": Question(
        with_(analysis.arrival_rhythm, per="hour"),
        ("submit_s",),
        ("submit_s",),
        (
            *(("per", bad) for bad in ("day", None, [1])),
            *(("utc_offset_h", bad) for bad in (25, math.nan, "CET", None)),
            ("by", "jobs_per_h"),
        ),
    ),
    "interarrivals": Question(
        analysis.interarrivals,
        ("submit_s",),
        ("submit_s",),
        (("by", "submit_s"),),
    ),
    "interarrival_curve": Question(
        analysis.interarrival_curve,
        ("submit_s",),
        ("submit_s",),
        (*(("points", bad) for bad in (1, 2.5, math.nan, None)), ("by", "gap_s")),
    ),
    "job_quantiles": Question(
        analysis.job_quantiles,
        ("runtime_s", "gpus"),
        ("runtime_s", "gpus"),
        (("by", {"gpus"}),),
    ),
    "size_distribution": Question(
        analysis.size_distribution,
        ("runtime_s", "gpus"),
        ("runtime_s", "gpus"),
        (("by", "gpus"),),
    ),
    "concentration": Question(
        analysis.concentration,
        ("runtime_s", "gpus"),
        ("runtime_s", "gpus"),
        (("by", "nowhere"),),
    ),
    "lorenz_curve": Question(
        analysis.lorenz_curve,
        ("runtime_s", "gpus"),
        ("runtime_s", "gpus"),
        tuple(("points", bad) for bad in (1, 2.5, math.nan, "many", None, 10**30)),
    ),
    "gpu_demand": Question(
        analysis.gpu_demand,
        ("start_s", "end_s", "gpus"),
        ("start_s", "end_s", "gpus"),
        tuple(("bin_s", bad) for bad in LENGTHS),
    ),
    "gpu_demand, runtime": Question(
        with_(analysis.gpu_demand, by="cluster", start="submit_s", runtime="runtime_s"),
        ("cluster", "submit_s", "runtime_s", "gpus"),
        ("submit_s", "runtime_s", "gpus"),
        tuple(("bin_s", bad) for bad in LENGTHS),
    ),
    "queueing_delay": Question(
        analysis.queueing_delay,
        ("submit_s", "start_s"),
        ("submit_s", "start_s"),
        (("by", None),),
    ),
    "runtime_by": Question(
        with_(analysis.runtime_by, by="cluster"),
        ("cluster", "runtime_s"),
        ("runtime_s",),
        CONFIDENCES,
    ),
    "runtime_means": Question(
        with_(analysis.runtime_means, by="cluster"),
        ("cluster", "runtime_s"),
        ("runtime_s",),
        (*CONFIDENCES, ("trim", 0.5), ("trim", -0.1), ("trim", math.nan), ("trim", "half")),
    ),
    "variance_fraction": Question(
        with_(analysis.variance_fraction, value="runtime_s", cluster="job_id", log=True),
        ("job_id", "runtime_s"),
        (),
        CONFIDENCES,
    ),
    "outcome_rates": Question(
        with_(analysis.outcome_rates, by="cluster"),
        ("cluster", "status"),
        (),
        (
            *CONFIDENCES,
            ("success", "done"),
            ("success", ()),
            ("failure", "completed"),
            ("failure", None),
        ),
    ),
    "gpu_hours_by": Question(
        with_(analysis.gpu_hours_by, by="cluster"),
        ("cluster", "runtime_s", "gpus", "status"),
        ("runtime_s", "gpus"),
        (("by", None),),
    ),
    "straggler_attributes": Question(
        with_(analysis.straggler_attributes, attributes="cluster", resamples=99),
        WORKERS,
        ("batch_time",),
        (*RNGS, *(("min_explained", bad) for bad in (0, 2, math.nan, "half")), ("resamples", 0.5)),
    ),
    **energy(analysis.energy_to_accuracy, **PLACE),
    **energy(analysis.eta_sweep, **PLACE),
    **energy(analysis.energy_coverage, **PLACE),
    **energy(analysis.energy_savings),
}


def some(value: object) -> Callable[[str], pl.Expr]:
    """Put a value into the fourth row, among row numbers."""
    return lambda name: pl.when(ROW == 3).then(pl.lit(value)).otherwise(ROW).alias(name)


def all_(value: object) -> Callable[[str], pl.Expr]:
    return lambda name: pl.lit(value).alias(name)


FAULTS: dict[str, Callable[[str], pl.Expr]] = {
    "null": all_(None),
    "null in some rows": lambda name: pl.when(ROW % 7 > 0).then(name),
    "NaN": all_(math.nan),
    "NaN in a row": some(math.nan),
    "infinite": all_(math.inf),
    "infinite in a row": some(math.inf),
    "negative": all_(-1.0),
    "zero": all_(0.0),
    "constant": all_(0.1),
    "row numbers": ROW.alias,
    "near the largest": (1e150 * (ROW + 1) / N).alias,
    "huge": (1e100 * (ROW + 1)).alias,
    "huge in a row": some(2.0**63),
    "beyond range": all_(1e300),
    "the least there is": all_(5e-324),
    "fractions": all_(0.5),
    "text": all_("x"),
    "numbers as text": lambda name: pl.col(name).cast(pl.String),
    "truth": all_(value=True),
    "bytes": all_(b"x"),
    "dates": (pl.datetime(2020, 1, 1) + pl.duration(seconds=ROW)).alias,
    "duration": lambda name: pl.duration(seconds=ROW).alias(name),
    "decimal": lambda name: pl.lit(1).cast(pl.Decimal(10, 2)).alias(name),
    "categories": lambda name: pl.lit("a").cast(pl.Categorical).alias(name),
    "lists": lambda name: pl.concat_list(ROW).alias(name),
    "structs": lambda name: pl.struct(ROW).alias(name),
    "objects": lambda name: pl.lit(pl.Series(name, [object()], dtype=pl.Object)).first(),
}


def is_sound(question: Question, frame: Any, **options: Any) -> bool:
    """Return whether there was a result; it has no NaN and nothing infinite that was not a key."""
    refusal, results = None, []
    try:
        results = question(frame, **options)
    except DataError as error:
        refusal = str(error)
    assert refusal is None or ("\n" not in refusal and len(refusal) > 20), refusal
    assert_finite(results, but=question.frame.columns)
    return refusal is None


def assert_finite(results: list[pl.DataFrame], *, but: list[str]) -> None:
    """Refuse NaN, and what is infinite in columns other than those."""
    for column in (column for result in results for column in result if column.dtype.is_float()):
        # few values, for which an expression of Polars costs more
        values = [value for value in column.to_list() if value is not None]
        assert not any(map(math.isnan, values)), column
        assert column.name in but or not any(map(math.isinf, values)), column
