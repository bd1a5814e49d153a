"""Sections whose data are not there say what to fetch and ingest, and show no empty table."""

from __future__ import annotations

import pytest

from tests.report.reader import Element, section

OTHERS = (
    "alibaba-minibatch-2020",
    "alibaba-openb-2023",
    "alibaba-pai-2020",
    "elasticflow-2023",
    "microsoft-itp-2021",
)


@pytest.mark.parametrize(
    ("name", "traces"),
    [
        ("traces", OTHERS),
        ("variation", ("alibaba-minibatch-2020",)),
        ("workload", OTHERS[1:]),
        ("outcomes", ("alibaba-openb-2023", "alibaba-pai-2020")),
    ],
)
def test_the_remedy_is_named(zeus_page: Element, name: str, traces: tuple[str, ...]) -> None:
    commands = [pre.text for pre in section(zeus_page, name).all("pre")]
    for trace in traces:
        (remedy,) = {text for text in commands if f"fetch {trace} " in text}
        assert f"traceana ingest files/{trace} --store '" in remedy, "a path with a space is quoted"


def test_no_table_or_figure_stands_in_for_missing_data(zeus_page: Element) -> None:
    for name in ("variation", "workload", "outcomes"):
        assert not section(zeus_page, name).all("table", "figure")
    assert all(table.all("td") for table in zeus_page.all("table"))


def test_findings_tell_of_what_is_there_only(zeus_page: Element) -> None:
    (finding,) = section(zeus_page, "findings").all("li")
    assert finding.text.startswith("3 tables of 1 trace were read. No row was rejected.")
