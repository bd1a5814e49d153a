"""Where a report's data come from, and what becomes of a run that fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
import pytest
from polars.exceptions import PanicException

from tests.report.reader import read_page, section
from traceana.cli import main
from traceana.drawing import registry
from traceana.drawing.registry import FigureEntry, figures
from traceana.errors import StoreError
from traceana.page import blocks
from traceana.page.blocks import Content, Drawing, Gallery, Text
from traceana.page.section import sections
from traceana.questions.workload.tables import WorkloadSummary
from traceana.report import build, build_report
from traceana.report.build import find_data_source, open_context, open_data_source
from traceana.report.run import draw_content
from traceana.tables.declare import ResultTable

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.page.section import Context
    from traceana.store import Store


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without a store, and a cache folder of its own."""
    monkeypatch.delenv("TRACEANA_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["traceana", "report", *arguments])
    with pytest.raises(SystemExit) as done:
        main()
    return int(done.value.code or 0)


def test_a_store_is_the_one_given_else_the_environments_else_data(
    store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (str(find_data_source().path), find_data_source().is_sample) == ("data", True)
    (nowhere / "data").symlink_to(store.path)
    assert not find_data_source().is_sample
    monkeypatch.setenv("TRACEANA_STORE", "elsewhere")
    with pytest.raises(StoreError, match="elsewhere: no store here"):
        find_data_source()
    with pytest.raises(StoreError, match="elsewhere: no store here"):
        find_data_source("elsewhere")
    assert find_data_source(store.path).path == store.path


def test_without_a_store_the_command_reports_on_the_sample_and_says_so(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--store", "my store", "--only", "provenance") == 2
    assert capsys.readouterr().err.startswith("traceana: my store: no store here")
    assert run(monkeypatch, "--only", "provenance") == 0
    told = capsys.readouterr()
    address = (nowhere / "reports/latest/index.html").as_uri()
    assert told.out == f"reports/latest/index.html\n{address}\n"
    assert told.err == (
        "traceana: note: nothing is ingested under data, so the SYNTHETIC sample is used; "
        "for real files: traceana ingest PATH --store data\n"
    )
    page = read_page((nowhere / "reports/latest/index.html").read_text(encoding="utf-8"))
    assert page.all("title")[0].text.startswith("SYNTHETIC sample")
    (note,) = (part for part in page.all("div") if part.attributes.get("role") == "note")
    assert "Nothing is ingested under data" in note.text
    assert "traceana ingest PATH --store data" in note.text
    assert "the synthetic sample that" in section(page, "provenance").text
    assert [path.name for path in nowhere.iterdir()] == ["reports"], "no store is made here"
    assert run(monkeypatch, "--only", "provenance", "--where", "gpus >= 1", "--out", "limited") == 0
    limited = (nowhere / "limited/index.html").read_text(encoding="utf-8")
    assert "where gpus &gt;= 1" in limited
    left_out = "note: left out: alibaba-pai-2020: no job is left (where gpus >= 1)\n"
    assert capsys.readouterr().err.endswith(left_out)
    # made once, then taken again
    (made,) = (nowhere.parent / "cache/traceana/sample").iterdir()
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")}
    assert open_data_source(find_data_source()).path == made
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.parquet")} == before
    assert list(made.parent.iterdir()) == [made]


def test_a_cache_that_cannot_be_written_is_one_line(nowhere: Path) -> None:
    (nowhere.parent / "cache").write_text("in the way")
    with pytest.raises(
        StoreError, match=r"synthetic sample cannot be written here .*XDG_CACHE_HOME"
    ):
        open_data_source(find_data_source())


def test_a_ledger_nobody_understands_is_one_line_and_status_2(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "broken/zeus-2023").mkdir(parents=True)
    (nowhere / "broken/zeus-2023/ledger.json").write_text("{")
    assert run(monkeypatch, "--store", "broken") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("traceana: broken/zeus-2023/ledger.json: not a ledger")
    assert told.err.count("\n") == 1


def test_a_place_that_cannot_be_written_is_one_line_and_status_2(
    store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (nowhere / "taken").write_text("in the way")
    assert run(monkeypatch, "--store", str(store.path), "--out", "taken") == 2
    assert capsys.readouterr().err == (
        "traceana: taken: the report cannot be written here (File exists); "
        "name another folder with --out DIR\n"
    )


def test_a_store_that_changes_leaves_the_earlier_page(
    store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Context) -> Content:
        raise StoreError("the store was changed")

    (nowhere / "index.html").write_text("earlier")
    first = replace(sections()[0], build=lambda _: Content(("A finding",)))
    chosen = (first, replace(sections()[-1], build=refuse))
    monkeypatch.setattr(build, "sections", lambda: chosen)
    with pytest.raises(StoreError, match="the store was changed"):
        build_report(store.path, out=nowhere)
    assert (nowhere / "index.html").read_text() == "earlier"
    assert [path.name for path in nowhere.iterdir()] == ["index.html"]


def fail(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("division by zero")


def test_a_fault_in_a_section_is_told_in_its_place(
    store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tuple(replace(one, build=fail, needs=()) for one in sections())
    monkeypatch.setattr(build, "sections", lambda: chosen)
    failed: list[str] = []
    path = build_report(store.path, out=nowhere, on_failure=failed.extend, formats="html,md")
    assert failed == [one.id for one in chosen]
    words = "> This section could not be computed. Please report it"
    assert path.with_suffix(".md").read_text(encoding="utf-8").count(words) == len(failed)
    page = read_page(path.read_text(encoding="utf-8"))
    for name in failed:
        found = section(page, name).text
        assert f"section {name}, ZeroDivisionError in test_data_source.py:" in found
        assert found.count("division by zero") == 1


def panic(*_: object, **__: object) -> Any:
    raise PanicException("index out of bounds")


@pytest.mark.parametrize("fault", [fail, panic])
def test_a_fault_in_a_section_costs_that_section_alone(
    store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    # the appendix is built as well
    chosen = tuple(
        replace(one, build=fault) if one.id == "variation" else one
        for one in sections()
        if one.id in ("variation", "traces", "provenance")
    )
    monkeypatch.setattr(build, "sections", lambda: chosen)
    failed: list[str] = []
    path = build_report(store.path, out=nowhere, on_failure=failed.extend, formats="html")
    assert failed == ["variation"]
    page = read_page(path.read_text(encoding="utf-8"))
    for name in ("traces", "provenance"):
        assert "could not be computed" not in section(page, name).text
        assert section(page, name).all("td", "dd")


def test_a_fault_in_a_figure_costs_that_figure_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = open_context(find_data_source(store.path))
    for figure in figures():
        content = Content((), (Gallery((Drawing(figure, None, None, "key", "A figure"),)),))
        monkeypatch.setitem(registry._ENTRIES, figure, FigureEntry(panic, "", ""))
        assert "PanicException" in draw_content(content, context).failed
        monkeypatch.setitem(registry._ENTRIES, figure, FigureEntry(fail, "", ""))
        picture = Drawing(figure, None, None, "key", "A figure")
        content = Content(("A finding",), (Gallery((picture,)), Text("after")))
        made = draw_content(content, context)
        assert f"figure {figure}, ZeroDivisionError in test_data_source.py:" in made.failed
        assert made.findings == ("A finding",)
        assert made.blocks == (Text("A figure: not drawn: division by zero."), Text("after"))


@pytest.mark.parametrize("step", ["cells_of", "csv_text"])
@pytest.mark.parametrize("table", [None, WorkloadSummary])
def test_a_fault_in_a_table_costs_that_table_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: str, table: type[ResultTable] | None
) -> None:
    monkeypatch.setattr(blocks, step, fail)
    content = Content(
        ("A finding",),
        (blocks.result_table(pl.DataFrame({"a": [1]}), table, caption="A table"), Text("after")),
    )
    made = draw_content(content, open_context(find_data_source(store.path)))
    name = table.__name__ if table else "without declaration"
    assert f"table {name}, ZeroDivisionError in test_data_source.py:" in made.failed
    assert made.findings == ("A finding",)
    assert made.blocks == (Text("A table: not shown: division by zero."), Text("after"))


def test_a_fault_names_no_folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object, **__: object) -> NoReturn:
        raise FileNotFoundError("no such file: /home/ann/data/jobs.parquet\n/home/ann")

    figure = next(iter(figures()))
    monkeypatch.setattr(blocks, "cells_of", lose)
    monkeypatch.setitem(registry._ENTRIES, figure, FigureEntry(lose, "", ""))
    parts = (
        blocks.result_table(pl.DataFrame({"a": [1]}), None, caption="A table"),
        Gallery((Drawing(figure, None, None, "key", "A figure"),)),
    )
    made = draw_content(Content((), parts), open_context(find_data_source(store.path)))
    assert made.blocks == (
        Text("A table: not shown: no such file: jobs.parquet."),
        Text("A figure: not drawn: no such file: jobs.parquet."),
    )
    assert "ann" not in made.failed


def test_a_failed_section_is_in_the_exit_status(
    store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = tuple(replace(one, build=fail) for one in sections() if one.id == "provenance")
    monkeypatch.setattr(build, "sections", lambda: chosen)
    assert run(monkeypatch, "--store", str(store.path)) == 1
    assert "not computed: provenance; the page states why" in capsys.readouterr().err
    assert (nowhere / "reports/latest/index.html").is_file()


def test_steps_are_told_as_they_come(
    zeus_store: Store, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, str]] = []
    quick = tuple(replace(part, build=lambda *_: Content((), ())) for part in sections())
    monkeypatch.setattr(build, "sections", lambda: quick)
    build_report(zeus_store.path, out=nowhere, on_step=lambda *step: told.append(step), workers=1)
    steps = len(sections()) + 1
    assert [(done, of) for done, of, _ in told] == [(done, steps) for done in range(steps + 1)]
    assert [what for *_, what in told] == ["ledgers", *(part.title for part in sections()), "page"]
