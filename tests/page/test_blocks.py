"""Blocks of a page: columns without values, and the name of the only trace."""

from __future__ import annotations

import polars as pl

from traceana.page.blocks import Content, Heading, Table, result_table
from traceana.report.arrange import drop_name


def test_a_column_without_values_is_left_out() -> None:
    frame = pl.DataFrame(
        {"job": ["a", "b"], "ci_low": [1.0, 2.0], "ci_high": [None, None], "p": [None, None]},
        schema_overrides={"ci_high": pl.Float64, "p": pl.Float64},
    )
    table = result_table(frame, caption="Jobs", headings={"ci_low": "From", "ci_high": "To"})
    assert table.headings == ("Job", "From", "To")
    assert "p" in result_table(frame, caption="Jobs", null={"p": "none"}).headings[-1].lower()
    assert len(result_table(frame.clear(), caption="Jobs").headings) == 4


def test_rows_and_headings_lose_the_name_of_the_only_trace() -> None:
    table = Table("Runtimes of mine", ("Of", "n"), (False, True), (("mine: jobs", "9"),))
    content = drop_name(Content(blocks=(Heading("mine: jobs"), table)), "mine")
    heading, shown = content.blocks
    assert heading == Heading("Jobs")
    assert isinstance(shown, Table)
    assert shown.rows == (("Jobs", "9"),)


def test_a_table_of_the_only_trace_has_no_column_of_traces() -> None:
    rows = (("mine: jobs", "5 %", "9"), ("mine: jobs", "1 %", "2"))
    table = Table("Tails", ("Trace", "Above", "n"), (False, False, True), rows)
    (shown,) = drop_name(Content(blocks=(table,)), "mine").blocks
    assert isinstance(shown, Table)
    assert (shown.headings, shown.rows) == (("Above", "n"), (("5 %", "9"), ("1 %", "2")))
