"""The size of the page as a browser lays it out: a reader's time, a phone's width, a printer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.test_browser import CHROMIUM, PHONE, Visit, browser, pytestmark

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

__all__ = ["browser", "pytestmark"]  # the fixture and the marks are these tests' too
MEASURE = """() => {
  const shown = (names) => [...document.querySelectorAll(names)].filter((one) =>
    one.checkVisibility());
  return {
    height: document.documentElement.scrollHeight,
    figures: shown("figure").length,
    tables: shown("table").length,
    words: document.body.innerText.split(/\\s+/).filter(Boolean).length,
    nodes: shown("*").length,
    stops: shown("a[href], button, input, summary, [tabindex]").filter((one) =>
      one.tabIndex >= 0).length,
    nameless: shown("h2, h3, figure, table").filter((one) => !one.id).length,
    plain: shown("figure").filter((one) => !one.querySelector("svg")).length,
    downloads: document.querySelectorAll("a[download][href$='.csv']").length,
    first: document.querySelector(".results figure").getBoundingClientRect().bottom,
    claims: document.getElementById("claims").getBoundingClientRect().bottom,
    wide: shown("table").filter((one) => one.getBoundingClientRect().width > innerWidth).length,
  };
}"""


@pytest.fixture(scope="module")
def measured(browser: Browser, report: Path) -> dict[str, Any]:
    visit = Visit(browser, report, (1280, 800), color_scheme="light")
    found: dict[str, Any] = visit.page.evaluate(MEASURE)
    found["sheets"] = len(re.findall(rb"/Type\s*/Page[^s]", visit.page.pdf(format="A4")))
    assert CHROMIUM
    visit.context.close()
    return found


@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("height", 25 * 800),
        ("figures", 28),
        ("tables", 10),
        ("words", 6_300),
        ("nodes", 8_000),
        ("stops", 200),
        ("nameless", 0),
        ("plain", 0),
        ("wide", 0),
        ("first", 2 * 800),
        ("sheets", 18),
    ],
)
def test_the_page_is_short(measured: dict[str, Any], what: str, most: int) -> None:
    assert measured[what] <= most


def test_claims_are_in_the_first_half_and_data_can_be_downloaded(measured: dict[str, Any]) -> None:
    assert measured["claims"] < measured["height"] / 2
    assert measured["downloads"] >= 10


def test_every_download_is_beside_the_page(report: Path) -> None:
    links = re.findall(r'href="((?:data|figures)/[^"]+)"', report.read_text(encoding="utf-8"))
    assert {name.rpartition(".")[2] for name in links} == {"csv", "svg"}
    assert not [name for name in links if not (report.parent / name).is_file()]
    there = {
        f"{folder}/{path.name}"
        for folder in ("data", "figures")
        for path in (report.parent / folder).iterdir()
    }
    assert there == set(links)


def test_search_finds_what_is_folded(browser: Browser, report: Path) -> None:
    visit = Visit(browser, report, (1280, 800))
    visit.page.locator("#find").fill("rows by file")
    link = visit.page.locator("#found a").first
    assert "rows by file" in link.inner_text().lower()
    link.click()
    name = link.get_attribute("href")
    assert name is not None
    visit.page.locator(f"[id='{name[1:]}']").wait_for(state="attached")
    assert visit.told == []
    visit.context.close()


def test_tables_on_a_phone_need_no_scrolling(browser: Browser, report: Path) -> None:
    visit = Visit(browser, report, PHONE)
    boxes = visit.page.evaluate(
        """() => [...document.querySelectorAll(".scroll")].map((box) =>
            box.scrollWidth > box.clientWidth)"""
    )
    assert boxes
    assert not any(boxes)
    visit.context.close()
