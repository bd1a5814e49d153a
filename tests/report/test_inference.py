"""Correlations, models of failure, competing risks and distributions on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import optimize, stats

from tests.report.reader import Element, number, read_caption, read_page, read_table, section
from traceana import failure_rates, task_runtimes
from traceana.ingesters import add_table
from traceana.questions.correlations.section import contradictions
from traceana.report import build_report, write_figures
from traceana.tables.display import DASH

if TYPE_CHECKING:
    from traceana.store import Store

PAI, OPENB, ITP = "alibaba-pai-2020", "alibaba-openb-2023", "microsoft-itp-2021"
FEATURES = {
    "GPUs": "gpus",
    "CPUs": "cpus",
    "memory (GiB)": "memory_gib",
    "instances": "n_instances",
}


@pytest.fixture(scope="module")
def tasks(store: Store) -> pd.DataFrame:
    frame = task_runtimes(store.scan(PAI, "tasks"), store.scan(PAI, "instances"))
    return pd.DataFrame(frame.to_dict(as_series=False))


def tables(part: Element, words: str, title: str) -> list[dict[str, str]]:
    """Return the one table whose caption begins with these words and ends with that trace."""
    (caption,) = (
        text
        for table in part.all("table")
        if (text := read_caption(table)).startswith(words)
        and title in text
        and table.attributes.get("class") != "excerpt"
    )
    return read_table(part, caption)


def test_correlations_over_rows_and_group_means_are_numpys(
    page: Element, tasks: pd.DataFrame
) -> None:
    rows = tables(section(page, "correlations"), "All correlations", "PAI")
    assert [row["Outcome"] for row in rows] == ["success"] * 24 + ["failure"] * 24
    for row in rows:
        success = (tasks["status"] == "completed") == (row["Outcome"] == "success")
        x = FEATURES[row["Feature"]]
        known = tasks[success].dropna(subset=[x, "runtime_s"])
        assert number(row["Rows"]) == len(known)
        means = known.groupby(x)["runtime_s"].mean()
        expected = {
            ("pearson", "rows"): np.corrcoef(known[x], known["runtime_s"])[0, 1],
            ("spearman", "rows"): stats.spearmanr(known[x], known["runtime_s"]).statistic,
            ("pearson", "group means"): np.corrcoef(means.index, means)[0, 1],
        }
        if row["Level"] != "rows":
            assert number(row["Points"]) == len(means)
        if (row["Method"], row["Level"]) in expected:
            r = expected[row["Method"], row["Level"]]
            assert number(row["r"]) == pytest.approx(r, abs=0.00501)
    both = tables(section(page, "correlations"), "Pearson's r and Spearman's rho", "PAI")
    ranks = [row for row in both if (row["GPU type"], row["Method"]) == ("all", "spearman")]
    known = {
        (row["Outcome"], row["Feature"]): row["r"]
        for row in rows
        if (row["Method"], row["Level"]) == ("spearman", "rows")
    }
    assert {(row["Outcome"], row["Feature"]): row["r"] for row in ranks} == known
    for row in rows:
        success = (tasks["status"] == "completed") == (row["Outcome"] == "success")
        assert number(row["Rows"]) + number(row["Missing"]) == success.sum()


def test_the_published_views_of_pai_are_panels_of_one_figure(page: Element) -> None:
    captions = [caption.text for caption in section(page, "correlations").all("figcaption")]
    (views,) = (text for text in captions if "Mean runtime of tasks versus each feature" in text)
    assert "below the published cut-offs. PAI" in views
    # each feature and outcome once, CPU and memory also cut and on a logarithmic axis
    assert "20 panels" in views


def test_every_published_view_of_pai_is_drawn_alone(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_figures("runtime-against", store=store.path, out=out, trace=PAI, formats="svg")
    names = {path.stem for path in out.glob("*.svg")}
    features = ("gpus", "cpus", "memory_gib", "n_instances")
    expected = {f"against-{o}-{x}" for o in ("success", "failure") for x in features}
    for view in (
        "success-cpus-20000s",
        "success-memory_gib-100000s",
        "failure-cpus-50000s",
        "failure-memory_gib-20000s",
    ):
        uncut = view.rpartition("-")[0]
        expected |= {f"against-{view}", f"against-{uncut}-log"}
        expected.add(f"against-{uncut}-log-{view.rpartition('-')[2]}")
    assert names == {f"{name}-{PAI}" for name in expected}


def test_a_cut_off_selects_tasks_before_they_are_grouped(
    page: Element, tasks: pd.DataFrame
) -> None:
    rows = tables(section(page, "correlations"), "Pearson's r of runtime over only", "PAI")
    assert {row["Runtime below (s)"] for row in rows} == {"all", "20,000", "50,000", "100,000"}
    for row in rows:
        success = (tasks["status"] == "completed") == (row["Outcome"] == "success")
        x = FEATURES[row["Feature"]]
        known = tasks[success].dropna(subset=[x, "runtime_s"])
        if row["Runtime below (s)"] != "all":
            known = known[known["runtime_s"] < number(row["Runtime below (s)"])]
        assert number(row["Rows"]) == len(known)
        points = known[[x, "runtime_s"]]
        if row["Level"] == "group means":
            points = known.groupby(x)["runtime_s"].mean().reset_index()
            assert number(row["Points"]) == len(points)
        expected = stats.pearsonr(points[x], points["runtime_s"])
        assert number(row["r"]) == pytest.approx(expected.statistic, abs=0.00501)
        assert row["p < .05, published test"] == ("yes" if expected.pvalue < 0.05 else "no")


def test_failure_correlates_and_is_counted_by_request(page: Element, tasks: pd.DataFrame) -> None:
    part = section(page, "outcomes")
    tasks = tasks[tasks["status"].isin(["completed", "failed"])]
    failed = tasks["status"] == "failed"
    for row in tables(part, "Pearson's r and Spearman's rho of failure", "PAI"):
        x = FEATURES[row["Feature"]]
        own = tasks[tasks[x].notna()]
        if row["GPU type"] != "all":
            own = own[own["gpu_type"] == row["GPU type"]]
        assert number(row["Rows"]) == len(own)
        test = stats.pointbiserialr if row["Method"] == "pearson" else stats.spearmanr
        if row["r"] != DASH:
            expected = test(failed[own.index], own[x]).statistic
            assert number(row["r"]) == pytest.approx(expected, abs=0.00501)
    by_cpu = tables(part, "Failure rate by requested CPU", "PAI")
    for row in by_cpu:
        own = failed[tasks["cpus"] == number(next(iter(row.values())))]
        assert (number(row["Completed or failed"]), number(row["Failures"])) == (
            len(own),
            own.sum(),
        )
    captions = [caption.text for caption in part.all("figcaption")]
    about = "Failure rate of tasks by group and requested resources. PAI"
    (rates,) = (text for text in captions if about in text)
    assert "5 panels" in rates


def test_the_wait_of_pai_is_until_the_first_task_starts(page: Element, store: Store) -> None:
    first = store.scan(PAI, "tasks").group_by("job_id").agg(pl.col("start_s").min())
    waits = store.scan(PAI, "jobs").select("job_id", "submit_s").join(first, on="job_id")
    wait = waits.select(pl.col("start_s") - pl.col("submit_s")).collect().to_series().drop_nulls()
    rows = read_table(section(page, "workload"), "Queueing delay: time")
    (pai,) = (row for row in rows if row["Trace"].startswith("PAI"))
    assert number(pai["Delays"]) == wait.len()
    assert number(pai["Maximum"]) == pytest.approx(wait.max(), rel=6e-3)
    captions = [caption.text for caption in section(page, "workload").all("figcaption")]
    assert any("time from submission to start. " in c and "PAI" in c for c in captions)


def test_the_model_takes_every_row_that_has_its_features(page: Element, store: Store) -> None:
    part = section(page, "failure-model")
    summary = tables(part, "Fit of the model,", "PAI")
    for row in summary:
        counted = failure_rates(store.scan(PAI, "tasks"), ()).row(0, named=True)
        assert number(row["n"]) + number(row["Excluded"]) == counted["n"]
        assert number(row["Failures"]) <= counted["failures"]
        # so few users may leave none to predict
        assert row["AUC"] == DASH or 0 <= number(row["AUC"]) <= 1
        assert row["Standard errors"] == "jackknife over user"
    # collinear features of few pods are left out or tested together, and no reason for no model
    assert tables(part, "Fit of the model,", "openb")
    for row in tables(part, "Odds ratios of failure", "PAI"):
        if " to " in row["95 % CI"]:
            low, high = map(number, row["95 % CI"].split(" to "))
            assert low <= number(row["Adjusted"]) <= high


def test_events_and_excluded_rows_are_all_rows(page: Element, store: Store) -> None:
    part = section(page, "competing-risks")
    for trace, table, title in ((PAI, "tasks", "PAI"), (OPENB, "jobs", "openb")):
        rows = tables(part, "Cumulative incidence of each event", title)
        failed = [row for row in rows if row["Event"] == "failed"]
        all_rows = store.scan(trace, table).collect().height
        assert sum(number(row["Rows"]) + number(row["Excluded"]) for row in failed) == all_rows
        for group in {next(iter(row.values())) for row in rows}:
            own = [row for row in rows if next(iter(row.values())) == group]
            ended = sum(number(row["Events"]) for row in own)
            assert ended + number(own[0]["Censored"]) == number(own[0]["Rows"])
            last = [
                number(row["At the last time"]) for row in own if row["At the last time"] != DASH
            ]
            assert sum(last) <= 100.2


def test_families_are_in_order_and_their_likelihoods_scipys(page: Element, store: Store) -> None:
    rows = tables(section(page, "distributions"), "Families fitted", "openb")
    above = [number(row["Delta BIC"]) for row in rows if row["AIC"] != DASH]
    assert above == sorted(above)
    assert above[0] == 0
    jobs = store.scan(OPENB, "jobs").collect()
    last = max(jobs[name].max() for name in ("submit_s", "start_s", "end_s"))  # type: ignore[type-var]
    known = jobs.filter(jobs["runtime_s"] > 0)
    first_end_s = jobs.select(pl.col("end_s").min()).item()
    entry = (first_end_s - known["start_s"]).clip(0).to_numpy()
    cut = ((known["status"].cast(str) == "running") & (known["end_s"] >= last)).to_numpy()
    x = known["runtime_s"].to_numpy()

    def loss(theta: list[float]) -> float:
        law = stats.lognorm(np.exp(theta[1]), scale=np.exp(theta[0]))
        own = np.where(cut, law.logsf(x), law.logpdf(x)) - law.logsf(np.minimum(entry, x))
        return float(-own.sum())

    found = optimize.minimize(loss, [5.0, 0.5], method="Nelder-Mead", options={"xatol": 1e-7})
    (lognormal,) = (row for row in rows if row["Family"] == "lognormal")
    assert number(lognormal["AIC"]) == pytest.approx(4 + 2 * found.fun, abs=0.51)


def test_the_bound_of_the_runtimes_is_stated(page: Element, store: Store) -> None:
    part = section(page, "distributions")
    jobs = store.scan(ITP, "jobs").collect()
    smallest = f"The smallest runtime, {min(jobs['runtime_s']):.0f} s,"
    assert smallest in part.text.replace("\xa0", " ")
    captions = [caption.text for caption in part.all("figcaption") if "ITP" in caption.text]
    assert sum("Runtimes of jobs and fitted families" in text for text in captions) == 1
    assert sum("Distribution of runtimes" in text for text in captions) == 1


STATUS_WORDS = ["completed"] * 6 + ["failed"] * 3 + ["cancelled"]


def made_up(rows: int, **columns: pl.Series) -> pl.DataFrame:
    """Return jobs of no known trace."""
    rng = np.random.default_rng(3)
    start = rng.integers(0, 10**6, rows)
    runtime = np.ceil(rng.lognormal(5, 1, rows))
    jobs = pl.DataFrame(
        {
            "job_id": [f"job {i}" for i in range(rows)],
            "submit_s": start,
            "start_s": start,
            "end_s": start + runtime,
            "runtime_s": runtime,
            "status": rng.choice(STATUS_WORDS, rows),
        }
    )
    return jobs.with_columns(**columns)


SECTIONS = (
    "outcomes",
    "competing-risks",
    "failure-model",
    "distributions",
    "correlations",
    "runtime-ratio",
)


def build(jobs: pl.DataFrame, folder: Path) -> Element:
    add_table(jobs, trace="somewhere-2031", table="jobs", store=folder / "store", title="Our jobs")
    path = build_report(folder / "store", out=folder / "page", only=SECTIONS)
    return read_page(path.read_text(encoding="utf-8"))


def test_jobs_of_an_unknown_trace_reach_every_section(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    jobs = made_up(
        400,
        user=pl.Series(rng.choice(list("abcdefghij"), 400)),
        queue=pl.Series(rng.choice(["short", "long"], 400)),
        gpus=pl.Series(rng.choice([1.0, 2, 8], 400)),
        cpus=pl.Series(rng.choice([4.0, 8, 16], 400)),
    )
    page = build(jobs, tmp_path)
    figures = {
        "outcomes": "Failure rate of jobs by group and requested resources",
        "competing-risks": "Cumulative incidence of each event of jobs by queue",
        "failure-model": "Odds ratios of failure of jobs",
        "distributions": "Runtimes of jobs and fitted families: upper tail",
        "correlations": "Rank correlation of runtime with the resources that jobs request, overall",
        "runtime-ratio": "Runtime ratios over all rows, and within groups",
    }
    drawn = {
        "outcome-rates": "Failure rate of jobs by requested CPU",
        "runtime-by": "Runtime of completed jobs by queue",
        "cumulative-incidence": "Cumulative incidence of cancelled jobs by queue",
    }
    for name, about in figures.items():
        captions = [caption.text for caption in section(page, name).all("figcaption")]
        assert any(about in text for text in captions), name
    for name, about in drawn.items():
        write_figures(name, store=tmp_path / "store", out=tmp_path / "drawn", formats="svg")
        assert about in (tmp_path / "drawn" / f"{name}.captions.md").read_text(encoding="utf-8")
    rates = read_table(section(page, "outcomes"), "Failure rate of jobs by queue")
    failed = jobs.filter(status="failed")["queue"].value_counts()
    assert {row["Queue"]: number(row["Failed"]) for row in rates} == dict(failed.rows())


@pytest.mark.parametrize(("r", "stated"), [(0.09, 0), (0.3, 1)])
def test_negligible_correlations_of_unequal_sign_do_not_contradict(r: float, stated: int) -> None:
    rows = pl.DataFrame(
        {
            "method": ["pearson", "spearman"],
            "r": [r, -0.05],
            "ci_low": [r - 0.01, -0.06],
            "ci_high": [r + 0.01, -0.04],
        }
    ).with_columns(
        outcome=pl.lit("success"),
        x=pl.lit("gpus"),
        feature=pl.lit("GPUs"),
        level=pl.lit("row"),
        n=40_000,
        pvalue_adjusted=1e-4,
        r_without=0.0,
        n_carrying=pl.lit(None, pl.Int64),
    )
    assert len(contradictions(rows)) == stated


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param(made_up(5), id="five rows"),
        pytest.param(made_up(60).with_columns(status=pl.lit("completed")), id="one status"),
        pytest.param(made_up(60).with_columns(status=pl.lit("running")), id="nothing ended"),
        pytest.param(made_up(60).with_columns(runtime_s=60.0), id="one runtime"),
        pytest.param(made_up(60, queue=pl.Series(["q", None] * 30)), id="half without a group"),
    ],
)
def test_a_poor_trace_gets_a_sentence_instead_of_a_failure(
    jobs: pl.DataFrame, tmp_path: Path
) -> None:
    page = build(jobs, tmp_path)
    # a section whose parts are all text is not on the page
    there = [part for part in page.all("section") if part.attributes["id"] in SECTIONS]
    assert there
    assert all(part.all("li") or part.all("p") for part in there)
    assert "could not be computed" not in page.text


def test_use_of_pai_is_against_the_requests_of_its_tasks(page: Element, store: Store) -> None:
    use, tasks = (store.scan(PAI, name).collect() for name in ("instance_usage", "tasks"))
    once = use.unique("worker_id", keep="last", maintain_order=True)
    both = once.join(tasks, on=["job_id", "task_name"], how="left")
    rows = tables(section(page, "utilization"), "Used versus requested resources by GPU", "PAI")
    for name, label, used in (
        ("gpus", "GPUs", "gpus_used"),
        ("cpus", "CPU cores", "cpus_used"),
        ("memory_gib", "Memory (GiB)", "memory_gib_mean"),
    ):
        for row in (row for row in rows if row["Resource"] == label):
            kind = pl.col("gpu_type")
            stated = kind.is_null() if row["GPU type"] == "not stated" else kind == row["GPU type"]
            own = both.filter(stated, pl.col(name) > 0, pl.col(used).is_not_null())
            assert number(row["Instances"]) == own.height
            if own.height:
                share = own.select(100 * pl.col(used).sum() / pl.col(name).sum()).item()
                assert number(row["Used of requested"]) == pytest.approx(share, abs=0.0501)


def test_resources_in_a_fixed_ratio_have_one_statement(tmp_path: Path) -> None:
    gpus = [1, 2, 4, 8] * 50
    jobs = pl.DataFrame(
        {
            "job_id": [str(at) for at in range(200)],
            "user": [f"u{at % 40}" for at in range(200)],
            "submit_s": [600.0 * at for at in range(200)],
            "start_s": [600.0 * at for at in range(200)],
            "end_s": [700.0 * at + 100 + gpu * (at % 7) for at, gpu in enumerate(gpus)],
            "gpus": gpus,
            "cpus": [8 * gpu for gpu in gpus],
            "memory_gib": [100 * gpu for gpu in gpus],
            "status": "completed",
        }
    )
    out = tmp_path / "report"
    text = build_report({"jobs": jobs}, out=out, only="correlations", formats="md").read_text()
    (sentence,) = set(re.findall(r"Completed jobs that request [^\n]+Spearman's rho [^\n]+", text))
    assert sentence.count("rho ") == 1
    assert "GPUs, CPUs and memory, which rank the jobs alike, " in sentence
