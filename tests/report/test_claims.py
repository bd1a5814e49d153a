"""The section on claims against the ledger itself; synthetic rows bear nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tests.report.reader import Element, read_table, section
from traceana.claims import PAPERS, Claim, Paper, check_claims, decide
from traceana.claims import section as claims
from traceana.page.blocks import Table
from traceana.page.section import Context, DataSource
from traceana.store import Store


def test_every_claim_has_a_row(page: Element, store: Store) -> None:
    results = check_claims(store)
    told = section(page, "claims")
    rows = [row for paper in PAPERS.values() for row in read_table(told, f"{paper.title}.")]
    assert [row["Claim"] for row in rows] == results.table["id"].to_list()
    assert [row["Verdict"] for row in rows] == results.table["verdict"].to_list()
    assert {row["Measured"] for row in rows if row["Verdict"] == "untested"} == {"nothing"}
    counts = {row["Verdict"]: row["Claims"] for row in read_table(told, "Verdicts on ")}
    assert counts == {name: str(number) for name, number in results.counts.items()}


def test_what_differs_has_its_evidence(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pl.DataFrame({"batch_size": [512], "runs": [1]})
    claim = Claim(
        "planted",
        "made-up",
        "at least four runs",
        "four",
        (),
        lambda _store, _claim: decide(holds=False, measured="1", evidence=rows),
        tolerance="ours: none",
    )
    monkeypatch.setitem(PAPERS, "made-up", Paper("Made up", lambda: (claim,)))
    content = claims.build(Context(store, data_source=DataSource(tmp_path, is_sample=False)))
    (table,) = (
        each for each in content.all_blocks if isinstance(each, Table) and "planted" in each.caption
    )
    assert table.caption == "planted: four. By Store.scan"
    assert table.rows == (("512", "1"),)
    (counts, *_) = (each for each in content.all_blocks if isinstance(each, Table))
    alone = check_claims(store, paper="made-up").counts
    assert alone["differs"] == 1
    assert "differs" in {row[0] for row in counts.rows}


def test_a_synthetic_store_states_that_no_claim_on_data_is_checked(page: Element) -> None:
    part = section(page, "claims")
    [finding] = [one for one in part.all("ul") if one.attributes.get("class") == "findings"]
    of, untested, undecided, *checked = map(int, re.findall(r"\d+", finding.text))
    assert f"{untested} need data that are missing, incomplete or synthetic" in finding.text
    assert of == untested + undecided + sum(checked)  # without observations, which are our own
    title = f"No published claim on data is checked: {untested} need public traces"
    assert part.all("h3")[0].text.startswith(title)
