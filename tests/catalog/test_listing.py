from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from traceana.catalog import list_traces
from traceana.catalog.model import get_trace

if TYPE_CHECKING:
    import pytest


def test_one_row_a_trace_with_what_it_takes_to_choose() -> None:
    traces = list_traces()
    assert traces.schema == {
        "trace": pl.String,
        "description": pl.String,
        "tables": pl.List(pl.String),
        "rows": pl.Int64,
        "bytes": pl.Int64,
        "license": pl.String,
        "files": pl.Int64,
    }
    assert traces["trace"].to_list() == [
        "acme-2023",
        "alibaba-dlrm-2025",
        "alibaba-minibatch-2020",
        "alibaba-openb-2023",
        "alibaba-pai-2020",
        "alibaba-spot-2026",
        "bytedance-stragglers-2025",
        "elasticflow-2023",
        "elasticflow-philly-2023",
        "helios-2020",
        "infinitehbd-2025",
        "microsoft-itp-2021",
        "philly-2017",
        "zeus-2023",
    ]


def test_sums_are_over_what_the_publishers_state() -> None:
    rows = {row["trace"]: row for row in list_traces().to_dicts()}
    # the publisher's counts of its seven tables, and the sizes of its archives and headers
    pai = rows["alibaba-pai-2020"]
    assert pai["rows"] == (
        1_055_501 + 1_261_050 + 7_522_002 + 3_033_232 + 1_055_032 + 1_897 + 2_009_423
    )
    assert pai["files"] == 14
    assert rows["microsoft-itp-2021"]["rows"] == 69_351
    assert rows["microsoft-itp-2021"]["bytes"] == 1_943_846
    # one of the six files has no published size: the other five are summed
    assert rows["zeus-2023"]["files"] == 6
    assert rows["zeus-2023"]["bytes"] == 186_977 + 29_641 + 18_163 + 27_704 + 32_534


def test_what_nobody_states_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    zeus = get_trace("zeus-2023")
    unknown = replace(zeus, rows={}, files=tuple(f for f in zeus.files if f.bytes is None))
    monkeypatch.setattr("traceana.catalog.model.load_catalog", lambda: {"zeus-2023": unknown})
    (row,) = list_traces().to_dicts()
    assert row["rows"] is None
    assert row["bytes"] is None
    assert row["files"] == 1
