"""The page of the papers' figures: number, claims and command, of real traces alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traceana
import traceana.report.papers_page as report_papers_page
from traceana.claims.papers import claims_of, traces_of
from traceana.ingesters import ingest
from traceana.page.blocks import Picture
from traceana.page.section import Context, DataSource
from traceana.report.chosen_drawings import Choice
from traceana.report.papers_page import papers_page
from traceana.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from traceana.page.blocks import Drawing


def test_the_figures_of_a_real_trace_have_number_claims_and_command(
    real_data: Path, tmp_path: Path
) -> None:
    ingest(real_data / "zeus-2023", store=tmp_path)
    page = papers_page((), Context(open_store(tmp_path), DataSource(tmp_path, is_sample=False)))
    assert page is not None
    assert "<h3>Figure 2a: energy versus time of librispeech on V100" in page
    assert "traceana figures --paper zeus --number 12</pre>" in page
    assert "Claims: zeus-beta." in page
    assert page.count("<svg") > 10
    assert "ElasticFlow" not in page


def test_a_figure_that_takes_minutes_to_simulate_is_named_with_its_command(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = []

    def choose(
        _context: Context, _figure: str, _traces: object, choice: Choice, _kept: object
    ) -> list[Drawing]:
        features.append(choice.feature)
        return []

    monkeypatch.setattr(report_papers_page, "choose_drawings", choose)
    ingest(real_data / "elasticflow-2023", store=tmp_path)
    page = papers_page((), Context(open_store(tmp_path), DataSource(tmp_path, is_sample=False)))
    assert page is not None
    assert set(features) == {None, "figure-8a", "figure-10"}
    for number in ("9", "11a", "11b"):
        part = page.partition(f"<h3>Figure {number}:")[2].partition("<h3>")[0]
        assert "only its command draws it" in part
        assert f"traceana figures --paper itp-elasticflow --number {number}</pre>" in part


def test_synthetic_rows_show_no_published_figure() -> None:
    sample_store = traceana.open_sample()
    context = Context(sample_store, DataSource(sample_store.path, is_sample=True))
    assert papers_page((), context) is None


def test_a_paper_has_its_own_traces_alone() -> None:
    assert traces_of("zeus") == ("zeus-2023",)
    assert claims_of("zeus", "15") == ["zeus-figure-15"]
    assert claims_of("zeus", "1") == ["zeus-bars-* (18)"]


def test_a_picture_of_other_traces_is_not_a_papers_figure(real_data: Path, tmp_path: Path) -> None:
    ingest(real_data / "alibaba-pai-2020", store=tmp_path)
    of_others = Picture("<svg></svg>", "Jobs of openb and ITP", "arrivals", figure="arrivals")
    context = Context(open_store(tmp_path), DataSource(tmp_path, is_sample=False))
    page = papers_page([of_others], context)
    assert page is not None
    assert "<h3>Figure 3: submissions by hour" in page
    assert "Jobs of openb and ITP" not in page


def test_a_method_chooses_the_figures_of_its_key() -> None:
    keys = ("correlations-mine", "correlations-pearson-mine")
    for method, chosen in (("spearman", keys[:1]), ("pearson", keys[1:]), (None, keys)):
        assert tuple(key for key in keys if Choice(method=method).matches(key)) == chosen
