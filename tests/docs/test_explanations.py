"""Each analysis has a page with the same parts."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
OTHERS = {
    "architecture",
    "citing",
    "claims",
    "engines",
    "error-rates",
    "faq",
    "ingestion",
    "compatibility",
    "concepts",
    "measured",
    "other-tools",
    "scale",
}
ANALYSES = sorted(path for path in PAGES.glob("*.md") if path.stem not in OTHERS)
PARTS = ("## Question", "## Method", "ssumptions", "imitations", "## Error rates", "## References")


@pytest.mark.parametrize("page", ANALYSES, ids=lambda page: page.stem)
def test_a_page_has_question_method_limits_errors_and_references(page: Path) -> None:
    headings = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    assert [part for part in PARTS if not any(part in heading for heading in headings)] == []
