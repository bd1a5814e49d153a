"""The stragglers section against the analysis and against computations of another kind."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tests.report.reader import Element, number, read_page, read_table, section
from traceana import StragglerResult, add_table, detect_stragglers
from traceana.ingesters import ingest
from traceana.report import build_report
from traceana.store import Store
from traceana.tables.formatting import share

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def part(page: Element) -> Element:
    return section(page, "stragglers")


@pytest.fixture(scope="module")
def samples(store: Store) -> pl.DataFrame:
    return store.scan("alibaba-minibatch-2020", "worker_samples").collect()


@pytest.fixture(scope="module")
def result(samples: pl.DataFrame) -> StragglerResult:
    return detect_stragglers(samples)


def test_slowdowns_are_pandas(part: Element, samples: pl.DataFrame) -> None:
    frame = pd.DataFrame(samples.to_dict(as_series=False))
    rows = read_table(part, "Cost of stragglers, by job")
    assert [row["Job"] for row in rows] == sorted(frame["job_id"].unique())
    for row in rows:
        ticks = frame[frame["job_id"] == row["Job"]].groupby("time_s")["batch_time"]
        slowest = ticks.max().sum()
        assert number(row["Slowdown"]) == pytest.approx(slowest / ticks.mean().sum(), abs=5.01e-4)
        assert number(row["Slowdown (median)"]) == pytest.approx(
            slowest / ticks.median().sum(), abs=5.01e-4
        )


def test_jobs_episodes_and_levels_are_the_results(part: Element, result: StragglerResult) -> None:
    jobs = read_table(part, "Cost of stragglers, by job")
    for row, expected in zip(jobs, result.jobs.sort("job_id").to_dicts(), strict=True):
        assert number(row["Episodes"]) == expected["n_episodes"]
        assert number(row["Persistent stragglers"]) == expected["n_slow_workers"]
        for heading, name in (
            ("Removed: episodes", "episodes_fraction"),
            ("Removed: levels", "levels_fraction"),
        ):
            assert number(row[heading]) == pytest.approx(100 * expected[name], abs=0.0501)
    shown = {
        (row["Job"], row["Worker"], number(row["Onset (s)"]), number(row["End (s)"]))
        for row in read_table(part, "Straggler episodes.")
    }
    assert shown
    columns = result.episodes.select("job_id", "worker_id", "onset_s", "end_s")
    assert shown == set(columns.iter_rows())
    rows = read_table(part, "Levels of the workers.")
    assert len(rows) == result.levels.height
    ratios = {
        (row["job_id"], row["worker_id"]): row["ratio_to_peers"]
        for row in result.levels.iter_rows(named=True)
    }
    for row in rows:
        expected_ratio = ratios[row["Job"], row["Worker"]]
        assert number(row["Ratio to peers"]) == pytest.approx(expected_ratio, abs=5.01e-4)


def test_the_costliest_jobs_are_drawn_with_every_episode(
    part: Element, result: StragglerResult
) -> None:
    figures = part.all("figure")
    costliest = result.jobs.sort("slowdown", descending=True).head(2).to_dicts()
    for figure, job in zip(figures, costliest, strict=True):
        gids = [group.attributes.get("id", "") for group in figure.all("g")]
        outlined = [
            gid
            for gid in gids
            if gid.startswith(f"overview-alibaba-minibatch-2020-{job['job_id']}-episode")
        ]
        assert len(outlined) == job["n_episodes"]
        assert len(figure.all("image")) == 2, "the map and its scale"


def test_ratios_to_peers_are_those_to_the_median_of_the_others(
    part: Element, samples: pl.DataFrame, result: StragglerResult
) -> None:
    captions = [caption.text for caption in part.all("figcaption")]
    for job in result.jobs.sort("slowdown", descending=True)["job_id"].head(2):
        wide = samples.filter(job_id=job).pivot("worker_id", index="time_s", values="batch_time")
        values = pd.DataFrame(wide.drop("time_s").to_dict(as_series=False)).astype(float)
        ratios = pd.concat(
            [values[worker] / values.drop(columns=worker).median(axis=1) for worker in values]
        ).dropna()
        assert sum(f"Stragglers of {job}:" in text for text in captions) == 1
        of_job = result.of_job(job).ratios["ratio_to_peers"].drop_nulls().sort().to_numpy()
        assert of_job == pytest.approx(ratios.sort_values().to_numpy())


def test_thresholds_and_the_finding_are_those_that_hold(
    page: Element, part: Element, result: StragglerResult
) -> None:
    (text,) = (item.text for item in part.all("p") if "it is a persistent straggler" in item.text)
    parameters = inspect.signature(detect_stragglers).parameters
    for name in ("slow_level", "min_severity", "min_reports", "max_gap_reports", "evidence"):
        assert f"{parameters[name].default:g}" in text
    finding = section(page, "stragglers").text
    hit = (result.jobs["n_episodes"] > 0).sum()
    assert f": {hit} of {result.jobs.height} jobs had straggler episodes" in finding
    # samples are spans of 10 s, which are weighted by their iterations
    worst = result.jobs.sort("slowdown_iterations").row(-1, named=True)
    cost = f"{worst['job_id']} would take {share(worst['slowdown_iterations'] - 1)} longer"
    assert cost in finding
    assert f"{share(worst['levels_fraction'])} to workers that are slower" in finding
    assert "if all workers waited for the slowest one at every time step" in finding
    assert f"{share(worst['slowdown_noise'] - 1)} by random variation alone)" in finding


def test_a_job_without_stragglers_and_one_of_a_single_worker(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for job, workers in ((1, 3), (2, 1)):
        rows = [
            f"{tick},{worker},1,{1 + 10 * tick},{500 + (7 * worker + 3 * tick) % 5}"
            for tick in range(40)
            for worker in range(workers)
        ]
        text = "\n".join([",worker,gpu,time,batch_time_norm", *rows])
        (files / f"job_{job}_norm.csv").write_text(text + "\n", encoding="utf-8")
    ingest(files, trace="alibaba-minibatch-2020", store=tmp_path / "store")
    text = build_report(tmp_path / "store", out=tmp_path / "out", only="stragglers").read_text(
        encoding="utf-8"
    )
    page = read_page(text)
    part = section(page, "stragglers")
    assert "No straggler episode was found." in part.text
    assert "No worker is slower than its peers beyond noise." in part.text
    assert len(part.all("figure")) == 1, "one worker alone has no peers"
    assert "Main results" not in section(page, "summary").text, "a null result may not lead"
    findings = section(page, "stragglers").text
    assert "0 of 2 jobs had straggler episodes, and none had persistent stragglers" in findings


def test_a_log_of_one_job_names_it(tmp_path: Path) -> None:
    rows = [("a", f"w{w}", 60.0 * t, 10.0 + (w == 3) * 5) for w in range(6) for t in range(60)]
    schema = ["job_id", "worker_id", "time_s", "batch_time"]
    samples = pl.DataFrame(rows, schema=schema, orient="row")
    out = tmp_path / "out"
    page = build_report({"worker_samples": samples}, out=out, only="stragglers", formats="md")
    assert "A had no straggler episode and 1 persistent straggler." in page.read_text("utf-8")


def test_of_times_behind_a_barrier_the_page_concludes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    compute = rng.lognormal(0, 0.08, (3, 8, 120))
    compute[:, 3] *= 1.5  # is slow, which the others wait for
    taken = compute.max(axis=1, keepdims=True) * rng.lognormal(0, 0.01, compute.shape)
    job, worker, tick = (axis.ravel() for axis in np.indices(taken.shape))
    samples = pl.DataFrame({"job_id": job, "worker_id": worker}).cast(pl.String)
    samples = samples.with_columns(time_s=pl.Series(10.0 * tick), batch_time=taken.ravel())
    samples = samples.with_columns(host=pl.Series(worker // 2).cast(pl.String))
    add_table(samples, trace="t", table="worker_samples", store=tmp_path / "store")
    text = build_report(tmp_path / "store", out=tmp_path / "out", formats="md").read_text()
    assert text.count("Cannot tell for 3 jobs (times may include synchronization") == 1
    measured = text.partition("## Simulations")[0]
    for concluded in ("within the noise", "beyond noise.", "explains"):
        assert concluded not in measured


def test_a_slow_host_and_a_worker_that_ends_early_are_results(tmp_path: Path) -> None:
    """Each worker of host n1 takes 7 % longer, worker 9 of n2 20 %; worker 12 ends at step 149."""
    draw = np.random.default_rng(4)
    step, worker = (axis.ravel() for axis in np.indices((300, 16)))
    factor = np.select([worker // 4 == 1, worker == 9], [1.07, 1.2], 1.0)
    samples = pl.DataFrame(
        {
            "job_id": "job42",
            "worker_id": worker.astype(str),
            "host": np.char.add("n", (worker // 4).astype(str)),
            "step": step,
            "batch_time": factor * draw.lognormal(0, 0.02, step.size),
        }
    ).filter((pl.col("worker_id") != "12") | (pl.col("step") < 150))
    page = build_report(
        {"worker_samples": samples}, out=tmp_path / "out", only="stragglers", formats="md"
    ).read_text("utf-8")
    results = page.partition("### Main results")[2].partition("\n## ")[0]
    assert "All 4 workers of host n1 in job42 are slower than their peers beyond noise" in results
    assert "1 worker ended before the job: worker 12 of job42" in results
    assert "(ended early: no value after step 149, the last 50 % of the job)" in results
    for host in ("n0", "n2", "n3"):
        assert f"workers of host {host}" not in page


def test_a_worker_slower_by_a_thousandth_is_not_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    step, worker = (axis.ravel() for axis in np.indices((2000, 8)))
    samples = pl.DataFrame({"job_id": "a", "worker_id": worker.astype(str), "step": step})
    times = np.where(worker == 3, 1.004, 1.0) * draw.lognormal(0, 0.01, step.size)
    samples = samples.with_columns(batch_time=times)
    assert detect_stragglers(samples, time="step").levels["is_slower"].to_list().count(True) == 1
    page = build_report(
        {"worker_samples": samples}, out=tmp_path / "out", only="stragglers", formats="md"
    ).read_text("utf-8")
    assert "Main results" not in page
    assert "1 worker is slower" not in page
