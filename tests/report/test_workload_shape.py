"""Concentration, arrivals, demand and queueing on the page against other computations."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from tests.report.reader import Element, number, read_page, read_table, section
from traceana import figures
from traceana.ingesters import add_table
from traceana.page.blocks import Drawing, Gallery, Picture, Table, Text
from traceana.page.section import Context
from traceana.questions.workload.analyze import describe_workload
from traceana.questions.workload.section import build
from traceana.report import build_report
from traceana.report.build import find_data_source
from traceana.report.run import draw_content
from traceana.store import Store, Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ITP, PAI, OPENB = "microsoft-itp-2021", "alibaba-pai-2020", "alibaba-openb-2023"


@pytest.fixture(scope="module")
def part(page: Element) -> Element:
    return section(page, "workload")


def jobs_of(store: Store, trace: str) -> pl.DataFrame:
    return store.scan(trace, "jobs").collect()


def captions(part: Element, first_words: str) -> list[str]:
    texts = [caption.text.partition(". ")[2] for caption in part.all("figcaption")]
    return [text for text in texts if text.startswith(first_words)]


def rows_of(part: Element, what: str, title: str) -> list[dict[str, str]]:
    """Return the rows of a trace in the table of all traces."""
    return [row for row in read_table(part, what) if row["Trace"].startswith(title)]


@pytest.mark.parametrize(("trace", "title"), [(ITP, "ITP"), (OPENB, "openb")])
def test_concentration_is_numpys(store: Store, part: Element, trace: str, title: str) -> None:
    total = rows_of(part, "Concentration", title)[0]
    jobs = jobs_of(store, trace)
    known = jobs.filter(jobs["gpus"] > 0)
    ran = known["runtime_s"]
    if "end_s" in jobs.columns and jobs["end_s"].count():  # within the window: from the first end
        ran = known["end_s"] - known["start_s"].clip(jobs["end_s"].to_numpy().min())
    hours = np.sort((known["gpus"] * ran).drop_nulls().to_numpy())
    n = len(hours)
    assert number(total["GPU jobs"]) == n
    assert number(total["Others"]) == jobs.height - n
    # mean absolute difference over twice the mean, over all pairs
    gini = np.abs(hours[:, None] - hours).mean() / (2 * hours.mean())
    assert number(total["Gini"]) == pytest.approx(gini, abs=5.01e-4)
    whole = int(0.1 * n)
    top = hours[::-1][:whole].sum() + (0.1 * n - whole) * hours[::-1][whole]
    assert number(total["Top 10 %"]) == pytest.approx(100 * top / hours.sum(), abs=0.501)
    total = rows_of(part, "Burstiness", title)[0]
    gaps = np.diff(np.sort(jobs["submit_s"].drop_nulls().to_numpy()))
    cv = gaps.std(ddof=1) / gaps.mean()
    assert number(total["CoV"]) == pytest.approx(cv, rel=6e-3)
    assert number(total["Burstiness"]) == pytest.approx((cv - 1) / (cv + 1), abs=5.01e-4)


def test_the_traces_stand_side_by_side(store: Store, part: Element) -> None:
    rows = read_table(part, "Workload of each trace")
    assert len({row["Trace"] for row in rows}) == len(rows)
    assert not any("ElasticFlow" in row["Trace"] for row in rows), "it repeats the jobs of ITP"
    (itp,) = (row for row in rows if row["Trace"].startswith("ITP"))
    jobs = jobs_of(store, ITP)
    gaps = np.diff(np.sort(jobs["submit_s"].to_numpy()))
    assert number(itp["Jobs"]) == jobs.height
    hours = (jobs["gpus"] * jobs["runtime_s"]).sum() / 3600
    assert number(itp["GPU-hours"]) == pytest.approx(hours, abs=0.501)
    assert number(itp["Median runtime"]) == pytest.approx(
        np.median(jobs["runtime_s"].to_numpy()), rel=6e-3
    )
    assert number(itp["CoV of interarrival times"]) == pytest.approx(
        gaps.std(ddof=1) / gaps.mean(), rel=6e-3
    )
    assert itp["Median queueing delay"] == "\N{EN DASH}"
    (curves,) = captions(part, "GPU-hours over jobs")
    assert "ITP" in curves
    assert "openb" in curves


def test_the_largest_rate_of_pai_is_on_the_clock_of_utc_8(store: Store) -> None:
    submit = np.sort(jobs_of(store, PAI)["submit_s"].drop_nulls().to_numpy()) + 8 * 3600
    jobs = np.bincount((submit % 86_400 // 3600).astype(int), minlength=24)
    clock = np.arange(submit[0], submit[-1], 60)
    observed = np.bincount((clock % 86_400 // 3600).astype(int), minlength=24) / 60
    hours = store.trace(PAI).once(describe_workload).hours
    assert hours is not None
    rates = hours["jobs_per_h"].to_numpy()
    assert rates.argmax() == (jobs / observed).argmax()
    assert rates.max() == pytest.approx(np.max(jobs / observed), rel=5e-3)


def test_arrivals_are_drawn_on_the_clock_that_each_trace_has(part: Element) -> None:
    (caption,) = captions(part, "Jobs submitted by hour of the day, clock of each trace")
    for name, clock in (("PAI", "UTC+8"), ("openb", "own"), ("ITP", "own")):
        assert re.search(rf"{name}[^;]*, {re.escape(clock)}", caption), name
    labels = {text.text for figure in part.all("figure") for text in figure.all("text")}
    assert "Hour of the day (clock of each trace)" in labels


def test_demand_says_where_starts_are_assumed(store: Store, part: Element) -> None:
    assumed = captions(part, "GPUs requested by hour, if every job had started when submitted")
    (observed,) = captions(part, "GPUs requested by hour. openb")
    assert len(assumed) == 1
    assert "ITP" in assumed[0]
    jobs = jobs_of(store, OPENB)
    unknown = jobs.filter(pl.any_horizontal(pl.col("start_s", "end_s", "gpus").is_null())).height
    assert f"{unknown} jobs without times or GPUs excluded" in observed


def test_queueing_delay_is_polars_and_told_where_there_is_none(store: Store, part: Element) -> None:
    about = "Queueing delay: time from submission to start, of the jobs that started."
    (total,) = rows_of(part, about.rstrip("."), "openb")
    jobs = jobs_of(store, OPENB)
    delays = (jobs["start_s"] - jobs["submit_s"]).drop_nulls()
    assert number(total["Delays"]) == len(delays)
    assert number(total["Never started"]) == jobs.height - len(delays)
    assert number(total["Maximum"]) == pytest.approx(max(delays), rel=6e-3)
    (unknown,) = re.findall(r"the queueing delay is not known: ([^.]*)", part.text)
    assert "ITP" in unknown
    assert "openb" not in unknown


@dataclass(frozen=True)
class Changed(Trace):
    """A trace with other jobs, and no cache."""

    changed: pl.DataFrame = field(kw_only=True, compare=False)

    def scan(self, table: str, /) -> pl.LazyFrame:  # noqa: ARG002
        return self.changed.lazy()

    def cached(self, key: object, function: Callable[[], Any], /, **_: object) -> Any:  # noqa: ARG002
        return function()


def test_survivors_of_an_earlier_time_are_told_and_left_out_of_arrivals(store: Store) -> None:
    jobs = jobs_of(store, OPENB)
    copies = [jobs.with_columns(pl.col("job_id") + f" {copy}") for copy in range(4)]
    jobs = pl.concat(copies).sort("submit_s")
    early = pl.int_range(pl.len()) < 5
    # five pods that began ten days before all others, and are still there
    jobs = jobs.with_columns(
        pl.when(early).then(pl.col("submit_s") - 864_000).otherwise("submit_s")
    )
    content = build([Changed(OPENB, store, changed=jobs)])
    first_end = min(jobs["end_s"].drop_nulls())
    survivors = sum(submit < first_end for submit in jobs["submit_s"])
    assert survivors >= 5
    texts = [
        " ".join((*block.definitions, block.text))
        for block in content.all_blocks
        if isinstance(block, Text)
    ]
    (told,) = (text for text in texts if "survivorship" in text)
    assert f"{survivors} of {jobs.height:,} pods were submitted before" in told
    (gallery,) = (block for block in content.blocks if isinstance(block, Gallery))
    (hours, *_) = gallery.pictures
    assert isinstance(hours, Drawing)
    assert hours.result["jobs"].sum() == jobs.height - survivors
    (table,) = (
        block
        for block in content.all_blocks
        if isinstance(block, Table) and block.caption.startswith("Burstiness")
    )
    assert table.rows[-1][0].endswith(", without survivors")
    gaps = table.headings.index("Interarrival times")
    assert number(table.rows[-1][gaps]) == jobs.height - survivors - 1
    assert number(table.rows[0][gaps]) == jobs.height - 1
    assert f"without the {survivors} that started before the first" in content.findings[1]


def test_a_trace_that_no_catalog_has_is_drawn_under_its_title(store: Store, tmp_path: Path) -> None:
    """Only its manifest describes it: jobs at absolute times in a zone, and nothing else."""
    begin = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
    for file in ("jobs.parquet", "ledger.json", "manifest.json"):
        (tmp_path / "my-lab").mkdir(exist_ok=True)
        shutil.copy(store.path / ITP / file, tmp_path / "my-lab" / file)
    for name in ("ledger.json", "manifest.json"):
        path = tmp_path / "my-lab" / name
        path.write_text(path.read_text().replace(ITP, "my-lab"))
    facts = json.loads(path.read_text())
    facts |= {
        "title": "Our lab",
        "short_title": "",
        "absolute_times": True,
        "timezone": "Asia/Tokyo",
        "notes": [],
    }
    path.write_text(json.dumps(facts | {"source": "api"}))
    own = Store(tmp_path)
    jobs = jobs_of(store, ITP).with_columns(pl.col("submit_s") + begin)
    context = Context(own, find_data_source(store.path))
    trace = Changed("my-lab", own, changed=jobs)
    content = draw_content(build([trace]), context)
    captions = [
        picture.caption
        for block in content.all_blocks
        if isinstance(block, Gallery)
        for picture in block.pictures
        if isinstance(picture, Picture)
    ]
    assert len(captions) == 5
    assert trace.label == "Our lab"
    hour = Counter(
        datetime.fromtimestamp(submit, ZoneInfo("Asia/Tokyo")).hour for submit in jobs["submit_s"]
    )
    observed = describe_workload(trace).hours
    assert observed is not None
    assert observed["jobs"].to_list() == [hour[slot] for slot in range(24)]
    assert any(
        text.startswith("Jobs submitted by hour of the day, Asia/Tokyo.") for text in captions
    )


@pytest.mark.parametrize("column", ["submit_s", "start_s"])
def test_a_log_of_arrivals_alone_has_three_figures(tmp_path: Path, column: str) -> None:
    # one job per hour for 60 days: every gap is 3,600 s, and every hour has the same rate
    rows = range(24 * 60)
    jobs = pl.DataFrame({"job_id": [f"j{row}" for row in rows], "gpus": [1.0, 2.0, 4.0, 8.0] * 360})
    at = pl.Series(column, [3600.0 * row for row in rows])
    add_table(jobs.with_columns(at), trace="mine", table="jobs", store=tmp_path / "store")
    path = build_report(tmp_path / "store", out=tmp_path / "out", only="workload")
    part = section(read_page(path.read_text(encoding="utf-8")), "workload")
    shown = [caption.text for caption in part.all("figcaption")]
    starts = "(starts; no submissions)"
    for what in ("Times between submissions", "Jobs submitted by hour", "GPUs requested per job"):
        (text,) = (text for text in shown if what in text)
        assert (starts in text) == (column == "start_s" and "GPUs" not in what)
    (row,) = read_table(part, "Burstiness")
    assert (row["Interarrival times"], number(row["Median"])) == ("1,439", 3600)
    assert number(row["CoV"]) == 0


def test_submissions_before_a_stated_window_are_no_arrivals(tmp_path: Path) -> None:
    # of 100 days before a window of 10 days, only services that still run are listed
    rng = np.random.default_rng(2)
    start = 2_000_000_000.0
    within = start + np.sort(rng.uniform(0, 864_000, 480))  # a Poisson process, 2 an hour
    submit = np.concatenate([start - rng.uniform(0, 8_640_000, 20), within])
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{at}" for at in range(500)],
            "gpus": 1,
            "submit_s": submit,
            "start_s": submit,
            "end_s": [start + 864_000] * 20 + [*(within + 600)],
            "runtime_s": [*(start + 864_000 - submit[:20]), *([600.0] * 480)],
            "status": "completed",
        }
    )
    mapping = tmp_path / "mine.toml"
    columns = "\n".join(f'{name} = "{name}"' for name in jobs.columns)
    window = f"window_start_s = {start}\nwindow_end_s = {start + 864_000}"
    mapping.write_text(f"[trace]\n{window}\n[jobs]\n{columns}\n")
    add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store", mapping=mapping)
    trace = Store(tmp_path / "store").trace("mine")
    workload = describe_workload(trace)
    assert (workload.survivors, workload.first_end_s) == (20, start)
    assert workload.hours is not None
    assert workload.hours["jobs"].sum() == 480
    gaps = np.diff(within)
    assert workload.interarrivals is not None
    assert workload.interarrivals.since is not None
    assert workload.interarrivals.since["cv"].item() == pytest.approx(
        gaps.std(ddof=1) / gaps.mean()
    )
    texts = " ".join(map(str, build([trace]).every_finding))
    assert "without the 20 that were submitted before the window" in texts


def test_what_runs_across_the_window_is_counted_and_said(tmp_path: Path) -> None:
    # 4 GPUs until 2 h, 2 GPUs from 1 h on, 1 GPU from 2 to 10 h: 8 + 18 + 8 GPU-hours in 10 h
    jobs = pl.DataFrame(
        {
            "job_id": ["before", "running", "within"],
            "gpus": [4, 2, 1],
            "submit_s": [None, 3600.0, 7200.0],
            "start_s": [None, 3600.0, 7200.0],
            "end_s": [7200.0, None, 36_000.0],
        }
    )
    mapping = tmp_path / "mine.toml"
    columns = "\n".join(f'{name} = "{name}"' for name in jobs.columns)
    mapping.write_text(f"[trace]\nwindow_start_s = 0\nwindow_end_s = 36000\n[jobs]\n{columns}\n")
    add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store", mapping=mapping)
    first, *_ = map(str, build([Store(tmp_path / "store").trace("mine")]).every_finding)
    assert "34 GPU-hours (3.40 GPUs in use on average)" in first
    assert "1 job without an end runs to the window's end" in first
    assert "1 job without a start or submission runs from the window's beginning" in first


def test_what_one_job_or_one_second_does_not_have_is_not_shown(tmp_path: Path) -> None:
    one = {"job_id": ["a"], "gpus": [2.0], "submit_s": [1.7e9], "start_s": [1.7e9 + 300]}
    alone = pl.DataFrame(one | {"end_s": [1.7e9 + 900], "runtime_s": [600.0]})
    add_table(alone, trace="one", table="jobs", store=tmp_path)
    second = pl.concat([alone.with_columns(job_id=pl.lit(name)) for name in "abcd"])
    add_table(second, trace="second", table="jobs", store=tmp_path)
    for name in ("one", "second"):
        results = describe_workload(Store(tmp_path).trace(name))
        assert results.hours is None  # no hour was observed from first to last submission
        assert (results.lorenz is None) == (results.concentration is None) == (name == "one")
    content = build([Store(tmp_path).trace("one")])
    texts = [block for block in content.blocks if isinstance(block, Text)]
    notes = " ".join(text for block in texts for text in (*block.definitions, block.text))
    assert "Jobs with a runtime: 1, of which 0 started before" in notes
    galleries = [block for block in content.all_blocks if isinstance(block, Gallery)]
    drawings = [one for gallery in galleries for one in gallery.pictures]
    (demand,) = [one for one in drawings if isinstance(one, Drawing) and one.figure == "gpu-demand"]
    figure = figures.draw_figure(demand.figure, demand.result, **demand.options)
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len({*labels}) == len(labels)
