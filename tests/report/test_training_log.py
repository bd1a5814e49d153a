"""A user's training log reaches the sections on workers, whatever its clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

import traceana
from tests.report.reader import Element, number, read_caption, read_page, read_table, section
from traceana.report import build_report

WORKERS, STEPS = 4, 60
MAPPING = """
[trace]
title = "{title}"
[worker_samples]
job_id = "run"
worker_id = "CAST(rank AS VARCHAR)"
{clock}
batch_time = "seconds"
"""


def log(runs: int = 2) -> pl.DataFrame:
    """Runs of four workers of 0.25 s a step; in the last run worker 3 is slow for 20 steps."""
    times = 0.25 * np.exp(0.02 * np.random.default_rng(1).standard_normal((runs, WORKERS, STEPS)))
    times[-1, 3, 20:40] *= 2
    run, rank, step = (index.ravel() for index in np.indices(times.shape))
    return pl.DataFrame(
        {"run": [f"run {i}/a" for i in run], "rank": rank, "step": step, "seconds": times.ravel()}
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Element:
    """Two logs: one with steps, one with dates."""
    folder = tmp_path_factory.mktemp("logs")
    by_step = MAPPING.format(title="Our training log", clock='step = "step"')
    traceana.add_table(
        log(), trace="by-step", table="worker_samples", mapping=by_step, store=folder / "store"
    )
    dated = log(1).with_columns(
        at=pl.lit(datetime(2026, 3, 1, tzinfo=UTC)) + pl.duration(seconds=pl.col("step") * 10)
    )
    by_date = MAPPING.format(title="A dated log", clock='time_s = { time = "at" }')
    traceana.add_table(
        dated, trace="by-date", table="worker_samples", mapping=by_date, store=folder / "store"
    )
    path = build_report(folder / "store", out=folder / "page")
    return read_page(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["variation", "stragglers", "batching"])
def test_each_log_is_in_the_captions_of_each_section(page: Element, name: str) -> None:
    captions = [caption.text for caption in section(page, name).all("figcaption")]
    for title in ("Our training log", "A dated log"):
        assert any(title in caption for caption in captions), (name, title)


def test_findings_on_a_single_run_state_one_number(page: Element) -> None:
    assert "A dated log: the median CoV across workers (ddof 0) of run 0/a is" in (
        section(page, "variation").text
    )
    gain = r"A dated log: batch sizes [^.]* would make 1 job [\d.]+ times as fast as equal"
    assert re.search(gain, section(page, "batching").text)


def test_numbers_units_and_clocks_are_those_of_the_logs(page: Element) -> None:
    part = section(page, "variation")
    rows = [
        row
        for table in part.all("table")
        if table.all("caption")[0].text.endswith("Our training log")
        for row in read_table(part, table.all("caption")[0].text)
        if row.get("ddof") == "0"
    ]
    assert [row["Job"] for row in rows] == ["run 0/a", "run 1/a"]
    for row, (_, own) in zip(rows, log().group_by("run", maintain_order=True), strict=True):
        x = own["seconds"].to_numpy().reshape(WORKERS, STEPS)
        assert number(row["Time steps"]) == STEPS
        assert number(row["Median"]) == pytest.approx(np.median(x.std(0) / x.mean(0)), abs=5.01e-4)
    part = section(page, "stragglers")
    texts = {text.text for figure in part.all("figure") for text in figure.all("text")}
    assert {"Time (s)", "Step", "Time since the job began (s)"} <= texts
    ticks = {float(text.replace(",", "")) for text in texts if re.fullmatch(r"[\d,.]+", text)}
    assert 400 <= max(ticks) <= 600, "an absolute time is since the job's first sample"


def test_the_slow_worker_is_an_episode_in_steps(page: Element) -> None:
    part = section(page, "stragglers")
    (row,) = read_table(part, "Straggler episodes. Our training log")
    assert (row["Job"], row["Worker"], row["Onset (step)"], row["End (step)"]) == (
        "run 1/a",
        "3",
        "20",
        "39",
    )
    replayed = section(page, "batching")
    captions = [read_caption(table) for table in replayed.all("table")]
    (caption,) = (
        text for text in captions if text.startswith("Relative") and text.endswith("training log")
    )
    (cost,) = read_table(replayed, caption)
    assert cost["Steps"] == "20"
    assert number(cost["Uniform"]) == pytest.approx(100, abs=10)
