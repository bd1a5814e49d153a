"""The reproduction that is kept, against the real files, and the counts on the page about it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from traceana.claims import VERDICTS, check_claims
from traceana.store import Store
from traceana.tables.formatting import rounded

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "reports" / "reproduction"
_MOST_BYTES = 6_000_000
_MOST_BYTES_A_FIGURE = 500_000


@pytest.fixture(scope="module")
def kept() -> list[dict[str, Any]]:
    claims: list[dict[str, Any]] = json.loads((FOLDER / "claims.json").read_text(encoding="utf-8"))
    return claims


def test_the_page_on_reports_counts_the_verdicts_that_are_kept(kept: list[dict[str, Any]]) -> None:
    readme = " ".join((ROOT / "reports" / "README.md").read_text(encoding="utf-8").split())
    counts = Counter(claim["verdict"] for claim in kept)
    told = re.findall(r"(\d+) (reproduced|differs?|observations?|untested|not testable)", readme)
    assert [(verdict, int(number)) for number, verdict in told] == [
        (
            {"differs": "differ", "observation": "observations"}.get(verdict, verdict),
            counts[verdict],
        )
        for verdict in VERDICTS
    ]
    assert f"Of {len(kept)} published statements and observations" in readme


def test_numbers_have_no_digits_that_differ_from_run_to_run(kept: list[dict[str, Any]]) -> None:
    assert kept == rounded(kept)


def test_the_figures_are_those_of_the_text_and_all_is_small() -> None:
    text = (FOLDER / "index.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\((figures/[^)]+)\)", text))
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    figures = [path for path in files if path.parent.name == "figures"]
    assert {path.relative_to(FOLDER).as_posix() for path in figures} == shown
    others = {path.name for path in set(files) - set(figures)}
    assert others == {"index.md", "claims.json", "results.json"}
    assert sum(path.stat().st_size for path in files) < _MOST_BYTES
    assert all(path.stat().st_size < _MOST_BYTES_A_FIGURE for path in figures)
    assert "SYNTHETIC" not in text


def test_the_real_files_give_the_claims_that_are_kept(
    kept: list[dict[str, Any]], kept_store: Store
) -> None:
    names = ("id", "published", "measured", "verdict", "reason")
    table = check_claims(kept_store).table
    assert [{name: claim[name] for name in names} for claim in kept] == table.select(
        names
    ).to_dicts()
