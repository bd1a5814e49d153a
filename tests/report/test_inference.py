"""Correlations, models of failure, competing ends and distributions on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.report.reader import Element, number, read_table, section
from traceana.analysis import failure_rates, task_runtimes
from traceana.report.blocks import DASH

if TYPE_CHECKING:
    from traceana.store import Store

PAI, OPENB, ITP = "alibaba-pai-2020", "alibaba-openb-2023", "microsoft-itp-2021"
FEATURES = {
    "GPU %": "gpus", "CPU %": "cpus", "memory (GiB)": "memory_gib",
    "task size (instances)": "n_instances",
}  # fmt: skip


@pytest.fixture(scope="module")
def tasks(store: Store) -> pd.DataFrame:
    frame = task_runtimes(store.scan(PAI, "tasks"), store.scan(PAI, "instances"))
    return pd.DataFrame(frame.to_dict(as_series=False))


def first_number(text: str) -> float:
    return float(text.split(" (", maxsplit=1)[0])


def tables(part: Element, words: str, title: str) -> list[dict[str, str]]:
    """Return the one table whose caption begins with these words and ends with that trace."""
    (caption,) = (
        caption.text
        for caption in part.all("caption")
        if caption.text.startswith(words) and title in caption.text
    )
    return read_table(part, caption)


def test_correlations_over_rows_and_group_means_are_numpys(
    page: Element, tasks: pd.DataFrame
) -> None:
    rows = tables(section(page, "correlations"), "Correlation of runtime (s)", "Alibaba PAI")
    assert [row["Outcome"] for row in rows] == ["success"] * 4 + ["failure"] * 4
    for row in rows:
        success = (tasks["status"] == "completed") == (row["Outcome"] == "success")
        x = FEATURES[row["Feature"]]
        known = tasks[success].dropna(subset=[x, "runtime_s"])
        assert number(row["Rows"]) == len(known)
        assert number(row["Rows"]) + number(row["Left out"]) == success.sum()
        means = known.groupby(x)["runtime_s"].mean()
        assert number(row["Points"]) == len(means)
        r = np.corrcoef(known[x], known["runtime_s"])[0, 1]
        assert first_number(row["Pearson, rows"]) == pytest.approx(r, abs=0.00501)
        r = np.corrcoef(means.index, means)[0, 1]
        assert first_number(row["Pearson, group means"]) == pytest.approx(r, abs=0.00501)
        rho = stats.spearmanr(known[x], known["runtime_s"]).statistic
        assert first_number(row["Spearman, rows"]) == pytest.approx(rho, abs=0.00501)


def test_the_published_views_are_drawn_of_pai(page: Element) -> None:
    captions = [caption.text for caption in section(page, "correlations").all("figcaption")]
    for outcome in ("success", "failure"):
        for feature in FEATURES:
            against = f"tasks against {feature}, {outcome}"
            assert any(f"Runtime of {against}: rows and group means" in text for text in captions)
            assert any(f"Mean runtime of {against}. Alibaba" in text for text in captions)
    for closer in (
        "CPU %, success, below 20,000 s", "memory (GiB), success, below 100,000 s",
        "CPU %, failure, below 50,000 s", "memory (GiB), failure, below 20,000 s",
    ):  # fmt: skip
        assert any(f"Mean runtime of tasks against {closer}. Alibaba" in text for text in captions)


def test_the_model_takes_every_row_that_has_its_features(page: Element, store: Store) -> None:
    part = section(page, "failure-model")
    summary = tables(part, "What the models were fitted to", "Alibaba PAI")
    rates = failure_rates(store.scan(PAI, "tasks"), ()).rows_by_key("reading", named=True)
    for row in summary:
        (counted,) = rates[row["Reading"]]
        assert number(row["n"]) + number(row["Left out"]) == counted["n"]
        assert number(row["Failures"]) <= counted["failures"]
        # so few users may leave none to predict
        assert row["AUC"] == DASH or 0 <= number(row["AUC"]) <= 1
        assert row["Errors"] == "jackknife, clusters of user"
    openb = tables(part, "What the models were fitted to", "Alibaba openb")
    assert {row["Errors"] for row in openb} == {"HC1, rows independent"}
    for row in tables(part, "Odds ratios of failure", "Alibaba PAI"):
        if " to " in row["95 % interval"]:
            low, high = map(number, row["95 % interval"].split(" to "))
            assert low <= number(row["Odds ratio"]) <= high


def test_ends_and_rows_left_out_are_all_rows(page: Element, store: Store) -> None:
    part = section(page, "competing-ends")
    for trace, table, title in ((PAI, "tasks", "Alibaba PAI"), (OPENB, "jobs", "Alibaba openb")):
        rows = tables(part, "Cumulative incidence of each end", title)
        failed = [row for row in rows if row["Ended"] == "failed"]
        all_rows = store.scan(trace, table).collect().height
        assert sum(number(row["Rows"]) + number(row["Left out"]) for row in failed) == all_rows
        for group in {next(iter(row.values())) for row in rows}:
            own = [row for row in rows if next(iter(row.values())) == group]
            ended = sum(number(row["Ended so"]) for row in own)
            assert ended + number(own[0]["Censored"]) == number(own[0]["Rows"])
            last = [number(row["At the last"]) for row in own if row["At the last"] != DASH]
            assert sum(last) <= 100.2


def test_families_are_in_order_and_their_likelihoods_scipys(page: Element, store: Store) -> None:
    rows = tables(section(page, "distributions"), "Families fitted", "Alibaba openb")
    above = [number(row["BIC above the best"]) for row in rows if row["AIC"] != DASH]
    assert above == sorted(above)
    assert above[0] == 0
    runtimes = store.scan(OPENB, "jobs").collect()["runtime_s"].drop_nulls().to_numpy()
    runtimes = runtimes[runtimes > 0]
    (lognormal,) = (row for row in rows if row["Family"] == "lognormal")
    mu, sigma = np.log(runtimes).mean(), np.log(runtimes).std()
    likelihood = stats.lognorm(sigma, scale=np.exp(mu)).logpdf(runtimes).sum()
    assert number(lognormal["AIC"]) == pytest.approx(4 - 2 * likelihood, abs=0.501)
    assert lognormal["Parameters (scale in s)"] == f"mu {mu:.3g}, sigma {sigma:.3g}"


def test_groups_of_itp_are_its_clusters_under_the_bound_of_all(page: Element, store: Store) -> None:
    part = section(page, "distributions")
    jobs = store.scan(ITP, "jobs").collect()
    rows = tables(part, "The best family by cluster, under the bound of all", "Microsoft ITP")
    counts = dict(jobs["cluster"].value_counts().rows())
    assert {row["Cluster"]: number(row["n"]) for row in rows} == counts
    assert f"The least runtime is {min(jobs['runtime_s']):.0f} s" in part.text.replace("\xa0", " ")
    captions = [caption.text for caption in part.all("figcaption")]
    assert sum("Runtimes of jobs beside the" in text for text in captions) == 3
