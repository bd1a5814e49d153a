"""The page in a browser: Debian's chromium, at a phone's and a desk's width, light and dark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import resources, util
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from traceana.ingesters import add_table
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from traceana.store import Store

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium (Debian: apt-get install chromium)"),
    pytest.mark.skipif(
        util.find_spec("playwright") is None or util.find_spec("axe_playwright_python") is None,
        reason="playwright or axe-playwright-python is not installed (pip install '.[test]')",
    ),
]
PHONE, DESK = (390, 844), (1280, 900)
LONG_MS = 600_000
"""What a browser is given for anything: no test depends on how fast a machine is."""


@pytest.fixture(scope="module")
def report(report: Path, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a few sections, which have every kind of block between them.

    The whole page is made before: its sections are taken for this one.
    """
    assert report.is_file()
    only = "data-quality,traces,stragglers,outcomes,energy,provenance"
    return build_report(store.path, out=tmp_path_factory.mktemp("page"), only=only)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  an optional library

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, timeout=LONG_MS)
        yield browser
        browser.close()


class Visit:
    """The page as it was opened, with all that it asked for and complained of."""

    def __init__(
        self, browser: Browser, report: Path, size: tuple[int, int], **context: Any
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, accept_downloads=True, **context
        )
        self.context.set_default_timeout(LONG_MS)
        self.page: Page = self.context.new_page()
        self.asked: list[str] = []
        self.told: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.told.append(message.text))
        self.page.on("pageerror", lambda error: self.told.append(str(error)))
        self.page.goto(report.as_uri())


@pytest.fixture(
    scope="module",
    params=[(PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark")],
    ids=lambda param: f"{param[0][0]}-{param[1]}",
)
def visit(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Visit]:
    size, scheme = request.param
    visit = Visit(browser, report, size, color_scheme=scheme)
    yield visit
    visit.context.close()


def unfold(page: Page) -> None:
    """Open the details of every section."""
    page.evaluate(
        "document.querySelectorAll('details.more').forEach((one) => { one.open = true; })"
    )
    page.wait_for_function("() => !document.querySelector('template')")


@pytest.fixture(scope="module")
def desk(browser: Browser, report: Path) -> Iterator[Page]:
    visit = Visit(browser, report, DESK, color_scheme="light")
    unfold(visit.page)
    yield visit.page
    visit.context.close()


def test_nothing_is_asked_for_and_nothing_complains(visit: Visit, report: Path) -> None:
    # not by the wheel: its animation would go on through the tests after this one
    visit.page.evaluate("() => scrollTo({top: 5000, behavior: 'instant'})")
    assert visit.page.evaluate("() => scrollY") > 0
    assert visit.asked == [report.as_uri()]
    assert visit.told == []


def test_the_page_itself_never_scrolls_sideways(visit: Visit) -> None:
    refuse_sideways(visit)


def refuse_sideways(visit: Visit) -> None:
    wide = visit.page.evaluate(
        "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide[0] <= wide[1]


def test_a_long_title_without_a_space_wraps_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1, 2], "runtime_s": [60.0, 90.0]})
    store = tmp_path / "store"
    add_table(jobs, trace="mine", table="jobs", store=store, title="disaggregated_" * 4)
    visit = Visit(browser, build_report(store, out=tmp_path / "out", only="workload"), PHONE)
    refuse_sideways(visit)
    visit.context.close()


