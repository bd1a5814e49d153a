"""Results show themselves shortly, whatever they hold."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import polars as pl

import traceana as analysis
from traceana import claims, correlate, cumulative_incidence, simulate
from traceana.modules import import_named
from traceana.tables.result import Result, _short

ROWS = pl.DataFrame(
    {
        "runtime_s": [10.0, 20, 30, 40, None] * 40,
        "gpus": [1.0, 2, 4, 8, 1] * 40,
        "status": ["completed", "failed", "completed", "running", "failed"] * 40,
        "cluster": ["a", "b"] * 100,
    }
)


def test_every_result_class_derives_from_the_base() -> None:
    rooms = [analysis, simulate, claims]
    rooms += import_named("*/tables*.py", "questions/*/tables*.py", "simulate/*/tables*.py")
    holders = {
        thing
        for room in rooms
        for thing in (getattr(room, name) for name in getattr(room, "__all__", dir(room)))
        if isinstance(thing, type)
        and hasattr(thing, "__dataclass_fields__")
        and any("DataFrame" in str(field.type) for field in fields(thing))
    }
    assert len(holders) >= 10
    assert {thing.__name__ for thing in holders if not issubclass(thing, Result)} == set()


def test_a_representation_names_the_fields_and_sizes() -> None:
    found = repr(correlate(ROWS, "gpus", "runtime_s"))
    assert found.startswith("CorrelationResult(table=<DataFrame 1 x ")
    assert len(found) < 300
    assert "\n" not in found


def test_arrays_and_long_tuples_are_sizes_too() -> None:
    assert _short(np.zeros((3, 2))) == "<ndarray 3 x 2>"
    assert _short(tuple(range(9))) == "<tuple of 9>"
    assert _short({"a": 1}) == "<dict of 1>"
    assert _short(("a", 2.5, None)) == "('a', 2.5, None)"


def test_a_summary_has_the_columns_of_its_tables_and_no_column_of_nulls() -> None:
    ends = cumulative_incidence(ROWS, by="cluster", events=("completed", "failed"))
    head, first, *others = str(ends).splitlines()
    assert head.split()[:5] == ["Cluster", "Event", "Rows", "Events", "Censored"]
    row = ends.groups.row(0, named=True)
    counted = [str(row[name]) for name in ("n", "n_events", "n_censored")]
    assert first.split()[:5] == ["a", "completed", *counted]
    low, high = (f"{100 * row[name]:.1f}" for name in ("ci_low", "ci_high"))
    assert f"{100 * row['incidence']:.1f} %" in first
    assert f"{low} to {high} %" in first
    assert len(others) == 3
    assert "Note" not in str(ends.only("completed"))
