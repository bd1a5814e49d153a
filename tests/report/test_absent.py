"""Sections whose data are not there say what to fetch and ingest, and show no empty table."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.report.reader import Element, read_page, section
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store

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
        ("stragglers", ("alibaba-minibatch-2020",)),
        ("workload", OTHERS[1:]),
        ("outcomes", ("alibaba-openb-2023", "alibaba-pai-2020")),
        ("failure-model", ("alibaba-openb-2023", "alibaba-pai-2020")),
        ("competing-risks", ("alibaba-openb-2023", "alibaba-pai-2020")),
        ("correlations", ("alibaba-openb-2023", "alibaba-pai-2020")),
        ("distributions", OTHERS[1:]),
        ("task-runtimes", ("alibaba-pai-2020",)),
        ("utilization", ("alibaba-pai-2020",)),
        ("runtime-ratio", ("alibaba-openb-2023", "alibaba-pai-2020", "microsoft-itp-2021")),
    ],
)
def test_the_remedy_is_named(zeus_page: Element, name: str, traces: tuple[str, ...]) -> None:
    commands = [pre.text for pre in section(zeus_page, name).all("pre")]
    for trace in traces:
        (remedy,) = {text for text in commands if f"fetch {trace} " in text}
        assert f"traceana ingest files/{trace} --store '" in remedy, "a path with a space is quoted"


def test_no_table_or_figure_stands_in_for_missing_data(zeus_page: Element) -> None:
    for name in (
        *("variation", "stragglers", "workload", "outcomes"),
        *("task-runtimes", "failure-model", "competing-risks"),
        *("correlations", "distributions", "utilization"),
    ):
        assert not section(zeus_page, name).all("table", "figure")
    assert all(table.all("td") for table in zeus_page.all("table"))


def test_results_are_of_what_is_there_only(zeus_page: Element) -> None:
    results = [item.text for item in section(zeus_page, "summary").all("ol")[0].all("li")]
    others = ("Mini-batch", "ITP", "ElasticFlow", "PAI", "openb")
    assert not [text for text in results for word in others if word in text]
    about = "Zeus traces, 2023 (SYNTHETIC): "
    for opening in ("the best batch size and power", "recurring jobs on"):
        assert len([text for text in results if f" {about}{opening}" in text]) == 1
    read = section(zeus_page, "data-quality").all("li")[0].text
    assert read == "3 tables of 1 trace were read. No row was rejected."


@pytest.mark.parametrize("table", ["training_runs", "power_profiles"])
def test_energy_needs_both_of_its_tables(zeus_store: Store, tmp_path: Path, table: str) -> None:
    store = tmp_path / "store"
    shutil.copytree(zeus_store.path, store)
    (ledger_path,) = store.glob("*/ledger.json")
    ledger = json.loads(ledger_path.read_text(encoding="utf-8"))
    ledger["tables"].pop(table)
    ledger_path.write_text(json.dumps(ledger), encoding="utf-8")
    (store / "zeus-2023" / f"{table}.parquet").unlink()
    page = build_report(store, out=tmp_path / "out", only="energy", formats="html")
    part = section(read_page(page.read_text(encoding="utf-8")), "energy")
    assert "Public traces not shown: Zeus traces, 2023" in part.text
    assert table in part.text
    assert "traceana fetch zeus-2023" in part.text
    assert not part.all("table", "figure")
