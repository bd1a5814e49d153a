"""As test_bad_input, of runtimes, correlations and outcomes: with clusters and without."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import traceana as analysis
from tests.questions.questions import CONFIDENCES, FAULTS, RNGS, ROWS, N, assert_finite
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

RANDOM = np.random.default_rng(2)
JOBS = ROWS.with_columns(
    task_name=pl.int_range(pl.len()).cast(pl.String),
    user=pl.Series([f"u{i}" for i in RANDOM.integers(0, 6, N)]),
    group=pl.Series(RANDOM.choice(list("abc"), N)),
    cpus=pl.Series(RANDOM.choice([1.0, 2, 4, 6, 9], N)),
    memory_gib=pl.Series(RANDOM.choice([8.0, 16, 29, 60], N)),
    gpu_type=pl.Series(RANDOM.choice(["t4", "v100"], N)),
)
NAMES = ("nowhere", ("group", "group"), (1,), 1, {"group"})
WORST = (
    "null",
    "null in some rows",
    "NaN in a row",
    "infinite in a row",
    "negative",
    "constant",
    "huge in a row",
    "beyond range",
    "the least there is",
    "text",
    "truth",
    "duration",
    "lists",
)
CLUSTERS = tuple(("cluster", bad) for bad in ("nowhere", 1, b"user"))
BYS = tuple(("by", bad) for bad in (*NAMES, None, "n_clusters"))


@dataclass(frozen=True)
class Question:
    """A function of a frame and options, the columns it reads, and options it refuses."""

    ask: Callable[..., Any]
    reads: tuple[str, ...]
    refuses: tuple[tuple[str, Any], ...] = ()

    def __call__(self, frame: Any, **options: Any) -> list[pl.DataFrame]:
        result = self.ask(frame, **options)
        assert str(result)
        if isinstance(result, pl.DataFrame):
            return [result]
        return [part for part in astuple(result) if isinstance(part, pl.DataFrame)]


def every(name: str, reads: tuple[str, ...], refuses: tuple[Any, ...], **options: Any) -> Any:
    """Ask a function with clusters and without."""
    function = getattr(analysis, name)
    refused = (*refuses, *CONFIDENCES, *CLUSTERS)
    return {
        name: Question(lambda f, **more: function(f, **{**options, **more}), reads, refused),
        f"{name}, clusters": Question(
            lambda f, **more: function(f, **{**options, "cluster": "user", **more}),
            (*reads, "user"),
        ),
    }


INSTANCES = JOBS.select("job_id", "task_name", "start_s", "end_s")
MANY = {
    "method": ("pearson", "spearman", "kendall"),
    "level": ("row", "group_mean", "group_mean_weighted"),
    "resamples": 100,
}
QUESTIONS: dict[str, Question] = {
    "task_runtimes": Question(
        lambda f, **more: analysis.task_runtimes(f, INSTANCES, **more),
        ("job_id", "task_name", "status", "end_s", "gpus", "gpu_type"),
        tuple(("end_imputation", bad) for bad in ("x", None, 1, ["drop"])),
    ),
    "task_runtimes, instances": Question(
        lambda f: analysis.task_runtimes(JOBS, f), ("job_id", "task_name", "start_s", "end_s")
    ),
    "gpu_capacity_check": Question(
        lambda f: analysis.gpu_capacity_check(JOBS, INSTANCES, f), ("gpus",)
    ),
    "runtime_ratio": Question(
        lambda f, **more: analysis.runtime_ratio(f, **{"by": "group", **more}),
        ("group", "runtime_s"),
        (("by", None), ("by", "nowhere"), ("runtime", None), ("runtime", "group")),
    ),
    "summarize_runtime_ratio": Question(
        lambda f, **more: analysis.summarize_runtime_ratio(f, **{"by": "group", **more}),
        ("group", "runtime_s"),
        (("by", "runtime_s"), ("by", 1), ("runtime", "nowhere")),
    ),
    **every(
        "correlate",
        ("gpus", "runtime_s"),
        (
            *RNGS,
            *(("by", bad) for bad in (*NAMES, "gpus", "r")),
            ("x", ()),
            ("y", ()),
            ("x", "runtime_s"),
            ("x", "status"),
            ("method", ()),
            ("level", "x"),
            ("adjust", 1),
            *(("resamples", bad) for bad in (0, 99.5, "x", None, math.nan)),
            ("cluster", "gpus"),
        ),
        x="gpus",
        y="runtime_s",
        **MANY,
    ),
    **every(
        "runtime_correlations",
        ("status", "runtime_s"),
        (("failure", "x"), ("by", "gpus"), ("by", "outcome")),
        resamples=100,
    ),
    **every("runtime_by", ("group", "runtime_s"), (*BYS, ("by", "runtime_s")), by="group"),
    **every("outcome_rates", ("group", "status"), (*BYS, ("by", "status")), by="group"),
    **every("failure_rates", ("group", "status"), (*BYS, ("by", "rate")), by="group"),
    **every(
        "compare_runtimes", ("group", "runtime_s"), (*BYS, ("by", ()), ("adjust", "x")), by="group"
    ),
    **every("outcome_association", ("group", "status"), (*BYS, *RNGS, ("by", ())), by="group"),
    **every(
        "failure_odds",
        ("group", "status", "gpu_type"),
        (*BYS, ("strata", "group"), ("strata", None)),
        by="group",
        strata="gpu_type",
    ),
    **every(
        "failure_model",
        ("group", "status", "cpus"),
        (*RNGS, ("features", ()), ("features", "status"), ("failure", "x")),
        features=("group", "cpus"),
    ),
    **{
        name: question
        for function in ("cumulative_incidence", "kaplan_meier")
        for name, question in every(
            function,
            ("group", "status", "runtime_s"),
            (
                *BYS,
                ("events", ()),
                ("events", "done"),
                ("events", ("failed", "failed")),
            ),
            by="group",
        ).items()
    },
}


def is_sound(question: Question, frame: Any, **options: Any) -> bool:
    """Return whether there was a result; it has no NaN, and nothing infinite."""
    refusal, results = None, []
    try:
        results = question(frame, **options)
    except DataError as error:
        refusal = str(error)
    assert refusal is None or ("\n" not in refusal and len(refusal) > 20), refusal
    assert_finite(results, but=JOBS.columns)
    return refusal is None


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_column_at_fault_is_one_line_or_a_sound_result(name: str) -> None:
    question = QUESTIONS[name]
    assert is_sound(question, JOBS)
    for column in question.reads:
        for fault in WORST:
            answered = is_sound(question, JOBS.with_columns(FAULTS[fault](column)))
            assert not answered or fault != "lists", column
        for dtype in (pl.UInt64, pl.Decimal(20, 2), pl.Categorical):
            kind = JOBS.schema[column]
            if (kind == pl.String) == (dtype == pl.Categorical):
                assert is_sound(question, JOBS.with_columns(pl.col(column).cast(dtype)))
        with pytest.raises(DataError, match=rf"column {column}"):
            question(JOBS.drop(column))


@pytest.mark.parametrize("name", QUESTIONS)
def test_few_rows_or_what_is_no_frame_is_one_line_or_a_sound_result(name: str) -> None:
    question = QUESTIONS[name]
    untyped = pl.DataFrame({column: [] for column in JOBS.columns})
    for rows in (JOBS.clear(), untyped, *map(JOBS.head, (1, 2, 3, 4)), pl.concat([JOBS, JOBS])):
        is_sound(question, rows)
    for frame in (None, [1], JOBS.lazy().with_columns(pl.col("nowhere"))):
        assert not is_sound(question, frame)


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_option_that_cannot_be_is_one_line(name: str) -> None:
    question = QUESTIONS[name]
    for option, value in question.refuses:
        if (option, value) != ("by", "n_clusters"):
            assert not is_sound(question, JOBS, **{option: value}), (option, value)


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name.endswith("clusters")])
def test_one_cluster_gives_no_interval(name: str) -> None:
    question, alone = QUESTIONS[name], JOBS.with_columns(user=pl.lit("u"))
    results = [] if not is_sound(question, alone) else question(alone)
    for part in results:
        if {"ci_low", "note"} <= set(part.columns):
            assert part["ci_low"].count() == part["ci_high"].count() == 0
            assert part["note"].null_count() == 0
    is_sound(question, JOBS.with_columns(user=pl.when(pl.col("user") != "u0").then("user")))
