"""Names that a user guesses exist, or the error states the right one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, isfunction, signature
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.errors import DataError, TraceanaError
from traceana.figures import draw_figure, plot_correlations
from traceana.guesses import _meant
from traceana.modules import import_named
from traceana.tables.declare import ResultTable
from traceana.tables.result import Result, _same

ROWS = pl.DataFrame(
    {"runtime_s": [10.0, 20, 30, 40, None] * 40, "gpus": [1.0, 2, 4, 8, 1] * 40, "user": "a"}
)
TRACE = traceana.open_sample().trace("microsoft-itp-2021")


@pytest.mark.parametrize(
    ("guess", "right"),
    [
        ("read_sacct", "read(path)"),
        ("failure_rate", "failure_rates"),
        ("gpu_hours", "gpu_hours_by"),
        ("waiting_time", "queueing_delay"),
        ("wait_times", "queueing_delay"),
        ("users", "gpu_hours_by"),
        ("analysis", "traceana.failure_rates"),
        ("Session", "open_store"),
        ("detect_straglers", "detect_stragglers"),
        ("nothing_like_this", "dir(traceana)"),
    ],
)
def test_the_error_states_the_right_name(guess: str, right: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(traceana, guess)
    assert right in str(error.value)
    assert "\n" not in str(error.value)


def test_no_guess_is_a_name_that_exists_and_every_answer_is() -> None:
    assert {name for name in _meant() if name in dir(traceana)} == set()
    for right in _meant().values():
        for name in re.findall(r"traceana\.(\w+)", right):
            assert hasattr(traceana, name), right


@pytest.mark.parametrize(
    ("guess", "right"), [("gpu_demand", "plot_gpu_demand"), ("zzz", "dir(traceana.figures)")]
)
def test_a_figure_that_is_not_there_names_one_that_is(guess: str, right: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(traceana.figures, guess)
    assert right in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: traceana.kaplan_meier(ROWS, by="usr"),
            r"usr, status is missing; .* \(did you mean user\?\)",
        ),
        (lambda: traceana.kaplan_meier(ROWS, ROWS["user"]), "a list of names, got Series"),  # type: ignore[arg-type]
        (lambda: traceana.fit_distributions(ROWS), r'jobs\["runtime_s"\]'),  # type: ignore[arg-type]
        (lambda: traceana.detect_stragglers(TRACE), r'such as trace\["jobs"\]'),
        (lambda: traceana.check_claims("zeus"), "expected a store"),  # type: ignore[arg-type]
        (
            lambda: traceana.check_claims(TRACE.store, paper="itp-elasticflou"),
            "did you mean itp-elasticflow",
        ),
        (lambda: TRACE.store.trace("zeus"), r"did you mean zeus-2023\?"),
        (lambda: TRACE.table("job"), r"did you mean jobs\?"),
        (lambda: TRACE.plot("gpu_demnd"), r"did you mean gpu-demand\?"),
    ],
)
def test_an_error_leads_on(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TraceanaError, match=message):
        call()


def test_a_function_is_not_a_method_of_a_trace() -> None:
    with pytest.raises(AttributeError, match=r'traceana\.failure_rates\(trace\["jobs"\], \.\.\.\)'):
        TRACE.failure_rates()


def test_a_trace_names_its_frames_and_methods() -> None:
    with pytest.raises(AttributeError, match=r'trace\["jobs"\].*summary\(\)'):
        TRACE.head()
    with pytest.raises(DataError, match="concentration"):
        TRACE.plot()


def test_by_after_the_data_may_be_given_by_position() -> None:
    for name in dir(traceana):
        function = getattr(traceana, name)
        if not isfunction(function):
            continue
        rest = [
            parameter
            for parameter in signature(function).parameters.values()
            if parameter.kind != Parameter.POSITIONAL_ONLY
        ]
        if rest and rest[0].name == "by":
            assert rest[0].kind == Parameter.POSITIONAL_OR_KEYWORD, name


def test_submodules_load_on_access() -> None:
    assert traceana.errors.DataError is DataError
    assert traceana.figures.plot_correlations is plot_correlations
    assert "__version__" in dir(traceana)


def test_a_result_names_its_frames_for_methods_of_a_frame() -> None:
    result = traceana.correlate(ROWS, "gpus", "runtime_s")
    with pytest.raises(AttributeError, match=r"table\.write_csv"):
        result.write_csv("table.csv")
    with pytest.raises(AttributeError, match=r"it has table, .*summary\(\)"):
        _ = result.tabel


def test_a_size_of_a_figure_is_set_on_its_axes() -> None:
    with pytest.raises(DataError, match=r"ax= of a figure"):
        draw_figure("correlations", ROWS, figsize=(3, 2))


def test_results_are_equal_if_all_their_fields_are() -> None:
    one, other = (traceana.correlate(ROWS, "gpus", "runtime_s") for _ in range(2))
    assert one == other
    changed = replace(other, table=other.table.with_columns(n=pl.lit(1, pl.Int64)))
    assert one != changed
    assert one != 1


@pytest.mark.parametrize("value", [float("nan"), np.array([1, np.nan]), {"a": [pl.Series([None])]}])
def test_missing_values_equal_themselves(value: object) -> None:
    assert _same(value, value)
    assert not _same(value, np.array([2]))


def test_every_class_of_results_takes_the_comparison_of_the_base() -> None:
    for _ in import_named("*/tables*.py", "questions/*/tables*.py", "simulate/*/tables*.py"):
        pass
    waiting, own = [Result], []
    while waiting:
        subclasses = waiting.pop().__subclasses__()
        own += [found.__name__ for found in subclasses if "__eq__" in vars(found)]
        waiting += subclasses
    assert not own, "eq=False in the dataclass"


def test_columns_side_by_side_with_one_heading_are_the_ends_of_an_interval() -> None:
    for _ in import_named("*/tables*.py", "questions/*/tables*.py", "simulate/*/tables*.py"):
        pass
    waiting, shown_as_one = [ResultTable], set()
    while waiting:
        subclasses = waiting.pop().__subclasses__()
        waiting += subclasses
        for table in subclasses:
            columns = [
                (name, (c.metadata or {}).get("heading")) for name, c in table.columns().items()
            ]
            for (low, heading), (high, same) in pairwise(columns):
                if heading is not None and heading == same:
                    shown_as_one.add((low, high))
    ends = {"low": "high", "lowest": "highest", "first": "last"}
    for low, high in shown_as_one:
        assert any(low.replace(a, b) == high for a, b in ends.items()), (low, high)
