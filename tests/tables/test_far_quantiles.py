"""Quantiles of n values have no value beyond 1 - 1/n."""

from __future__ import annotations

import polars as pl

from traceana.tables.display import without_far_quantiles


def test_a_quantile_beyond_the_largest_value_is_null() -> None:
    rows = pl.DataFrame(
        {
            "n": [7, 20, 100],
            "p05": [1.0] * 3,
            "p95_s": [2.0] * 3,
            "run_p99": [3.0] * 3,
            "p99_pending_s": [4.0] * 3,
        }
    )
    found = without_far_quantiles(rows)
    assert found["p05"].to_list() == [None, 1.0, 1.0]
    assert found["p95_s"].to_list() == [None, 2.0, 2.0]
    assert found["run_p99"].to_list() == [None, None, 3.0]
    assert found["p99_pending_s"].to_list() == [None, None, 4.0]
    assert without_far_quantiles(rows.drop("n"))["p05"].to_list() == [1.0] * 3
