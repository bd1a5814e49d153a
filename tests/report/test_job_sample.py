"""Of a PAI trace with very many tasks the page shows a sample, and says so wherever it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.generator.pai_shares import ROWS
from traceana.cohorts import tasks as job_sample
from traceana.cohorts.tasks import instance_times, sample_jobs
from traceana.page.blocks import Drawing, Gallery, Table, Text
from traceana.page.section import sections
from traceana.report.arrange import content_of
from traceana.report.build import find_data_source, open_context

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.page.blocks import Content
    from traceana.page.section import Context
    from traceana.store import Store

PAI = "PAI"
TRACE = "alibaba-pai-2020"
OF_TASKS = [section.id for section in sections() if section.shares]


def build(context: Context, name: str) -> Content:
    (section,) = (section for section in sections() if section.id == name)
    return content_of(section, context)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for results of samples: those of the whole trace have the same names."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def sampled(store: Store, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Context:
    """What a store with more tasks than are analysed one by one is built from."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(job_sample, "MAX_TASKS", 1000)
    monkeypatch.setattr(job_sample, "SAMPLED_TASKS", 800)
    return open_context(find_data_source(store.path), None)


def test_the_published_trace_and_whatever_has_no_more_tasks_is_analysed_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ROWS["pai_task_table"] <= job_sample.MAX_TASKS
    data = open_context(find_data_source(store.path), None)
    tasks = data.store.trace(TRACE).table("tasks")
    monkeypatch.setattr(job_sample, "MAX_TASKS", tasks.height)
    assert data.store.trace(TRACE).once(sample_jobs) is None


@pytest.mark.parametrize("name", OF_TASKS)
def test_every_number_of_a_sample_says_that_it_is_one(sampled: Context, name: str) -> None:
    content = build(sampled, name)
    sample = sampled.store.trace(TRACE).once(sample_jobs)
    assert sample is not None
    share = f", a sample of {100 * sample.fraction:.1f} % of its tasks"
    texts = [
        " ".join((*block.definitions, block.text))
        for block in content.all_blocks
        if isinstance(block, Text)
    ]
    assert (
        sum(f"All results are from a sample: {sample.description}" in text for text in texts) == 1
    )
    told = [
        *content.findings,
        *(block.caption for block in content.all_blocks if isinstance(block, Table)),
        *(
            f"{drawing.about}. {drawing.title}"
            for block in content.all_blocks
            if isinstance(block, Gallery)
            for drawing in block.pictures
            if isinstance(drawing, Drawing)
        ),
    ]
    of_pai = [text for text in told if PAI in text]
    assert of_pai
    assert [text for text in of_pai if share not in text] == []


def test_gpu_hours_of_a_sample_are_about_those_of_the_trace(
    sampled: Context, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hours_of(content: Content) -> dict[str, float]:
        (table,) = (
            block
            for block in content.all_blocks
            if isinstance(block, Table) and block.caption.startswith("GPU-hours requested")
        )
        at = table.headings.index("GPU-hours")
        return {row[0]: float(row[at].replace(",", "")) for row in table.rows}

    part = build(sampled, "task-runtimes")
    monkeypatch.undo()
    whole = hours_of(build(open_context(find_data_source(store.path), None), "task-runtimes"))
    for policy, hours in hours_of(part).items():
        assert hours == pytest.approx(whole[policy], rel=0.5)


def test_the_end_of_the_trace_is_that_of_all_its_rows(sampled: Context) -> None:
    records = sampled.store.trace(TRACE).once(instance_times)
    times = pl.concat(
        sampled.store.trace(TRACE).scan(table).select(pl.col(time).alias("time_s"))
        for table in ("tasks", "instances")
        for time in ("start_s", "end_s")
    )
    first_s, last_s = (
        times.select(pl.col("time_s").min(), last=pl.col("time_s").max()).collect().row(0)
    )
    assert (records.first_s, records.last_s) == (first_s, last_s)
    sample = sampled.store.trace(TRACE).once(sample_jobs)
    assert sample is not None
    assert records.tasks.height == sample.drawn
