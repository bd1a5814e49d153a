"""Some of the sections, another title, one of the formats; and the Markdown."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.report.reader import Element, read_page, section
from traceana.cli import main
from traceana.errors import DataError
from traceana.page.blocks import Drawing, Gallery
from traceana.page.section import sections
from traceana.report import build_report
from traceana.report.arrange import content_of
from traceana.report.build import find_data_source, open_context

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store

IDS = [part.id for part in sections()]


def shown(page: Element) -> list[str]:
    return [part.attributes["id"] for part in page.all("section")]


@pytest.mark.parametrize(
    "only", ["energy,data-quality", ["energy", "data-quality"], (" data-quality, energy",)]
)
def test_some_sections_in_the_reports_order(
    zeus_store: Store, tmp_path: Path, only: str | list[str]
) -> None:
    page = build_report(zeus_store.path, out=tmp_path, only=only, formats="html")
    assert shown(read_page(page.read_text(encoding="utf-8"))) == [
        "summary",
        "energy",
        "data-quality",
    ]
    there = {"index.html", "results.json", "data", "figures"}
    assert {path.name for path in tmp_path.iterdir()} == there


def test_without_findings_there_is_no_opening(zeus_store: Store, tmp_path: Path) -> None:
    page = build_report(zeus_store.path, out=tmp_path, only="provenance", title="Ours & <theirs>")
    read = read_page(page.read_text(encoding="utf-8"))
    assert shown(read) == ["summary", "provenance"]
    assert read.all("h1")[0].text == "Ours & <theirs> on the synthetic sample"
    assert read.all("title")[0].text == "SYNTHETIC sample: Ours & <theirs>"
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert text.startswith("# SYNTHETIC sample: Ours & \\<theirs>\n")
    assert "## Summary" not in text


def test_markdown_alone_with_its_figures(zeus_store: Store, tmp_path: Path) -> None:
    for name in ("data/figure-of-an-earlier-report.csv", "figures/of-an-earlier-report.svg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("<svg/>")
    path = build_report(zeus_store.path, out=tmp_path, only="energy", formats="md")
    assert path == tmp_path / "index.md"
    assert not (tmp_path / "index.html").exists()
    drawn = re.findall(r"!\[[^\]]+\]\((figures/[^)]+)\)", path.read_text(encoding="utf-8"))
    assert len(drawn) == 3
    assert {path.name for path in (tmp_path / "figures").glob("*.svg")} == {
        name.removeprefix("figures/") for name in drawn
    }
    for name in drawn:
        root = ElementTree.parse(tmp_path / name).getroot()  # noqa: S314  our own output
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_the_markdown_says_what_the_page_says(page: Element, markdown: str) -> None:
    titles = [part.title for part in sections()]
    headings = re.findall("^###? (.*)$", markdown, flags=re.MULTILINE)
    assert headings[0] == "Summary"
    assert len(set(titles) & set(headings)) == len(page.all("section")) - 1
    assert markdown.count("\n**Figure ") == len(
        [one for one in page.all("figure") if "data-name" in one.attributes]
    )
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    tables = [one for one in page.all("table") if one.attributes.get("class") != "plain"]
    assert len(rows) == sum(len(table.all("tr")) + 1 for table in tables), "and a rule each"
    of_a_table = re.findall(r"^\*\*Table .*\n\n((?:\|.*\n)+)", markdown, flags=re.MULTILINE)
    assert len(of_a_table) == len(tables)
    for text in of_a_table:
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in text.splitlines()}
        assert len(widths) == 1
    numbered = [one for one in page.all("figure") if "data-name" in one.attributes]
    assert markdown.count("**Figure ") == len(numbered)
    for anchor in re.findall(r"\]\(#([^)]+)\)", markdown):
        assert anchor.replace("-", " ") in {
            re.sub("[,:]", "", title.lower()).replace("-", " ") for title in titles
        }


def test_findings_begin_their_section(page: Element) -> None:
    finding = section(page, "stragglers").all("li")[0].text
    assert finding.startswith("PAI workers: ")
    assert "had straggler episodes" in finding
    assert finding not in section(page, "summary").text


def test_every_figure_is_declared_by_the_section_that_draws_it(store: Store) -> None:
    context = open_context(find_data_source(store.path))
    for part in sections():
        galleries = (b for b in content_of(part, context).all_blocks if isinstance(b, Gallery))
        pictures = [one for gallery in galleries for one in gallery.pictures]
        assert all(isinstance(one, Drawing) for one in pictures)
        members = (own for one in pictures if isinstance(one, Drawing) for own in one.members)
        traces = part.traces(context)
        more = part.more(traces) if part.more else []
        drawn = {one.figure for one in (*pictures, *members, *more)}
        # no trace of the sample has both used and requested resources of jobs, and the one with
        # machines lists only survivors, whose utilization is not that of the
        # machines; lines of policies are drawn on demand
        declared = set(part.figures) - {"cluster-utilization", "policy-lines"}
        assert drawn == (set() if part.needs and not traces else declared), part.id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "energie"}, f"no section is called 'energie'; the sections are {', '.join(IDS)}"),
        ({"only": ""}, "no section is called ''"),
        ({"formats": "html,pdf"}, "no format is called 'pdf'; the formats are html, md"),
    ],
)
def test_an_unknown_name_is_refused_with_the_list(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError) as error:
        build_report(tmp_path, out=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)
    assert not (tmp_path / "out").exists()


def test_the_command_takes_them(
    zeus_store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*arguments: str) -> int:
        options = ["report", "--store", str(zeus_store.path), "--out", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["traceana", *options, *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0)

    only = ("--only", "data-quality,traces", "--only", "provenance")
    assert run(*only, "--format", "md") == 0
    *_, path, address = capsys.readouterr().out.splitlines()
    assert path == str(tmp_path / "out" / "index.md")
    assert address == (tmp_path / "out" / "index.md").as_uri()
    assert run("--only", "energie") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"traceana: no section is called 'energie'; the sections are {', '.join(IDS)} "
        "(did you mean energy?)\n"
    )
    # without a store the error stands alone: nothing is said of the synthetic sample
    monkeypatch.chdir(tmp_path)
    for command in (["report", "--only", "energie"], ["figures", "energie"]):
        monkeypatch.setattr(sys, "argv", ["traceana", *command, "--store", "nowhere"])
        with pytest.raises(SystemExit):
            main()
        (line,) = capsys.readouterr().err.splitlines()
        assert "is called 'energie'" in line
