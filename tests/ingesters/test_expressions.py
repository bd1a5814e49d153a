"""Expressions of a mapping: the tree that is checked is the expression that is computed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.errors import DataError, SourceError
from traceana.ingesters import ingest
from traceana.ingesters.expressions import row_condition

names = st.sampled_from(["a", "b", "user", "order"])
numbers = st.one_of(
    names.filter(lambda name: name in ("a", "b")),
    st.integers(-9, 9).map(str),
    st.sampled_from(["1.5e0", "2e1"]),
)
values = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
            lambda one: f"({' '.join(one)})"
        ),
        inner.map(lambda one: f"ABS({one})"),
        st.tuples(inner, inner).map(lambda two: f"COALESCE({two[0]}, {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"CASE WHEN a > {two[0]} THEN {two[1]} ELSE b END"),
    ),
    max_leaves=6,
)
ROWS = pl.DataFrame({"a": [1.0, 7.0, None], "b": [2.0, 0.5, 3.0], "user": ["x", "y", "z"]})


@given(left=values, right=values, sign=st.sampled_from(["=", "<>", "<", ">="]))
def test_a_condition_is_what_polars_computes(left: str, right: str, sign: str) -> None:
    text = f"{left} {sign} {right} AND NOT b IS NULL"
    found = ROWS.select(row_condition(text, ROWS.columns, where="where").alias("it"))
    assert found.equals(ROWS.select(pl.sql_expr(text).alias("it")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user = 'x'", [True, False, False]),
        ("user IN ('x', 'z') AND LENGTH(user) = 1", [True, False, True]),
        ("user LIKE 'y%' OR a // 2 = 0", [True, True, None]),
        ("UPPER(user) || '!' = 'Z!'", [False, False, True]),
        ("a BETWEEN 1 AND 5", [True, False, None]),
        ("CAST(a AS INT) % 2 = 1", [True, True, None]),
        ("b + 0.5 = 2.5 AND a IS DISTINCT FROM 1.5", [True, False, False]),
    ],
)
def test_names_of_sql_are_columns_too(text: str, expected: list[bool | None]) -> None:
    assert (
        ROWS.select(row_condition(text, ROWS.columns, where="w")).to_series().to_list() == expected
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("usr = 'x'", r"no column is called 'usr' \(did you mean 'user'\?\)"),
        ("a > (SELECT 1)", "cannot be used"),
        ("a IN (SELECT 1)", "cannot be used"),
        ("COUNT(*) > 1", "cannot be used"),
        ("a > CURRENT_DATE", "cannot be used"),
        ("a >", "not an SQL condition"),
    ],
)
def test_what_is_no_condition_of_one_row_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason) as error:
        row_condition(text, ROWS.columns, where="where")
    assert "\n" not in str(error.value)


def test_a_file_of_other_columns_asks_for_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match=r"give a mapping: traceana map .*x\.csv --out M\.toml"):
        ingest(path, trace="mine", store=tmp_path / "s")


def test_each_cast_of_an_expression_may_fail(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\nz,2\n1,q\n3,4\n")
    total = '"CAST(a AS DOUBLE) + CAST(b AS DOUBLE)"'
    (nulled,), (rejected,) = (
        getattr(
            ingest(
                path,
                mapping=f'[trace]\ntitle = "t"\n[jobs]\n{column} = {total}\n',
                trace=column,
                store=tmp_path / "store",
            ),
            kind,
        ).rows()
        for column, kind in (("runtime_s", "nulled"), ("submit_s", "rejections"))
    )
    assert nulled[2:] == ("runtime_s|not_computable", 2)
    assert rejected[2:] == ("submit_s|not_computable", 2)
