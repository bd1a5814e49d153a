"""Whatever comes in, a result without NaN or one clear line comes out, never a library's error.

Every common fault is put into every column that a function reads.
"""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pytest

import traceana as analysis
from tests.questions.energy.zeus_tables import POWER, RUNS
from tests.questions.questions import FAULTS, QUESTIONS, ROW, ROWS, is_sound
from traceana.errors import DataError
from traceana.simulate.recurring import read as tables

FRAMES = {id(frame): frame for frame in (ROWS, RUNS, POWER)}
READ: dict[tuple[str, int], pl.DataFrame | DataError] = {}


@cache
def at_fault(frame: int, fault: str, columns: tuple[str, ...]) -> pl.DataFrame:
    made = FRAMES[frame].with_columns(map(FAULTS[fault], columns))
    return FRAMES.setdefault(id(made), made)


@pytest.fixture(autouse=True)
def tables_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read each table once, sound or at fault: the functions about energy share how they read."""
    read = tables.read_table

    def read_or_recall(name: str, frame: Any, **options: Any) -> pl.DataFrame:
        if id(frame) not in FRAMES or options:
            return read(name, frame, **options)
        if (name, id(frame)) not in READ:
            try:
                READ[name, id(frame)] = read(name, frame)
            except DataError as error:
                READ[name, id(frame)] = error
        found = READ[name, id(frame)]
        if isinstance(found, DataError):
            raise found
        return found

    monkeypatch.setattr(tables, "read_table", read_or_recall)


def test_every_descriptive_function_is_asked() -> None:
    described = tuple(
        f"traceana.questions.{idea}." for idea in ("stragglers", "workload", "energy")
    )
    functions = {
        name
        for name in vars(analysis)["__all__"]
        if inspect.isfunction(function := getattr(analysis, name))
        and function.__module__.startswith(described)
    }
    # one takes a result of ours, one returns no frame, one has names of columns of its own
    functions -= {"batch_size_sweep", "training_defaults", "resource_usage"}
    assert functions <= {name.partition(",")[0] for name in QUESTIONS}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_as_it_should_be_is_answered(name: str) -> None:
    assert is_sound(QUESTIONS[name], QUESTIONS[name].frame)
    assert is_sound(QUESTIONS[name], QUESTIONS[name].frame.lazy())


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_column_at_fault_is_one_line_or_a_sound_result(name: str) -> None:
    question = QUESTIONS[name]
    refused = {"infinite", "infinite in a row", "negative", "text", "lists", "objects"}
    for fault in FAULTS:
        for column in question.reads:
            answered = is_sound(question, at_fault(id(question.frame), fault, (column,)))
            if (column in question.measures and fault in refused) or fault == "lists":
                assert not answered, (fault, column)
        if len(question.measures) > 1:
            is_sound(question, at_fault(id(question.frame), fault, question.measures))


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_missing_column_is_named(name: str) -> None:
    question = QUESTIONS[name]
    for column in question.reads:
        with pytest.raises(DataError, match=rf"column {column} is missing; found ") as refusal:
            question(question.frame.drop(column))
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", QUESTIONS)
def test_few_rows_or_repeated_ones_are_one_line_or_a_sound_result(name: str) -> None:
    question, frame = QUESTIONS[name], QUESTIONS[name].frame
    untyped = pl.DataFrame({column: [] for column in frame.columns})
    for rows in (frame.clear(), untyped, *map(frame.head, (1, 2, 3, 4)), pl.concat([frame, frame])):
        is_sound(question, rows)
    # a worker, a sample or a run twice is counted twice by nobody
    if set(question.reads) & {"worker_id", "sample", "run", "power_limit_w"}:
        assert not is_sound(question, pl.concat([frame, frame]))


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_no_frame_or_fails_when_run_is_one_line(name: str) -> None:
    question, rows = QUESTIONS[name], QUESTIONS[name].frame.lazy()
    first = question.reads[0]
    number = pl.lit("x").cast(pl.Int64).alias(first)
    for frame in (None, [1], rows.with_columns(pl.col("nowhere")), rows.with_columns(number)):
        assert not is_sound(question, frame)


def test_a_query_that_fails_in_duckdb_is_one_line() -> None:
    query = "SELECT 'c' AS cluster, CAST(t AS INT) AS runtime_s FROM (VALUES ('x'), ('2')) AS v(t)"
    with pytest.raises(DataError, match="the frame cannot be read: Conversion"):
        analysis.runtime_by(duckdb.connect().sql(query), "cluster")


# these take no groups
OF_RUNS = {"energy", "eta", "match"}


@pytest.mark.parametrize("name", [one for one in QUESTIONS if one.partition("_")[0] not in OF_RUNS])
def test_by_names_groups_and_nothing_else(name: str) -> None:
    question = QUESTIONS[name]
    results = question(ROWS)
    made = {column for result in results for column in result.columns} - set(ROWS.columns)
    # a column beside those that are read may have any name
    bystanders = ROWS.with_columns(pl.lit("x").alias(column) for column in made)
    for ours, other in zip(results, question(bystanders), strict=True):
        assert ours.equals(other)
    for column in made:
        assert not is_sound(question, bystanders, by=column), column
    for by in (*question.measures, "nowhere", ("cluster", "cluster"), (1,), 1, None, {"cluster"}):
        assert not is_sound(question, ROWS, by=by), by


@pytest.mark.parametrize("name", [one for one in QUESTIONS if one.partition("_")[0] not in OF_RUNS])
def test_a_name_that_means_something_else_to_an_engine_is_one_line(name: str) -> None:
    for unfit in ("", "*", "^job$", ".job", ".row", 'a "b"'):
        renamed = ROWS.with_columns(pl.Series(unfit, ROWS["cluster"]))
        assert not is_sound(QUESTIONS[name], renamed, by=unfit), unfit
        assert is_sound(QUESTIONS[name], renamed), unfit  # beside those read, it may stand


@pytest.mark.parametrize("name", ["last", "len", "count", "n_rows", "literal", "a b", "x'y", "job"])
def test_a_name_that_is_used_within_is_as_good_as_any(name: str) -> None:
    frame = ROWS.rename({"job_id": name})
    for asked in (
        "iteration_cov",
        "detect_stragglers",
        "summarize_cov_series",
        "summarize_cov_pooled",
    ):
        ours, theirs = (QUESTIONS[asked](f, by=by) for f, by in ((ROWS, "job_id"), (frame, name)))
        for one, other in zip(ours, theirs, strict=True):
            assert one.rename({"job_id": name}, strict=False).equals(other)


def test_the_time_of_a_tick_is_a_finite_number_or_a_time() -> None:
    for odd in (math.inf, -math.inf):
        later = ROWS.with_columns(pl.when(ROW < 3).then(odd).otherwise("time_s").alias("time_s"))
        for frame in (later, later.sample(fraction=1, shuffle=True, seed=0)):
            with pytest.raises(DataError, match="column time_s has an infinite value"):
                analysis.iteration_cov(frame, ddof=0)
    other = r"column time_s has type .*; time= needs numbers"
    for clock, fault in (
        (pl.format("{}", "time_s"), other),
        (pl.col("time_s") > 50, other),
        (pl.lit(b"x"), "column time_s holds Binary; text, numbers or times are needed"),
    ):
        with pytest.raises(DataError, match=fault):
            analysis.iteration_cov(ROWS.with_columns(clock.alias("time_s")), ddof=0)
    without = ROWS.with_columns(pl.lit(None, pl.String).alias("time_s"), batch_time=None)
    assert analysis.iteration_cov(without, ddof=0).is_empty()


@pytest.mark.parametrize("name", [name for name, one in QUESTIONS.items() if one.options])
def test_an_option_that_cannot_be_is_one_line(name: str) -> None:
    for option, value in QUESTIONS[name].options:
        refused = not is_sound(QUESTIONS[name], QUESTIONS[name].frame, **{option: value})
        assert refused, (option, value)
