"""Results show themselves shortly, whatever they hold."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import polars as pl

import traceana as analysis
from traceana import claims, correlate, cumulative_incidence, kaplan_meier, simulate
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


def test_curves_print_a_line_a_group_with_the_estimate_and_its_interval() -> None:
    ends = cumulative_incidence(ROWS, by="cluster", events=("completed", "failed"))
    head, *lines = str(ends).splitlines()
    assert head == f"{ends.groups.height} curves, {ends.curves.height} steps"
    row = ends.groups.row(0, named=True)
    assert lines[0] == (
        f"a, completed: n = {row['n']}, {row['n_events']} events, {row['n_censored']} censored; "
        f"cumulative incidence {row['incidence']:.3f} ({row['ci_low']:.3f} to {row['ci_high']:.3f})"
    )
    (all_rows,) = str(kaplan_meier(ROWS, events=("completed",))).splitlines()[1:]
    assert all_rows.startswith("all: n = 160, 80 events, 80 censored; median ")
