"""Repeated rows over blocks."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.ingesters.build import KeyFilter


def test_a_key_of_an_earlier_block_is_set_apart() -> None:
    keys = KeyFilter(["a", "b"])
    first = pl.DataFrame({"a": ["x", "x", "y"], "b": [1.0, 2.0, 1.0], "c": [1, 2, 3]})
    second = pl.DataFrame({"a": ["y", "x", "z"], "b": [1.0, 3.0, 1.0], "c": [4, 5, 6]})
    assert [part["c"].to_list() for part in keys.split(first)] == [[1, 2, 3], []]
    assert [part["c"].to_list() for part in keys.split(second)] == [[5, 6], [4]]


@settings(max_examples=30, deadline=None)
@given(blocks=st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=12))
def test_of_equal_keys_the_first_is_new(blocks: list[list[int]]) -> None:
    keys = KeyFilter(["key"])
    seen: set[int] = set()
    for block in blocks:
        new, again = keys.split(pl.DataFrame({"key": block}, schema={"key": pl.Int64}))
        expected = [key for i, key in enumerate(block) if key not in seen | set(block[:i])]
        assert new["key"].to_list() == expected
        assert new.height + again.height == len(block)
        assert set(again["key"]) <= seen | set(expected)
        seen |= set(block)


def test_without_a_key_all_rows_are_new() -> None:
    rows = pl.DataFrame({"a": [1, 1]})
    assert [part.height for part in KeyFilter([]).split(rows)] == [2, 0]
