"""Sections without data leave the page; one line at its end names them and what they need."""

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


def test_sections_without_data_are_named_in_one_line(zeus_page: Element) -> None:
    shown = {one.attributes["id"] for one in zeus_page.all("section")}
    links = {link.attributes["href"] for link in zeus_page.all("nav")[0].all("a")}
    [line] = [one.text for one in zeus_page.all("p") if "absent" in one.attributes.get("class", "")]
    for name, title, needed in (
        ("variation", "variation between workers", "worker_samples (batch_time)"),
        ("outcomes", "failure and runtime by group", "jobs (status, runtime_s)"),
        ("utilization", "utilization", "instance_usage"),
    ):
        assert name not in shown
        assert f"#{name}" not in links
        assert f"{title} (needs " in line
        assert needed in line
    assert "fetch" not in line


def test_no_table_is_empty(zeus_page: Element) -> None:
    assert all(table.all("td") for table in zeus_page.all("table"))


def test_results_are_of_what_is_there_only(zeus_page: Element) -> None:
    results = [item.text for item in section(zeus_page, "summary").all("ol")[0].all("li")]
    others = ("Mini-batch", "ITP", "ElasticFlow", "PAI", "openb")
    assert not [text for text in results for word in others if word in text]
    for opening in ("A better batch size and power limit save", "Jobs that learn their settings"):
        assert len([text for text in results if opening in text]) == 1
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
    found = read_page(page.read_text(encoding="utf-8"))
    assert "energy" not in {one.attributes["id"] for one in found.all("section")}
    [line] = [one.text for one in found.all("p") if "absent" in one.attributes.get("class", "")]
    assert "energy to accuracy (needs training_runs" in line