def test_names_of_a_million_letters_neither_widen_nor_fill_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    n, begin = 24, 1_772_438_400.0
    names = pl.Series(["N" * 10**6, "N" * 10**6 + "2", "x"] * (n // 3))
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(n)],
            "gpus": 2.0,
            "start_s": [begin + 3600 * i for i in range(n)],
            "end_s": [begin + 3600 * i + 9000 for i in range(n)],
            "runtime_s": 9000.0,
            "status": ["completed", "completed", "failed", "completed"] * (n // 4),
        }
    ).with_columns(user=names, queue=names, gpu_type=names, NodeList=names)
    store, only = tmp_path / "store", "trends,consumers,outcomes"
    add_table(jobs, trace="mine", table="jobs", store=store)
    page = build_report(store, out=tmp_path / "out", only=only, formats="html", workers=1)
    assert page.stat().st_size < 500_000
    visit = Visit(browser, page, PHONE)
    unfold(visit.page)
    refuse_sideways(visit)
    visit.context.close()


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (DESK, "dark")])
def test_axe_finds_no_barrier(
    browser: Browser, zeus_store: Store, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    # a short page, as axe looks at each cell
    only = "stragglers,energy,provenance"
    page = build_report(zeus_store.path, out=tmp_path, only=only, formats="html")
    visit = Visit(browser, page, size, color_scheme=scheme)
    unfold(visit.page)
    axe = resources.files("axe_playwright_python") / "axe.min.js"
    visit.page.evaluate(axe.read_text(encoding="utf-8"))
    # what is inside a figure is told by its caption
    found = visit.page.evaluate(
        "() => axe.run({exclude: [['svg']]}, {resultTypes: ['violations'], elementRef: false})"
    )
    assert [
        (rule["id"], rule["nodes"][0]["html"][:200], rule["nodes"][0]["failureSummary"])
        for rule in found["violations"]
    ] == []
    assert {"color-contrast", "heading-order"} <= {rule["id"] for rule in found["passes"]}
    visit.context.close()


def test_the_contents_follow_the_reader(visit: Visit) -> None:
    page = visit.page
    page.evaluate("() => document.getElementById('stragglers').scrollIntoView()")
    page.wait_for_selector("nav a[aria-current]", state="attached")
    page.wait_for_function(
        "() => document.querySelector('nav a[aria-current]').hash === '#stragglers'"
    )
    assert page.evaluate("() => document.querySelector('nav').getBoundingClientRect().top") >= 0
    if page.viewport_size == {"width": PHONE[0], "height": PHONE[1]}:
        assert not page.is_visible("nav a >> nth=1")
        page.click("nav summary")
    page.locator("nav a >> nth=1").wait_for()


def column(page: Page, table: str, number: int) -> list[str]:
    cells = page.locator(f"{table} tbody tr:visible > :nth-child({number})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_a_table_sorts_by_numbers_and_by_words(desk: Page) -> None:
    table = "#data-quality .scroll:has(caption:has-text('Rows by table')) table"
    before = column(desk, table, 3)
    for expected, state in ((False, "ascending"), (True, "descending")):
        desk.click(f"{table} thead th:nth-child(3) button")
        assert desk.get_attribute(f"{table} thead th:nth-child(3)", "aria-sort") == state
        numbers = [int(text.replace(",", "")) for text in column(desk, table, 3)]
        assert numbers == sorted(numbers, reverse=expected)
        assert len(set(numbers)) > 2
    desk.click(f"{table} thead th:nth-child(3) button")
    assert column(desk, table, 3) == before, "as it was"
    desk.click(f"{table} thead th:nth-child(2) button")
    assert column(desk, table, 2) == sorted(column(desk, table, 2))
    assert desk.get_attribute(f"{table} thead th:nth-child(3)", "aria-sort") == "none"


def test_unknown_values_come_last_either_way(desk: Page) -> None:
    table = (
        "#outcomes .scroll:has(caption:has-text('Runtime of tasks by GPU type and status'))"
        " table:not(.excerpt)"
    )
    desk.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    heading = f"{table} thead th:has-text('Median') button"
    heads = desk.locator(table).first.locator("thead th").all_inner_texts()
    (mean,) = (place for place, text in enumerate(heads, start=1) if text.startswith("Median"))
    for _ in range(2):
        desk.click(heading)
        means = column(desk, table, mean)
        dashes = [place for place, text in enumerate(means) if text == "\N{EN DASH}"]
        assert dashes == list(range(len(means) - len(dashes), len(means)))
    assert dashes, "the sample has groups without a runtime"


def test_a_table_filters_by_words(desk: Page) -> None:
    table = "#data-quality .scroll:has(caption:has-text('Rows by table')) table"
    desk.locator("#data-quality .tools input").first.fill("JOBS pai")
    assert column(desk, table, 2) == ["jobs"]
    assert desk.locator("#data-quality .tools output").first.inner_text().startswith("1 of ")
    desk.locator("#data-quality .tools input").first.fill("")
    assert len(column(desk, table, 2)) == desk.locator(f"{table} tbody tr").count()


def test_a_figure_enlarges_and_closes_by_keyboard(desk: Page) -> None:
    figure = desk.locator("#energy figure").first
    button = figure.get_by_role("button", name="Enlarge Figure")
    small = figure.locator("svg").bounding_box()
    button.focus()
    desk.keyboard.press("Enter")
    large = desk.locator("dialog[open] svg").bounding_box()
    assert small is not None
    assert large is not None
    assert large["width"] > 1.3 * small["width"]
    assert desk.locator("dialog[open] #enlarged").inner_text().startswith("Figure ")
    desk.keyboard.press("Escape")
    figure.locator("svg").wait_for()  # back in its place
    assert desk.locator("dialog[open]").count() == 0
    assert button.evaluate("element => element === document.activeElement")


def test_a_figure_is_a_file_of_its_own_beside_the_page(desk: Page, report: Path) -> None:
    figure = desk.locator("[data-name='saved-zeus-2023']")
    links = figure.locator("a[download]").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    files = [report.parent / link for link in links]
    assert [path.suffix for path in files] == [".svg", ".csv"]
    text = files[0].read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in text
    assert "SYNTHETIC" in text
    assert "energy_saved" in files[1].read_text(encoding="utf-8").partition("\n")[0]


def test_the_keyboard_reaches_all_that_can_be_used(desk: Page) -> None:
    desk.reload()
    desk.keyboard.press("Tab")
    skip = desk.locator("a.skip")
    assert skip.evaluate("element => element === document.activeElement")
    box = skip.bounding_box()
    assert box is not None
    assert box["x"] >= 0, "it shows when it has the focus"
    outline = skip.evaluate("element => getComputedStyle(element).outlineStyle")
    assert outline == "solid"
    desk.keyboard.press("Enter")
    desk.wait_for_function("() => location.hash === '#content'")
    desk.keyboard.press("Tab")
    assert desk.evaluate("() => document.activeElement.closest('main') !== null")
    out_of_reach = desk.evaluate(
        """() => [...document.querySelectorAll('a, button, input, summary')]
            .filter((element) => element.tabIndex < 0)
            .filter((element) => !element.matches('.permalink, .sort, a.number'))
            .map((element) => element.outerHTML)"""
    )
    assert out_of_reach == []
    unfold(desk)
    heading = desk.locator("main thead button:visible").first
    heading.focus()
    desk.keyboard.press("Space")
    column = heading.locator("xpath=ancestor::th")
    assert column.get_attribute("aria-sort") == "ascending"


def test_without_javascript_everything_is_there_to_read(browser: Browser, report: Path) -> None:
    visit = Visit(browser, report, PHONE, java_script_enabled=False)
    page = visit.page
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('main p, main td, main th, figcaption, svg, nav a')]
            .filter((element) => !element.closest('details:not([open])'))
            .filter((element) => !element.checkVisibility()).map((element) => element.outerHTML)"""
    )
    assert hidden == []
    assert page.locator("main button").count() == 0, "no button that does nothing"
    fold = page.locator("details.more").first
    fold.evaluate("one => { one.open = true; }")
    assert fold.locator("p, table").first.is_visible(), "the details are in the page"
    visit.context.close()


def test_on_paper_details_and_contents_are_gone(browser: Browser, report: Path) -> None:
    visit = Visit(browser, report, DESK)
    visit.page.emulate_media(media="print")
    assert not visit.page.is_visible("nav")
    assert visit.page.locator(".tools:visible").count() == 0
    assert visit.page.locator("details:visible").count() == 0
    assert visit.page.locator("#outcomes figure").first.is_visible()
    visit.context.close()


def test_an_address_opens_the_fold_that_it_leads_into(browser: Browser, report: Path) -> None:
    visit = Visit(browser, report, DESK)
    name = visit.page.evaluate("() => document.querySelector('#outcomes details.more table').id")
    assert not visit.page.locator(f"[id='{name}']").is_visible()
    visit.page.goto(f"{report.as_uri()}#{name}")
    visit.page.locator(f"[id='{name}']").wait_for()
    assert visit.told == []
    visit.context.close()
