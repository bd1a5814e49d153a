"""The code of the pages on figures and sections, run as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import polars as pl
import pytest

from tests.report.reader import read_page, read_table, section
from traceana.figures import FIGURES, FigureEntry
from traceana.ingesters import ingest
from traceana.report import build, build_report, figure_files, write_figures
from traceana.report.material import Material
from traceana.report.sections import Section, later
from traceana.samples import write_sample

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
TRACE = "microsoft-itp-2021"


def code_of(page: str) -> list[str]:
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(r"```\w+\n(.*?)```", text, flags=re.DOTALL)


def load(name: str, code: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)  # noqa: S102
    return module


def test_the_pages_add_a_figure_and_a_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, entry = code_of("add-a-figure.md")
    names = {"FigureEntry": FigureEntry, "runtime_cdf": load("runtime_cdf", figure)}
    for key, value in eval(f"{{{entry.strip()}}}", names).items():  # noqa: S307
        monkeypatch.setitem(FIGURES, key, value)
    code, line, result = code_of("add-a-section.md")
    monkeypatch.setitem(sys.modules, "traceana.report.sections.runtimes", load("runtimes", code))
    sections = eval(f"({line.strip()})", {"Section": Section, "later": later})  # noqa: S307
    for module in (build, figure_files):
        monkeypatch.setattr(module, "SECTIONS", sections)
    ingest(write_sample(tmp_path / "files", traces=[TRACE], scale=0.001), store=tmp_path / "store")

    jobs = pl.LazyFrame({"runtime_s": [40.0, None, 10.0, 20.0, 30.0]})
    with monkeypatch.context() as patch:
        patch.setattr(Material, "scan", lambda *_: jobs)
        patch.setattr(Material, "synthetic", lambda *_: False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        told = build_report(tmp_path / "store", out=tmp_path / "example")
    page = read_page(told.read_text(encoding="utf-8"))
    assert section(page, "findings").all("p")[0].text == result.strip()
    assert read_table(section(page, "runtimes"), "Runtimes") == [
        {"Runtimes": "4", "Median (s)": "25.0"}
    ]
    assert "4 runtimes, the longest 40 s." in section(page, "runtimes").text

    written = write_figures("runtime-cdf", store=tmp_path / "store", out=tmp_path / "out")
    assert {path.name for path in written.paths} == {
        *(f"runtime-cdf.{suffix}" for suffix in ("svg", "pdf", "png")),
        "runtime-cdf.captions.md",
    }
    assert "SYNTHETIC" in (tmp_path / "out" / "runtime-cdf.svg").read_text(encoding="utf-8")
