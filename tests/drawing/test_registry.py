"""The registry: every figure says where it comes from, and the page is the registry's."""

from __future__ import annotations

import sys
from pathlib import Path
from runpy import run_path

import numpy as np
import polars as pl
import pytest

from traceana import machine_reliability
from traceana.claims.papers import PUBLISHED
from traceana.errors import DataError
from traceana.figures import figures, get_figure, plot_batch_time_ecdf

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_written_from_the_registry() -> None:
    page = run_path(str(DOCS / "scripts" / "reference_figures.py"))["figures_page"]()
    rows = [line for line in page.splitlines() if line.startswith("| `") and "`plot_" not in line]
    assert [line.split("`")[1] for line in rows] == list(figures())
    assert all(line.count("|") == 5 for line in rows)  # four cells


def test_every_published_figure_is_drawn_again_or_has_a_reason() -> None:
    drawn = {one.figure for published in PUBLISHED.values() for one in published if one.figure}
    assert drawn <= set(figures())
    # those that the publishers' texts describe
    assert {
        "worker-times",
        "cov",
        "batch-time-ecdf",
        "runtime-by",
        "runtime-against",
        "outcome-rates",
        "energy-savings",
        "energy-front",
        "batch-sweep",
        "regret",
        "recurring-choices",
        "batching-clusters",
        "batching-trajectory",
        "batching-iterations",
    } <= drawn
    (distribution,) = (one for one in PUBLISHED["alibaba-minibatch-2020"] if one.number)
    assert (distribution.number, distribution.figure) == ("5b", "batch-time-ecdf")
    for one in (one for published in PUBLISHED.values() for one in published):
        assert bool(one.command) == bool(one.figure)
        assert one.figure or one.answer.startswith("not reproducible: "), one.shows


def test_the_gallery_has_every_figure() -> None:
    shown = {path.stem.replace("_", "-") for path in DOCS.glob("examples/*/*.py")}
    assert shown == set(figures())


def test_the_distribution_of_mini_batch_time_is_of_each_job_on_its_own() -> None:
    samples = pl.DataFrame(
        {"job_id": ["job_10", "job_2", "job_2", "job_2"], "batch_time": [400.0, 900.0, None, 100.0]}
    )
    first, second = plot_batch_time_ecdf(samples).lines
    assert (first.get_label(), second.get_label()) == ("job_2", "job_10")
    # two known values: half of the samples are at most the smaller
    assert {100.0, 900.0} <= set(np.asarray(first.get_xdata()).tolist())
    assert sorted(set(np.asarray(first.get_ydata()).tolist())) == [0, 0.5, 1]
    with pytest.raises(DataError, match="there is no row"):
        plot_batch_time_ecdf(samples.clear())


def test_captions_have_the_n_of_a_frame_or_of_the_first_frame_of_a_result_with_the_column() -> None:
    rows = pl.DataFrame({"cov": [0.1, None, 0.3]})
    assert get_figure("cov-ecdf").describe(rows) == "n = 2 CoVs."
    faults = pl.DataFrame({"machine_id": ["a", "b"], "start_s": [0, 900], "end_s": [10, 990]})
    result = machine_reliability(faults)
    assert get_figure("faults-over-time").describe(result) == "n = 2 faults."
    without = {name for name, one in figures().items() if not one.counts} - {"concentration"}
    for name in without:
        plot = figures()[name].plot
        assert hasattr(sys.modules[plot.__module__], plot.__name__.replace("plot_", "describe_"))
