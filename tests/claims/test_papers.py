"""The papers' TOML: series, words, tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims.conftest import CLAIMS
from traceana.catalog import load_catalog
from traceana.claims import PAPERS, check_claims, papers
from traceana.errors import DataError
from traceana.store import Store


def test_an_unknown_paper(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'zues'; the papers are acme, .* \(did you mean zeus\?\)"):
        check_claims(Store(tmp_path), paper="zues")


def test_a_series_is_one_claim_of_each_printed_number(tmp_path: Path) -> None:
    text = """
title = "Made up"
module = "undecided"
[claims.mean]
statement = "{part} GPUs: {published} jobs, {what}"
values = { columns = ["jobs"], rows = [[2], [4]], least = "{least}" }
query = "SELECT {of}(jobs) FROM printed"
note = "counted"
[claims.mean.series]
1 = { published = "2", what = "few", of = "MIN", least = 1.5 }
8 = { published = "5", what = "many", of = "MAX", least = 3, note = "a misprint" }
"""
    claims = papers.read_paper("made-up", text).claims
    assert [(claim.id, claim.statement) for claim in claims] == [
        ("mean-1", "1 GPUs: 2 jobs, few"),
        ("mean-8", "8 GPUs: 5 jobs, many"),
    ]
    assert [(claim.note, claim.values["least"]) for claim in claims] == [
        ("counted", 1.5),
        ("a misprint", 3),
    ]
    found = [papers._measured(claim, Store(tmp_path)) for claim in claims]
    assert [(one.verdict, one.measured) for one in found] == [
        ("reproduced", "2"),
        ("differs", "4"),
    ]


def test_no_word_of_a_series_is_left_open() -> None:
    for claim in CLAIMS.values():
        of_part = (claim.statement, claim.published, claim.note, claim.reference, claim.section)
        assert not any("{" in text for text in (*of_part, claim.tolerance or "")), claim.id


def test_claims_name_their_paper_and_tables() -> None:
    for name, paper in PAPERS.items():
        assert {claim.paper for claim in paper.claims} == {name}
        if name in load_catalog():
            assert {claim.section for claim in paper.claims} == {"README"}
    needed = {trace for claim in CLAIMS.values() for trace, _ in claim.tables}
    assert needed >= {name for name, trace in load_catalog().items() if trace.tried}
