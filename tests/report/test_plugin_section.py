"""A package of someone else's adds a section."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.errors import DataError
from traceana.page.section import sections

PLUGIN = """
from traceana.page.blocks import Content
from traceana.page.section import Section

def build(traces):
    return Content(tuple(f"{trace.label} has a carbon section" for trace in traces))

SECTION = Section(
    "carbon", "Carbon", 1, build, needs=({"jobs": ("gpus",)},), part="Energy",
    question="How much carbon?",
)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    info = folder / "carbon-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: carbon\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[traceana.sections]\ncarbon = carbon_plugin:SECTION\n")
    (folder / "carbon_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sections.cache_clear()
    yield folder
    sections.cache_clear()
    sys.modules.pop("carbon_plugin", None)


@pytest.mark.usefixtures("site")
def test_its_section_is_on_the_page(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "gpus": [1.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store", title="Mine")
    options = {"out": tmp_path / "out", "only": "carbon", "formats": "md"}
    page = traceana.build_report(tmp_path / "store", **options).read_text()  # type: ignore[arg-type]
    assert "Mine has a carbon section" in page
    assert "How much carbon?" in page


def test_a_finding_that_only_repeats_the_heading_is_stated_once(site: Path, tmp_path: Path) -> None:
    text = PLUGIN.replace(
        'Content(tuple(f"{trace.label} has a carbon section" for trace in traces))',
        "Content((Finding('Carbon is low.', heading='Carbon is low'), 'It fell.'))",
    )
    plugin = text.replace(
        "import Section", "import Section\nfrom traceana.page.finding import Finding"
    )
    (site / "carbon_plugin.py").write_text(plugin)
    jobs = pl.DataFrame({"job_id": ["a"], "gpus": [1.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store", title="Mine")
    options = {"out": tmp_path / "out", "only": "carbon", "formats": "html"}
    page = traceana.build_report(tmp_path / "store", **options).read_text()  # type: ignore[arg-type]
    section = page[page.index('<section id="carbon"') :]
    assert re.findall("<li>(.*?)</li>", section) == ["It fell."]


def test_one_that_is_none_is_one_line(site: Path) -> None:
    info = site / "carbon-1.0.dist-info" / "entry_points.txt"
    info.write_text("[traceana.sections]\ncarbon = carbon_plugin:build\n")
    with pytest.raises(DataError, match=r"section carbon \(carbon_plugin:build\): it is not a"):
        sections()
    info.write_text("[traceana.sections]\ncarbon = carbon_plugin:NONE\n")
    with pytest.raises(DataError, match=r"section carbon \(carbon_plugin:NONE\): not loaded"):
        sections()


CANNOT = """
from traceana.errors import DataError
from traceana.page.blocks import Content, Gallery, drawing
from traceana.page.section import Section

def build(traces):
    if "theirs" in [trace.id for trace in traces]:
        raise DataError("their carbon is negative")
    sheet = drawing("gpu-demand", traces[0].jobs, trace=traces[0],
                    key="carbon", about="Carbon over time")
    return Content(("Mine has carbon",), lead=(Gallery((sheet,)),))

SECTION = Section(
    "carbon", "Carbon", 1, build, needs=({"jobs": ("gpus",)},), part="Energy", figures=("x",)
)
"""


def test_what_cannot_be_computed_or_drawn_is_stated_and_the_rest_shown(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "carbon_plugin.py").write_text(CANNOT)

    def refuse(*_: object, **__: object) -> None:
        raise DataError("there is no color for carbon")

    monkeypatch.setattr("traceana.figures.draw_figure", refuse)
    jobs = pl.DataFrame({"job_id": ["a"], "gpus": [1.0]})
    for trace in ("mine", "theirs"):
        traceana.add_table(
            jobs, trace=trace, table="jobs", store=tmp_path / "store", title=trace.title()
        )
    options = {"out": tmp_path / "out", "only": "carbon", "formats": "md"}
    page = traceana.build_report(tmp_path / "store", **options).read_text()  # type: ignore[arg-type]
    assert "Mine has carbon" in page
    assert "Theirs: not computed: their carbon is negative." in page
    assert "Mine: not computed" not in page
    assert "Carbon over time: not drawn: there is no color for carbon." in page
