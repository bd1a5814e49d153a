"""The section on claims against the ledger itself; synthetic rows bear nothing out."""

from __future__ import annotations

from tests.report.reader import Element, read_table, section
from traceana.claims import PAPERS, check_claims
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


def test_what_differs_has_its_evidence(page: Element) -> None:
    (row,) = read_table(section(page, "claims"), "batching-gpu-resnet: 4.5x.")
    assert (row["Id"], row["Published"], row["Ratio"]) == ("batching-gpu-resnet", "4.5", "8")


def test_a_synthetic_store_has_no_finding(page: Element) -> None:
    assert "published claims" not in section(page, "findings").text
