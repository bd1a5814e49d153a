"""Expressions and values of a mapping, each beside one that just differs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.ingesters.test_mapping import column
from traceana.ingesters import IngestError


@pytest.mark.parametrize(
    ("target", "stated", "cells", "expected"),
    [
        ("memory_gib_used", '{ size = "x" }', ["2G", "1073741824"], [2.0, 1.0]),
        (
            "status",
            '{ column = "x", values = { "CANCELLED*" = "cancelled" } }',
            ["CANCELLED by 7", "CANCELLED", "CANCELLE"],
            ["cancelled", "cancelled", "unknown"],
        ),
        (
            "user",
            '{ column = "x", values = { "a" = "anna" } }',
            ["a", "b", ""],
            ["anna", "b", None],
        ),
        ("runtime_s", '"x * 0.25"', ["2"], [0.5]),
        ("runtime_s", '"x * 12.125"', ["8"], [97.0]),
        ("runtime_s", '"CASE WHEN LENGTH(x) = x THEN 1 ELSE 0 END"', ["1", "22"], [1.0, 0.0]),
        ("runtime_s", '"CASE WHEN UPPER(x) = x THEN 1 ELSE 0 END"', ["A", "b"], [1.0, 0.0]),
        (
            "runtime_s",
            "\"CASE WHEN SPLIT_PART(x, ':', 1) < x THEN 1 ELSE 0 END\"",
            ["a:b", "a"],
            [1.0, 0.0],
        ),
        (
            "runtime_s",
            '"CASE WHEN COALESCE(x, 7) > 10 THEN 1 ELSE 0 END"',
            ["", "9", "11"],
            [0.0, 0.0, 1.0],
        ),
        ("runtime_s", '"CASE WHEN COALESCE(x, 7) = x THEN 1 ELSE 0 END"', ["9.0", ""], [1.0, 0.0]),
    ],
)
def test_values(
    tmp_path: Path, target: str, stated: str, cells: list[str], expected: list[Any]
) -> None:
    assert column(tmp_path, cells, stated, target) == expected


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("\"ABS('a')\"", r"runtime_s: cannot be computed \(`abs` operation not supp"),
        ("\"ARRAY_LENGTH(STRING_TO_ARRAY(x, ','))\"", r"cannot be used \(ARRAY_LENGTH\)"),
        (f'"{"y" * 200}"', f"no column '{'y' * 200}';"),
        (f'"{"y" * 201}"', rf"no column '{'y' * 200}\.\.\.';"),
        (f'"{"x + 1":<8193}"', "has too many terms"),
        (f'"1{"+1" * 3000}"', "has too many terms"),
        ("\"LENGTH(LPAD(x, 1000000000, 'y'))\"", "may pad to 999 characters at most"),
    ],
)
def test_what_cannot_be_computed_is_named(tmp_path: Path, stated: str, message: str) -> None:
    with pytest.raises(IngestError, match=message):
        column(tmp_path, ["1"], stated)


def test_an_expression_may_have_8192_characters(tmp_path: Path) -> None:
    assert column(tmp_path, ["1"], f'"{"x + 1":<8192}"') == [2.0]


NO_TEXT = ["TRUE", "NULL", "1.5", "x BETWEEN 1 AND 2", "x IS NULL", "LENGTH(x)", "CAST(x AS DATE)"]


@pytest.mark.parametrize("text", NO_TEXT)
@pytest.mark.parametrize(
    ("target", "form"),
    [
        ("status", '"{}"'),
        ("submit_s", '{{ time = "{}" }}'),
        ("submit_s", '{{ time = "{}", format = "%Y" }}'),
        ("runtime_s", '{{ duration = "{}" }}'),
        ("memory_gib_used", '{{ size = "{}" }}'),
        ("status", '{{ column = "{}", values = {{ "a*" = "completed" }} }}'),
        ("nodes", '{{ column = "{}", values = {{ "a*" = 2 }} }}'),
    ],
)
def test_an_expression_that_is_no_text_is_read_as_text_or_refused(
    tmp_path: Path, target: str, form: str, text: str
) -> None:
    with contextlib.suppress(IngestError):  # a line; without the conversion, Polars' exception
        column(tmp_path, ["1"], form.format(text), target)


def test_a_truth_value_is_a_status(tmp_path: Path) -> None:
    stated = '{ column = "x > 1", values = { true = "completed", false = "failed" } }'
    assert column(tmp_path, ["1", "2"], stated, "status") == ["failed", "completed"]
