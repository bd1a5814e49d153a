"""The planted rows of the CoV table are named on the page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.report.reader import Element, number, read_table, section

if TYPE_CHECKING:
    from traceana.store import Store


def test_every_planted_row_is_found_with_its_ddof(page: Element, store: Store) -> None:
    folder = store.path.parent / "files" / "alibaba-minibatch-2020"
    planted = json.loads((folder / "SYNTHETIC-truth.json").read_text())["jobs"]
    rows = read_table(section(page, "variation"), "Best match of each job")
    found = {(row["Job"], row["ddof"]): row for row in rows}
    for job, truth in planted.items():
        row = found[job, str(truth["cov_table"]["ddof"])]
        assert row["Best match"] == truth["cov_table"]["row"]
        assert number(row["Within rounding"]) > 99
        other = found[job, str(1 - truth["cov_table"]["ddof"])]
        assert number(other["Within rounding"]) < 50
    (told,) = [
        item.text
        for item in section(page, "variation").all("li")
        if "are rows of the published CoV table" in item.text
    ]
    assert f": of {len(planted)} jobs with worker times, {len(planted)} are" in told
