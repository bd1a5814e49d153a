"""Correlations of frames against pandas and scipy, planted nulls, and the published pods."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats

from traceana import correlate, implied_n, runtime_correlations
from traceana.errors import DataError
from traceana.store import Store

ROWS = pl.DataFrame({"x": [1.0, 1, 2, 3, 4, 4], "y": [2.0, 4, 3, 7, 5, 9], "g": list("aaabbb")})


def test_levels_by_hand() -> None:
    levels = ("row", "group_mean", "group_mean_weighted")
    table = correlate(ROWS, "x", "y", level=levels).table
    rows, means, weighted = table.iter_rows(named=True)
    found = scipy.stats.pearsonr(ROWS["x"], ROWS["y"])
    assert (rows["n"], rows["n_groups"]) == (6, None)
    assert (rows["r"], rows["pvalue_t"]) == pytest.approx((found.statistic, found.pvalue))
    found = scipy.stats.pearsonr([1, 2, 3, 4], [3, 3, 7, 7])
    assert (means["n"], means["n_groups"]) == (6, 4)
    assert (means["r"], means["pvalue_t"]) == pytest.approx((found.statistic, found.pvalue))
    found = scipy.stats.pearsonr(ROWS["x"], [3, 3, 3, 7, 7, 7])
    assert weighted["r"] == pytest.approx(found.statistic)
    assert weighted["n_effective"] == pytest.approx(36 / 10)
    assert table["ci_low"].drop_nulls().len() == 1  # group means have no interval
    small = "4 of 4 means are of fewer than 5 rows"
    assert means["note"] == weighted["note"] == small
    few = correlate(ROWS, "x", "y", level=levels[1:], cluster="g", resamples=100).table
    why = "no test (equivalent to 2.0 units of equal size; 10 are needed)"
    assert few["note"].to_list() == [f"{why}; {small}"] * 2
    every = scipy.stats.false_discovery_control(table["pvalue"].to_list())
    assert table["pvalue_adjusted"].to_list() == pytest.approx(every.tolist())


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"x": pl.lit(1.0)}, "x is constant"),
        ({"y": pl.lit(2.0)}, "y is constant"),
        ({"y": pl.lit(None, pl.Float64)}, "fewer than 4 rows with both values"),
        ({"x": pl.col("x") / 0}, "6 row.s. with a value beyond 1e.150 .infinite"),
        ({"x": pl.col("x") * 1e-200, "y": pl.col("y") * 1e-200}, "vary too little or too much"),
        ({"x": pl.col("x") * 1e-200}, "vary too little or too much"),
    ],
)
@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_what_cannot_be_told_has_its_reason(
    change: dict[str, pl.Expr], note: str, method: str
) -> None:
    if "too little" in note and method == "spearman":
        return  # ranks vary as ranks do
    line = correlate(ROWS.with_columns(**change), "x", "y", method=method).table
    assert line.select("r", "ci_low", "ci_high", "pvalue", "pvalue_adjusted").row(0) == (None,) * 5
    assert line.select(pl.col("note").str.contains(note)).item()


@pytest.mark.parametrize("n", [5, 40])
def test_ties_widen_the_interval_of_kendalls_tau(n: int) -> None:
    x, y = np.random.default_rng(4).integers(0, 4, (2, n))
    line = correlate(pl.DataFrame({"x": x, "y": y}), "x", "y", method="kendall").table
    theirs = scipy.stats.kendalltau(x, y, method="asymptotic")
    # the variance of tau without ties, and with them
    error = abs(theirs.statistic) / scipy.stats.norm.isf(theirs.pvalue / 2)
    wider = error**2 / (2 * (2 * n + 5) / (9 * n * (n - 1)))
    half = scipy.stats.norm.ppf(0.975) * np.sqrt(0.437 / (n - 4) * wider)
    ends = np.tanh(np.arctanh(theirs.statistic) + np.array([-half, half]))
    assert line.select("ci_low", "ci_high").row(0) == pytest.approx(tuple(ends))


def test_an_interval_that_excludes_nothing_is_none() -> None:
    rows = pl.DataFrame({"x": [1.0, 2, 3, 4], "y": [2.0, 1, 4, 3]})
    for confidence, note in ((0.99, None), (0.999, "no interval: too few rows")):
        line = correlate(rows, "x", "y", method="spearman", confidence=confidence).table
        # on Fisher's scale, 2.58 and 3.29 times sqrt(1.18) to either side
        assert line["ci_low"].is_null().item() == (note is not None)
        assert (line["note"].item() or "").startswith(note or "")


def test_few_rows_that_carry_r_are_counted() -> None:
    x, y = np.random.default_rng(5).standard_normal((2, 200))
    x[:4] = y[:4] = [20, 25, 30, 35]
    line = correlate(pl.DataFrame({"x": x, "y": y}), "x", "y").table.row(0, named=True)
    assert line["n_carrying"] == 4
    assert line["r_without"] == pytest.approx(np.corrcoef(x[4:], y[4:])[0, 1])


def test_rows_without_both_values_are_counted() -> None:
    rows = pl.concat([ROWS, pl.DataFrame({"x": [None, 5.0], "y": [1.0, float("nan")], "g": "a"})])
    table = correlate(rows, "x", "y").table
    assert table.select("n", "n_missing").row(0) == (6, 2)
    assert table["r"].item() == pytest.approx(correlate(ROWS, "x", "y").table["r"].item())


def gappy(n: int) -> pl.DataFrame:
    """Rows of which x, y or both may be missing, with ties in both and none in z."""
    rng = np.random.default_rng(5)
    x = rng.choice([0.1, 0.5, 1, 2, 8], n)
    z = rng.lognormal(0, 1, n)
    y = np.round(5 * x * rng.lognormal(0, 1, n) + z, 1)
    return pl.DataFrame({"x": x, "z": z, "y": y, "g": rng.choice(["a", "b"], n)}).with_columns(
        pl.when(pl.int_range(n) % 7 > 0).then("x"), pl.when(pl.int_range(n) % 5 > 0).then("y")
    )


def test_ranks_are_of_the_rows_with_both_values() -> None:
    rows = gappy(300)
    for line in correlate(rows, ("x", "z"), "y", method="spearman").table.iter_rows(named=True):
        pair = rows.select(line["x"], "y").drop_nulls()
        assert line["n"] == pair.height
        theirs = scipy.stats.spearmanr(pair[line["x"]], pair["y"]).statistic
        assert line["r"] == pytest.approx(theirs, rel=1e-12)


def test_means_far_apart_cost_no_digits() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 200))
    rows = pl.DataFrame({"x": x, "y": y, "g": [0, 1] * 100})
    far = rows.with_columns(x=pl.col("x") + pl.col("g") * 2.0**30)
    near = correlate(rows, "x", "y", by="g").table["r"]
    assert correlate(far, "x", "y", by="g").table["r"].to_list() == pytest.approx(
        near.to_list(), rel=1e-6
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "phi"}, "method must be among pearson, spearman, kendall; it is 'phi'"),
        ({"level": "job"}, "level must be among row, group_mean"),
        ({"adjust": "fdr"}, "adjust must be one of none"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"resamples": 9}, "resamples must be a whole number from 100 to"),
        ({"cluster": "job"}, "column job is missing"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(DataError, match=text):
        correlate(ROWS, "x", "y", **options)  # type: ignore[arg-type]


def test_a_column_with_itself_and_a_lost_cluster_are_refused() -> None:
    with pytest.raises(DataError, match="column x cannot be correlated with itself"):
        correlate(ROWS, ("x", "y"), "x")
    with pytest.raises(DataError, match="cluster g is null in 6 row"):
        correlate(ROWS.with_columns(g=pl.lit(None, pl.String)), "x", "y", cluster="g")


def test_clusters_decide_how_much_rows_are_worth_and_a_seed_repeats() -> None:
    rng = np.random.default_rng(3)
    of = np.repeat(np.arange(60), 20)
    x, y = (rng.standard_normal(60)[of] + 0.1 * rng.standard_normal(1200) for _ in range(2))
    rows = pl.DataFrame({"x": x, "y": y, "user": of})
    first, again = (correlate(rows, "x", "y", cluster="user", rng=5).table for _ in range(2))
    assert first.equals(again)
    line = first.row(0, named=True)
    assert line["n_clusters"] == 60
    assert 25 < line["n_effective"] < 140
    naive = correlate(rows, "x", "y").table.row(0, named=True)
    assert line["ci_high"] - line["ci_low"] > 3 * (naive["ci_high"] - naive["ci_low"])
    # cells of the jackknife of 240 clusters, 200 if not stated
    many = rows.head(480).with_columns(user=pl.int_range(pl.len()) // 2)
    default = correlate(many, "x", "y", cluster="user").table
    assert default.equals(correlate(many, "x", "y", cluster="user", resamples=200).table)
    assert not default.equals(correlate(many, "x", "y", cluster="user", resamples=201).table)


@pytest.mark.parametrize(
    ("r", "p", "low", "high"),
    [
        ("0.44", "2.01e-02", 27, 28),
        ("0.64", "4.51e-07", 50, 51),
        ("0.35", "3.78e-05", 129, 136),
        ("0.04", "4.50e-01", 284, 469),
        ("-0.14", "4.98e-01", 25, 27),
        ("-0.11", "4.50e-01", 46, 54),
        ("-0.09", "3.19e-01", 112, 139),
    ],
)
def test_the_published_pairs_imply(r: str, p: str, low: int, high: int) -> None:
    found = implied_n(r, p)
    assert (found.low, found.high, found.note) == (low, high, None)
    step = {"r": 0.5 * 10.0 ** -len(r.split(".")[1]), "p": 0.005 * 10.0 ** int(p.split("e")[1])}

    def agrees(n: int) -> bool:  # by a search over r, with scipy's own distribution of r
        rs = np.abs(np.linspace(float(r) - step["r"], float(r) + step["r"], 2001))
        of = scipy.stats.beta(n / 2 - 1, n / 2 - 1, loc=-1, scale=2)
        there = 2 * of.sf(rs)
        return bool(((there >= float(p) - step["p"]) & (there <= float(p) + step["p"])).any())

    assert agrees(low)
    assert agrees(high)
    assert not agrees(low - 1)
    assert not agrees(high + 1)


def test_implied_numbers_of_few_points_have_a_closed_form() -> None:
    # p is 1 - 2 asin(r) / pi with 3 points, and 1 - r with 4
    for r, p, n in (("0.5", "0.67", 3), ("0.50", "0.50", 4)):
        found = implied_n(r, p)
        assert (found.low, found.high) == (n, n)
    line = implied_n("1.0", "0.00")
    assert (line.low, line.high) == (3, None)


def test_pairs_without_a_number_of_points() -> None:
    assert implied_n("0.99", "0.9").low is None
    assert implied_n("0.00", "0.5").high is None
    with pytest.raises(DataError, match="p must be a number as printed"):
        implied_n("-0.09", "3.19e-0.1")
    with pytest.raises(DataError, match="r must lie from -1 to 1 and p from 0 to 1"):
        implied_n("1.2", "0.1")


def test_the_published_pods(real_store: Store) -> None:
    jobs = real_store.scan("alibaba-openb-2023", "jobs")
    frame = pd.DataFrame(jobs.collect().to_dict(as_series=False)).dropna(subset=["runtime_s"])
    frame["outcome"] = np.where(frame["status"] == "completed", "success", "failure")
    failure = real_store.manifest("alibaba-openb-2023").failure_statuses
    table = runtime_correlations(jobs, failure=failure).table
    assert set(table["x"]) == {"gpus", "cpus", "memory_gib"}
    for line in table.iter_rows(named=True):
        rows = frame[frame["outcome"] == line["outcome"]]
        assert line["n"] == len(rows)
        points = rows[[line["x"], "runtime_s"]]
        if line["level"] == "group_mean":
            points = points.groupby(line["x"], as_index=False)["runtime_s"].mean()
            assert line["n_groups"] == len(points)
        if len(points) < 4:
            assert line["r"] is None
            continue
        test = scipy.stats.pearsonr if line["method"] == "pearson" else scipy.stats.spearmanr
        theirs = test(*(points[name].to_numpy() for name in points))
        assert line["r"] == pytest.approx(theirs.statistic, rel=1e-9)
        assert line["pvalue_t"] == pytest.approx(theirs.pvalue, rel=1e-6)


def test_statuses_and_features_are_checked() -> None:
    jobs = pl.DataFrame({"status": ["completed"] * 6, "runtime_s": ROWS["y"], "gpus": ROWS["x"]})
    with pytest.raises(DataError, match=r"status 'DONE' is found; .*; pass success= and failure="):
        runtime_correlations(jobs.with_columns(status=pl.lit("DONE")))
    with pytest.raises(DataError, match="no row has status completed, failed; pass success= and"):
        runtime_correlations(jobs.with_columns(status=pl.lit("running")))
    with pytest.raises(
        DataError, match=r"no feature to correlate: none of gpus, .*; pass features="
    ):
        runtime_correlations(jobs.drop("gpus"))
    with pytest.raises(DataError, match="status failed cannot be a success and a failure"):
        runtime_correlations(jobs, success=("completed", "failed"))
    with pytest.raises(DataError, match=r"column runtime_s is missing; .*; pass runtime='took'"):
        runtime_correlations(jobs.rename({"runtime_s": "took"}))
    assert "gpus  runtime_s  pearson   row " in str(runtime_correlations(jobs))


def test_columns_and_statuses_of_any_name() -> None:
    jobs = ROWS.rename({"x": "mem", "y": "took"}).with_columns(
        state=pl.Series([0, 0, 0, 0, 0, 7], dtype=pl.Int64), site=pl.Series([1, 2] * 3)
    )
    table = runtime_correlations(
        jobs,
        features="mem",
        runtime="took",
        status="state",
        success="0",
        failure=("failed", "cancelled"),
        cluster="site",
        level="row",
        method="pearson",
    ).table
    line = table.row(0, named=True)
    assert (line["outcome"], line["x"], line["y"]) == ("success", "mem", "took")
    assert (line["n"], line["n_excluded"], line["n_clusters"]) == (5, 1, 2)
    kept = jobs.head(5)
    assert line["r"] == pytest.approx(scipy.stats.pearsonr(kept["mem"], kept["took"]).statistic)


def test_the_error_of_few_rows_is_the_jackknifes() -> None:
    draw = np.random.default_rng(3)
    x = np.exp(draw.normal(size=14))
    y = np.exp(draw.normal(size=14)) + x / 4
    z = np.array(
        [np.arctanh(np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1]) for i in range(14)]
    )
    error = np.sqrt(13 / 14 * ((z - z.mean()) ** 2).sum())
    assert error > 1 / np.sqrt(14 - 3)  # the larger of the two is used
    row = correlate(pl.DataFrame({"x": x, "y": y}), "x", "y").table.row(0, named=True)
    half = (np.arctanh(row["ci_high"]) - np.arctanh(row["ci_low"])) / 2
    assert half / scipy.stats.norm.ppf(0.975) == pytest.approx(error, rel=1e-9)


def test_alike_clusters_have_no_error() -> None:
    rows = {"x": [0.0, 1, 0, 2] * 40, "y": [0.0, 1, 1, 3] * 40, "u": [i // 4 for i in range(160)]}
    row = correlate(pl.DataFrame(rows), "x", "y", cluster="u").table.row(0, named=True)
    assert row["note"] == "the jackknife has no error: no interval and no test"
    assert row["pvalue"] is row["ci_low"] is row["ci_high"] is None


@pytest.mark.parametrize(
    ("clusters", "note"),
    [
        (9, "no interval and no test (equivalent to 9.0 units of equal size; 10 are needed)"),
        (10, "equivalent to fewer than 30 units of equal size: the interval may be too narrow"),
        (29, "equivalent to fewer than 30 units of equal size: the interval may be too narrow"),
        (30, None),
    ],
)
def test_notes_of_few_clusters(clusters: int, note: str | None) -> None:
    rng = np.random.default_rng(clusters)
    of = np.repeat(np.arange(clusters), 3)
    x, y = rng.normal(size=(2, 3 * clusters))
    rows = pl.DataFrame({"x": x, "y": x + y, "of": of})
    line = correlate(rows, "x", "y", cluster="of").table.row(0, named=True)
    assert line["note"] == note
    assert (line["ci_low"] is None) == (clusters < 10)
    assert line["n_clusters"] == clusters


@pytest.mark.parametrize(("clusters", "tested"), [(19, False), (20, True)])
def test_a_mean_of_group_means_needs_twenty_clusters_that_decide(
    clusters: int, tested: bool
) -> None:
    # groups of two rows of one cluster, at x that are -1 or 1 from their mean: of equal leverage
    side = np.where(np.arange(clusters) % 2, 1.0, -1.0)
    if clusters % 2:
        side[0] = 0
    x = np.repeat(side + np.arange(clusters) * 1e-9, 2)
    rows = pl.DataFrame(
        {
            "x": x,
            "y": np.random.default_rng(1).normal(size=2 * clusters),
            "of": np.repeat(np.arange(clusters), 2),
        }
    )
    line = correlate(rows, "x", "y", level="group_mean", cluster="of").table.row(0, named=True)
    assert (line["pvalue"] is not None) == tested
    if not tested:
        why = "no test (fewer than 20 units of equal size decide the group means)"
        assert line["note"].startswith(why)
        assert "means carry r" in line["note"]


def test_four_points_have_a_coefficient_and_three_have_none() -> None:
    rows = pl.DataFrame({"x": [1.0, 2, 3, 4], "y": [2.0, 1, 4, 3]})
    found = correlate(rows, "x", "y", level=("row", "group_mean")).table
    assert found["r"].to_list() == pytest.approx([0.6, 0.6])
    few = correlate(rows[:3], "x", "y", level=("row", "group_mean")).table
    assert few["r"].to_list() == [None, None]
    tied = pl.DataFrame({"x": [1.0, 2, 3, 3], "y": [2.0, 1, 4, 3]})
    found = correlate(tied, "x", "y", level="group_mean").table
    assert found["note"].to_list() == ["fewer than 4 distinct x"]


@pytest.mark.parametrize(("some", "heavy"), [(98, True), (102, False)])
def test_heavy_tails_have_a_note(some: int, heavy: bool) -> None:
    # of 1,300 values, so many are 1 or -1 and the others 0: the kurtosis is 1300 / so many - 3
    x = np.zeros(1300)
    x[: some // 2], x[some // 2 : some] = 1, -1
    assert (1300 / some - 3 > 10) == heavy
    noise = np.random.default_rng(2).normal(size=1300)
    line = correlate(pl.DataFrame({"x": x, "y": 0.2 * x + noise}), "x", "y").table
    assert ("heavy tails: the interval may be too narrow" in (line["note"].item() or "")) == heavy
