"""The changes that the mutation runner makes, and the list of those without an effect."""

from __future__ import annotations

from typing import Any

from tests.mutants import EQUIVALENT, OPERATORS, ROOT, Mutant, covering, folder_of, mutants


def test_listed_changes_are_changes_of_the_code_with_a_reason() -> None:
    lines = [line.partition("  # ") for line in EQUIVALENT.read_text().splitlines()]
    paths = {change.partition(": ")[0] for change, _, _ in lines}
    changes = {f"{one.path}: {one.text}" for path in paths for one in mutants(ROOT / path)}
    assert {change for change, _, _ in lines} <= changes
    assert all(reason for _, _, reason in lines)


def test_a_change_of_an_operator_is_one_of_one_place() -> None:
    path = ROOT / "traceana/stats/intervals.py"
    source, changes = path.read_text(), list(mutants(path))
    (product,) = (m for m in changes if "(p / n, " in m.text)
    assert product.function == "clustered_wilson_interval"
    assert source[product.start : product.end] == "*"
    assert len({(m.start, m.end, m.new) for m in changes}) == len(changes)
    for mutant in changes:  # each is a program
        compile(source[: mutant.start] + mutant.new + source[mutant.end :], mutant.path, "exec")
    assert set(OPERATORS) >= {"Add", "NotIn", "IsNot", "Or"}


def test_tests_that_call_the_function_run_and_those_of_its_name_first() -> None:
    mutant = Mutant("traceana/stats/distributions/goodness.py", 9, "hill", 0, 1, "2", "")
    tests = {
        "tests/a/test_fit.py::quick": (1.0, [f"{mutant.path}:hill"]),
        "tests/a/test_goodness.py::slow": (5.0, [f"{mutant.path}:hill"]),
        "tests/a/test_goodness.py::other": (1.0, [f"{mutant.path}:other"]),
    }
    assert folder_of(mutant) == "tests/stats/distributions"
    assert covering(tests, mutant, 10) == [
        "tests/a/test_goodness.py::slow",
        "tests/a/test_fit.py::quick",
    ]
    assert covering(tests, mutant._replace(function=""), 10) == [
        "tests/a/test_goodness.py::other",
        "tests/a/test_goodness.py::slow",
        "tests/a/test_fit.py::quick",
    ]
    unread: dict[str, Any] = {
        "tests/a/test_goodness.py::table": (1.0, []),
        "tests/a/test_fit.py::other": (1.0, []),
    }
    assert covering(unread, mutant._replace(function=""), 10) == ["tests/a/test_goodness.py::table"]
