"""Concentration, arrivals, demand and queueing on the page against other computations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana.analysis import interarrivals
from traceana.report import find_origin
from traceana.report.blocks import Gallery, Table, Text
from traceana.report.context import Context
from traceana.report.sections.workload_shape import build_shape

if TYPE_CHECKING:
    from traceana.store import Store

ITP, PAI, OPENB = "microsoft-itp-2021", "alibaba-pai-2020", "alibaba-openb-2023"


@pytest.fixture(scope="module")
def part(page: Element) -> Element:
    return section(page, "workload")


def jobs_of(store: Store, trace: str) -> pl.DataFrame:
    return store.scan(trace, "jobs").collect()


def captions(part: Element, first_words: str) -> list[str]:
    texts = [caption.text.partition(". ")[2] for caption in part.all("figcaption")]
    return [text for text in texts if text.startswith(first_words)]


def concentration_of(part: Element, title: str) -> list[dict[str, str]]:
    (caption,) = (
        caption.text
        for caption in part.all("caption")
        if caption.text.startswith("Concentration") and title in caption.text
    )
    return read_table(part, caption)


@pytest.mark.parametrize(("trace", "title"), [(ITP, "Microsoft ITP"), (OPENB, "Alibaba openb")])
def test_concentration_is_numpys(store: Store, part: Element, trace: str, title: str) -> None:
    total = concentration_of(part, title)[-1]
    jobs = jobs_of(store, trace)
    hours = np.sort((jobs["gpus"] * jobs["runtime_s"]).drop_nulls().to_numpy())
    n = len(hours)
    assert number(total["Jobs with GPU-hours"]) == n
    assert number(total["Without"]) == jobs.height - n
    # mean absolute difference over twice the mean, over all pairs
    gini = np.abs(hours[:, None] - hours).mean() / (2 * hours.mean())
    assert number(total["Gini"]) == pytest.approx(gini, abs=5.01e-4)
    whole = int(0.1 * n)
    top = hours[::-1][:whole].sum() + (0.1 * n - whole) * hours[::-1][whole]
    assert number(total["Top 10 %"]) == pytest.approx(100 * top / hours.sum(), abs=0.0501)
    gaps = np.diff(np.sort(jobs["submit_s"].drop_nulls().to_numpy()))
    cv = gaps.std(ddof=1) / gaps.mean()
    assert number(total["cv"]) == pytest.approx(cv, rel=6e-3)
    assert number(total["Burstiness"]) == pytest.approx((cv - 1) / (cv + 1), abs=5.01e-4)


def test_every_cluster_has_its_row(store: Store, part: Element) -> None:
    *clusters, total = concentration_of(part, "Microsoft ITP")
    expected = interarrivals(jobs_of(store, ITP), by="cluster")
    assert [row["Cluster"] for row in clusters] == expected["cluster"].to_list()
    assert [number(row["Times between submissions"]) for row in clusters] == expected["n"].to_list()
    assert total["Cluster"] == "all"


def test_the_busiest_hour_of_pai_is_that_of_utc_8(store: Store, part: Element) -> None:
    submit = np.sort(jobs_of(store, PAI)["submit_s"].drop_nulls().to_numpy()) + 8 * 3600
    jobs = np.bincount((submit % 86_400 // 3600).astype(int), minlength=24)
    clock = np.arange(submit[0], submit[-1], 60)
    observed = np.bincount((clock % 86_400 // 3600).astype(int), minlength=24) / 60
    (caption,) = captions(part, "Jobs submitted by hour, UTC+8")
    assert f"busiest {np.argmax(jobs / observed)} (" in caption


def test_arrivals_are_drawn_on_the_clock_that_each_trace_has(part: Element) -> None:
    for per in ("hour", "weekday"):
        own = captions(part, f"Jobs submitted by {per}, on the trace's own clock")
        assert ["ITP" in text for text in own] == [True, False], "and openb"
        (local,) = captions(part, f"Jobs submitted by {per}, UTC+8")
        assert "Alibaba PAI GPU cluster trace" in local
    ticks = {text.text for figure in part.all("figure") for text in figure.all("text")}
    assert {"Mon", "Sun", "Weekday (UTC+8)", "Hour of the trace's own day"} <= ticks


def test_demand_says_where_starts_are_assumed(store: Store, part: Element) -> None:
    assumed = captions(part, "GPUs asked for by hour, had every job started when it was submitted")
    (observed,) = captions(part, "GPUs asked for by hour. Alibaba openb")
    assert len(assumed) == 1
    assert "Microsoft ITP" in assumed[0]
    jobs = jobs_of(store, OPENB)
    unknown = jobs.filter(pl.any_horizontal(pl.col("start_s", "end_s", "gpus").is_null())).height
    assert f"{unknown} jobs left out" in observed


def test_queueing_delay_is_polars_and_told_where_there_is_none(store: Store, part: Element) -> None:
    *classes, total = read_table(part, "Queueing delay")
    jobs = jobs_of(store, OPENB)
    assert [row["QoS class"] for row in classes] == jobs["qos"].unique().sort().to_list()
    delays = (jobs["start_s"] - jobs["submit_s"]).drop_nulls()
    assert number(total["Delays"]) == len(delays)
    assert number(total["Never started"]) == jobs.height - len(delays)
    assert number(total["Largest (s)"]) == pytest.approx(max(delays), abs=0.501)
    assert sum(number(row["Delays"]) for row in classes) == len(delays)
    assert part.text.count("no queueing delay can be seen") == 2, "ITP and PAI"


def test_survivors_of_an_earlier_time_are_told_and_left_out_of_arrivals(store: Store) -> None:
    jobs = jobs_of(store, OPENB).sort("submit_s")
    early = pl.int_range(pl.len()) < 5
    # five pods that began ten days before all others, and are still there
    jobs = jobs.with_columns(
        pl.when(early).then(pl.col("submit_s") - 864_000).otherwise("submit_s")
    )
    context = Context(store, origin=find_origin(store.path))
    content = build_shape(context, OPENB, jobs.lazy(), several_clusters=False)
    first_end = min(jobs["end_s"].drop_nulls())
    survivors = sum(submit < first_end for submit in jobs["submit_s"])
    assert survivors >= 5
    texts = [block.text for block in content.blocks if isinstance(block, Text)]
    assert texts[0].startswith(f"{survivors} of {jobs.height:,} pods were created before")
    (gallery,) = (block for block in content.blocks if isinstance(block, Gallery))
    assert f" {jobs.height - survivors:,} jobs over" in gallery.pictures[0].caption
    (table,) = (
        block
        for block in content.blocks
        if isinstance(block, Table) and block.caption.startswith("Concentration")
    )
    assert [row[0] for row in table.rows] == ["without survivors"]
    gaps = table.headings.index("Times between submissions")
    assert number(table.rows[0][gaps]) == jobs.height - survivors - 1
    assert number(table.total[gaps]) == jobs.height - 1
    assert "without survivors of an earlier time" in content.findings[0]
