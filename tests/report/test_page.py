"""The page itself: whole, self-contained, accessible, the same each time."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.report.reader import Element, read_page, section
from traceana.drawing.svg import WATERMARK
from traceana.errors import DataError
from traceana.page.blocks import Content, Gallery, Heading, Picture, Points, Table, Text
from traceana.page.section import PARTS, Section, sections
from traceana.report import build_report
from traceana.report.arrange import arrange
from traceana.report.page import Built, _below, explainer, number_blocks, write_prose

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store


def drawn(page: Element) -> list[Element]:
    """Return the figures but those of the summary, which repeat them."""
    return [one for one in page.all("figure") if "data-name" in one.attributes]


LOADING = ("link", "img", "iframe", "object", "embed", "video", "audio", "source", "form")


def test_it_is_an_html_document_in_english_with_a_title(html: str, page: Element) -> None:
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert page.attributes == {"lang": "en"}
    (title,) = page.all("head")[0].all("title")
    assert title.text == "SYNTHETIC sample: traceana report"
    names = [meta.attributes.get("name") for meta in page.all("meta")]
    assert {"viewport", "color-scheme"} <= set(names)


def test_nothing_is_loaded_from_anywhere(html: str, page: Element) -> None:
    assert not page.all(*LOADING)
    styles = page.all("style")
    (script,) = page.all("script")
    assert script.attributes == {}, "it stands in the page"
    for style in styles:
        assert set(re.findall(r"url\((.)", style.text)) <= {"#"}
        assert "@import" not in style.text
    for element in page.all():
        for name, value in element.attributes.items():
            assert not name.startswith("on"), "scripts stand in one place"
            if name in ("src", "srcset", "action", "data", "poster"):
                pytest.fail(f"<{element.tag} {name}={value}>")
            if element.tag == "image" and name == "xlink:href":
                assert value.startswith("data:image/png;base64,"), "it is within the page"
            elif name in ("href", "xlink:href") and element.tag != "a":
                assert value.startswith("#")
    assert set(re.findall(r"url\((.)", html)) == {"#"}


def test_every_id_is_the_only_one_and_every_reference_finds_its_own(page: Element) -> None:
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    wanted = set()
    for element in page.all():
        for name in ("href", "xlink:href"):
            if element.attributes.get(name, "").startswith("#"):
                wanted.add(element.attributes[name][1:])
        for name in ("aria-labelledby", "aria-describedby"):
            wanted |= set(element.attributes.get(name, "").split())
    assert wanted <= set(ids)


def folds(part: Element) -> list[Element]:
    return [one for one in part.all("details") if one.attributes.get("class") == "more"]


def test_headings_come_in_order_and_every_section_is_listed(page: Element) -> None:
    levels = [int(heading.tag[1]) for heading in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    (nav,) = page.all("nav")
    listed = [link.attributes["href"] for link in nav.all("a")]
    assert listed[0] == "#summary"
    shown = [part.attributes["id"] for part in page.all("section")][1:]
    known = [part.id for part in sections()]
    assert shown == [name for name in known if name in shown]
    assert len(shown) > len(known) / 2
    # a section without a name of its own in the contents has that of its part
    assert [name for name in listed[1:] if not name.startswith("#part-")] == [
        f"#{name}" for name in shown
    ]


def test_claims_come_first_and_the_appendix_last(page: Element) -> None:
    parts = [heading.text.removesuffix(" #") for heading in page.all("h2")]
    assert parts[0] == "Summary"
    assert parts[1] == "Reproduction of published claims"
    assert parts[-1] == "Appendix"
    assert [part for part in PARTS if part in parts] == parts[1:]


def test_a_section_opens_with_findings_and_folds_the_rest(page: Element) -> None:
    there = {one.attributes["id"] for one in page.all("section")}
    for part in (one for one in sections() if one.id in there):
        found = section(page, part.id)
        assert part.question
        assert found.all("p")[0].text.endswith(part.question)
        for findings in (one for one in found.all("ul") if one.attributes.get("class")):
            assert 1 <= len(findings.all("li")) <= 2
        folded = {id(one) for fold in folds(found) for one in fold.all("figure", "table")}
        assert len([one for one in found.all("figure") if id(one) not in folded]) <= 1
        assert len([one for one in found.all("table") if id(one) not in folded]) <= 1


def test_headings_are_answers_that_the_findings_do_not_repeat(page: Element) -> None:
    there = {one.attributes["id"] for one in page.all("section")}
    for part in (one for one in sections() if one.id in there and one.id != "provenance"):
        found = section(page, part.id)
        [title] = [one for one in found.all("h2", "h3") if one.attributes.get("id")][:1]
        heading = title.text.removesuffix("#").strip()
        assert heading != part.title
        for finding in (one for one in found.all("li") if "data-under" in one.attributes):
            assert not finding.text.startswith((heading, "("))
    assert [one for one in page.all("li") if "data-under" in one.attributes]


def test_a_finding_goes_on_below_its_heading() -> None:
    heading = "openb: 26 % failed"
    cases = {
        " (incidence; 95 % CI 2 to 3 (or 4) %). 91 % ended.": "Incidence; 95 % CI 2 to 3 (or 4) %. "
        "91 % ended.",
        ": 9 of 30.": "9 of 30.",
        " (n = 9; of all).": "n = 9; of all.",
    }
    assert {rest: _below(heading + rest, heading) for rest in cases} == cases
    for whole in (
        f"{heading} as ever.",
        f"{heading} (n = 1,306 pods).",
        f"{heading} (openb: n = 9; ITP: n = 10).",
        f"{heading} (within a day) of these.",
        "Another (sentence).",
    ):
        assert _below(whole, heading) == whole


def test_a_trace_with_the_jobs_of_another_is_named_below_its_numbers(page: Element) -> None:
    assert "ElasticFlow has the jobs of ITP" in section(page, "summary").text


def test_the_keyboard_can_skip_the_head(page: Element) -> None:
    first = page.all("body")[0].all("a")[0]
    assert first.attributes == {"class": "skip", "href": "#content"}


def test_tables_have_a_caption_scopes_and_rows(page: Element) -> None:
    tables = page.all("table")
    assert tables
    for table in tables:
        assert table.all("caption")[0].text
        assert {cell.attributes["scope"] for cell in table.all("thead")[0].all("th")} == {"col"}
        for body in table.all("tbody", "tfoot"):
            for row in body.all("tr"):
                assert [cell.attributes["scope"] for cell in row.all("th")] == ["row"]
        assert table.all("td"), "a table without rows should say what is missing instead"


def test_figures_are_numbered_and_described(page: Element) -> None:
    figures = drawn(page)
    assert len(figures) >= 30
    folded = [figure for fold in folds(page) for figure in fold.all("figure")]
    open_ones = [figure for figure in figures if not any(figure is one for one in folded)]
    numbers = {id(one): str(place) for place, one in enumerate(open_ones, start=1)}
    numbers |= {id(one): f"S{place}" for place, one in enumerate(folded, start=1)}
    for figure in figures:
        (image,) = (part for part in figure.all("div") if part.attributes.get("role") == "img")
        (caption,) = figure.all("figcaption")
        assert image.attributes["aria-labelledby"] == caption.attributes["id"]
        assert caption.text.startswith(f"Figure {numbers[id(figure)]}. ")
        assert image.all("svg")


def test_synthetic_data_say_so_in_the_head_and_on_every_figure(page: Element) -> None:
    (note,) = (part for part in page.all("div") if part.attributes.get("role") == "note")
    assert note.text.startswith("SYNTHETIC data.")
    for figure in drawn(page):
        assert [text.text for text in figure.all("text")].count(WATERMARK) == 1


def test_no_figure_is_large_and_neither_is_the_page(html: str, page: Element) -> None:
    assert len(html) < 3_000_000
    figures = html.split("<figure")[1:]
    assert len(figures) == len(page.all("figure"))
    assert max(len(figure.partition("</svg>")[0]) for figure in figures) < 300_000


def test_six_results_lead_to_their_sections(page: Element) -> None:
    results = section(page, "summary").all("ol")[0].all("li")
    assert len(results) == 6
    names = {result.all("a")[0].attributes["href"][1:] for result in results}
    assert len(names) == 6
    parts = {part.id: part.part for part in sections()}
    assert len({parts[name] for name in names}) >= 3, "they are from different parts"


def test_the_same_data_give_the_same_bytes(store: Store, html: str, tmp_path: Path) -> None:
    again = build_report(store.path, out=tmp_path / "made" / "new")
    assert again == tmp_path / "made" / "new" / "index.html"
    assert again.read_bytes() == html.encode()


def test_a_date_stands_there_only_where_it_is_given(
    zeus_store: Store, html: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "SOURCE_DATE_EPOCH" not in html
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    page = build_report(zeus_store.path, out=tmp_path, only="provenance")
    dated = read_page(page.read_text(encoding="utf-8"))
    assert "1970-01-02 00:00 UTC" in section(dated, "provenance").text
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(DataError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        build_report(zeus_store.path, out=tmp_path)


def test_text_is_escaped_before_it_is_marked_up() -> None:
    assert write_prose("<b> & `a<b`") == "&lt;b&gt; &amp; <code>a&lt;b</code>"
    assert write_prose("see https://a.org/x?y=1&z") == (
        'see <a href="https://a.org/x?y=1&amp;z">https://a.org/x?y=1&amp;z</a>'
    )
    assert write_prose("since 2026-02-19 20:00 and 2026-02 (1-2026-02-19)") == (
        "since <time>2026-02-19 20:00</time> and 2026-02 (1-2026-02-19)"
    )
    dated = write_prose("https://a.org/2026-02-19/b")
    assert dated == '<a href="https://a.org/2026-02-19/b">https://a.org/2026-02-19/b</a>'
    assert write_prose("12 s, 3.5 % of n = 4 sets") == (
        "12\u00a0s, 3.5\u00a0% of n\u00a0=\u00a04 sets"
    )


def test_how_figures_of_one_kind_are_read_is_said_once() -> None:
    one, two = (Picture("", f"{name}.", name, "cov", "", "Read so.") for name in ("a", "b"))
    other = Picture("", "c.", "c", "regret", "n = 1.", "Read otherwise.")
    table = Table("t", ("a",), (True,), (("1",),))
    lead, fold = (Gallery((one, other)), table), (Gallery((two,)), table)
    part = Built(sections()[0], Content((), fold, lead=lead))
    (numbered,) = number_blocks([part])
    assert [(p.number, p.id, p.caption, p.reading) for p in numbered.pictures] == [
        ("1", "figure-a", "a.", "Read so."),
        ("S1", "figure-c", "c. n = 1.", "Read otherwise."),
        ("S2", "figure-b", "b.", ""),
    ], "one figure is open, the rest is in the fold"
    tables = [block for block in numbered.blocks if isinstance(block, Table)]
    assert [(t.number, t.id) for t in tables] == [
        ("S1", "table-claims"),
        ("S2", "table-claims-2"),
    ]


def test_a_section_of_text_and_headings_alone_is_empty() -> None:
    text = Content((), (Heading("mine"), Text("No model.")))
    assert Built(sections()[0], text).is_empty
    assert not Built(sections()[0], Content(("A finding.",), text.blocks)).is_empty


def test_a_definition_stands_once_and_is_referred_to() -> None:
    def part(title: str, *texts: Text) -> Built:
        return Built(Section(title.lower(), title, 1, lambda _: Content()), Content(blocks=texts))

    rows, window = "A pod is a row.", "34 still ran."
    built = number_blocks(
        [
            part("Workload", Text("", (rows,)), Text("Again.", (rows,)), Text("", ("",))),
            part("Failures", Text("By group.", (rows, window)), Text("", (window,))),
            part("Hazards", Text("", (rows, window))),
        ]
    )
    assert [[block.text for block in each.blocks if isinstance(block, Text)] for each in built] == [
        [rows, "Again."],
        ["Definitions: see 'Workload'. 34 still ran. By group."],
        ["Definitions: see 'Workload' and 'Failures'."],
    ]


def test_a_content_without_a_lead_gets_its_first_figure_and_table() -> None:
    pictures = tuple(Picture("", f"{name}.", name) for name in "abc")
    table = Table("t", ("a",), (True,), (("1",),))
    folded = replace(table, folded=True)
    found = arrange(Content(("1", "2", "3", "4"), (folded, Gallery(pictures), table)))
    assert found.lead == (Gallery(pictures[:2]), table)
    assert found.blocks == (Points("Further findings", ("3", "4")), folded, Gallery(pictures[2:]))
    assert found.findings == ("1", "2")
    given = Content((), (table,), lead=(folded,))
    assert arrange(given) == given


def test_terms_in_text_have_their_meaning_but_file_names_have_none() -> None:
    terms = {"odds ratio": "a ratio", "Cramér's V": "association", "AR": "a job"}
    seen = set[str]()
    explain = explainer(terms, seen)
    text = str(explain("Odds ratios and Cramér's V of AR, not of trace-AR.parquet."))
    assert '<abbr title="a ratio">Odds ratio</abbr>s' in text
    assert '<abbr title="association">Cramér&#39;s V</abbr>' in text
    assert text.count("a job") == 1
    assert "trace-AR.parquet" in text
    assert "a job" not in str(explain("trace-AR.parquet", every=True))
    assert "a job" not in str(explain("AR"))
    seen.clear()  # in the next section
    assert "a job" in str(explain("AR"))
