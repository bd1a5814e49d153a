"""The rules of a table come from a private part of dataframely; here is what to do if it goes."""

from __future__ import annotations

import dataframely as dy
import polars as pl
import pytest

from traceana.schema import TABLES, get_rules, get_table

REMEDY = (
    "dataframely changed Schema._validation_rules: adapt get_rules in traceana/schema/registry.py, "
    "which has to return the expression of each rule, false where a row breaks it"
)


class Small(dy.Schema):
    """A table of two columns and a rule."""

    a = dy.Int64(nullable=False, min=1)
    b = dy.Float64(nullable=True)

    @dy.rule()
    def in_order(cls) -> pl.Expr:
        """The second is not below the first."""
        return cls.b.col >= cls.a.col


def test_rules_have_names_and_expressions() -> None:
    assert hasattr(dy.Schema, "_validation_rules"), REMEDY
    found = {name: rule.expr for name, rule in Small._validation_rules(with_cast=False).items()}
    assert {"a|nullability", "a|min", "in_order"} <= found.keys(), REMEDY
    rows = pl.DataFrame({"a": [1, 0, 2], "b": [1.0, 5.0, 1.0]})
    broken = rows.select(~expr.alias(name) for name, expr in found.items())
    assert broken["a|min"].to_list() == [False, True, False], REMEDY
    assert broken["in_order"].to_list() == [False, False, True], REMEDY


@pytest.mark.parametrize("table", list(TABLES))
def test_the_rules_agree_with_the_public_filter(table: str) -> None:
    columns = get_table(table).columns()
    row = {name: [1] if one.dtype.is_numeric() else ["completed"] for name, one in columns.items()}
    rows = pl.DataFrame(row).cast({name: one.dtype for name, one in columns.items()})
    rules = {name: one for name, one in get_rules(table).items() if name != "primary_key"}
    right = rows.select(pl.all_horizontal(True, *rules.values()).fill_null(value=True)).item()
    kept, _ = get_table(table).filter(rows)
    assert right == (kept.height == 1), REMEDY
