"""Relative links lead to files and headings, in the repository and on the site."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob("reports/**/*.md")])
PAGES = [page for page in PAGES if not {"_build", "reference", "gallery"} & {*page.parts}]
LINK = re.compile(r"(?<!\\)\]\((?!https?:|mailto:)([^)\s]*)\)")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and MyST form them."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in found}


def written_by_the_build(target: str) -> bool:
    """Return whether the build of the site writes the page: gallery and reference."""
    if target == "gallery/index":
        return True
    folder, _, name = target.rpartition("/")
    names = import_module("api").documented_names()
    stem = Path(name).stem
    pages = {"index", "command-line", "traces", "glossary"}
    if folder == "reference":
        return stem in {"tables", "figures"}
    return folder == "reference/api" and (stem in names or stem in pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    dead = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.is_relative_to(DOCS) if page.is_relative_to(DOCS) else True
        if not inside:
            dead.append(f"{link}: outside of docs, so dead on the site")
        elif target.exists():
            if anchor and target.suffix == ".md" and anchor not in headings(target):
                dead.append(f"{link}: no such heading")
        elif not written_by_the_build(str(target.relative_to(DOCS))):
            dead.append(f"{link}: no such file")
    assert dead == []
