"""What plot_distribution_fit and plot_concentration draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.drawing.drawn import collection, legend, line
from traceana import (
    empirical_distribution,
    fit_distributions,
    interarrival_curve,
    lorenz_curve,
)
from traceana.errors import DataError
from traceana.figures import (
    plot_concentration,
    plot_distribution_fit,
    plot_empirical_distribution,
    plot_interarrivals,
)
from traceana.questions.runtimes.figures import (
    describe_empirical_distribution,
)
from traceana.questions.runtimes.tables import DistributionFits


@pytest.fixture(scope="module")
def fits() -> DistributionFits:
    values = np.random.default_rng(5).weibull(0.7, 500) * 1000
    return fit_distributions(values, families=("weibull", "lognormal"), resamples=0)


@pytest.mark.parametrize("panel", ["shares", "tail"])
def test_shares_are_drawn_against_values_and_families(fits: DistributionFits, panel: str) -> None:
    quantiles = fits.quantiles
    assert quantiles is not None
    ax = fits.plot(panel=panel)
    share = quantiles["fraction_below"] if panel == "shares" else 1 - quantiles["fraction_below"]
    for gid, column in (("values", "value"), ("family-weibull", "weibull")):
        expected = np.column_stack([quantiles[column], share])
        np.testing.assert_allclose(line(ax, gid), expected)
    band = collection(ax, "band").get_paths()[0].vertices
    known = quantiles.drop_nulls()
    assert set(known["ci_low"]) | set(known["ci_high"]) <= set(band[:, 0])
    # an end that is not known lies beyond the figure
    assert band[:, 0].max() > ax.get_xlim()[1]
    assert legend(ax) == ["values", *fits.table["family"]]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log" if panel == "tail" else "linear")


def test_quantiles_are_drawn_against_each_familys(fits: DistributionFits) -> None:
    ax = plot_distribution_fit(fits, panel="quantiles")
    quantiles = fits.quantiles
    assert quantiles is not None
    expected = quantiles.select("lognormal", "value").to_numpy()
    np.testing.assert_allclose(line(ax, "family-lognormal"), expected)
    assert {part.get_gid() for part in ax.collections} == {"band-weibull", "band-lognormal"}
    assert ax.get_xlabel() == "Quantile of the family (logarithmic)"


def test_a_panel_or_family_that_is_not_there_is_refused(fits: DistributionFits) -> None:
    with pytest.raises(DataError, match="panel must be one of shares, tail, quantiles; it is 'q'"):
        plot_distribution_fit(fits, panel="q")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="these are weibull, lognormal"):
        plot_distribution_fit(fits, families=("gamma",))
    for wrong in (fit_distributions([1.0]), fit_distributions([])):
        with pytest.raises(DataError, match="needs values and families"):
            wrong.plot()


def test_the_largest_jobs_are_marked_with_what_they_hold() -> None:
    # 90 jobs of 1 GPU-hour, 9 of 10 and one of 820: 1000 in all
    hours = [1.0] * 90 + [10.0] * 9 + [820.0]
    jobs = pl.DataFrame(
        {"gpus": hours, "runtime_s": [3600] * 100, "cluster": ["a"] * 50 + ["b"] * 50}
    )
    curve = lorenz_curve(jobs)
    ax = plot_concentration(curve)
    top, used = line(ax, "all").T
    np.testing.assert_allclose(used, 1 - np.interp(1 - top, *curve.to_numpy().T))
    assert (ax.get_xscale(), top[-1], used[-1]) == ("log", 1, 1)
    assert legend(ax) == ["all GPU jobs (top 1 %: 82.0 %)"]
    np.testing.assert_allclose(np.asarray(ax.collections[0].get_offsets()), [[0.01, 0.82]])
    with pytest.raises(DataError, match="each fraction_of_jobs once"):
        plot_concentration(pl.concat([curve, curve]))


def test_each_group_has_a_lorenz_curve() -> None:
    jobs = pl.DataFrame(
        {
            "gpus": [1.0] * 100 + [1.0, 3.0],
            "runtime_s": [3600] * 102,
            "cluster": ["a"] * 100 + ["b"] * 2,
        }
    )
    curves = lorenz_curve(jobs, by="cluster")
    ax = plot_concentration(curves)
    np.testing.assert_allclose(*line(ax, "curve-a").T)
    # of two jobs the largest 1 % is 2 % of the larger one: 0.02 * 3 of 4 GPU-hours
    assert legend(ax) == ["a (top 1 %: 1.0 %)", "b (top 1 %: 1.5 %)"]


def test_the_only_line_of_a_named_trace_has_no_legend_with_its_name() -> None:
    jobs = pl.DataFrame({"gpus": [1.0] * 9 + [9.0], "runtime_s": [3600] * 10, "trace": "mine"})
    ax = plot_concentration(lorenz_curve(jobs, by="trace"))
    assert [text.partition(" (")[0] for text in legend(ax)] == ["all GPU jobs"]
    times = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400], "trace": "mine"})
    assert legend(plot_interarrivals(interarrival_curve(times, by="trace"))) == []


def test_ticks_of_bytes_have_units() -> None:
    sent = empirical_distribution(pl.DataFrame({"sent": [2e3, 3e6, 4e10]}), "sent")
    axis = plot_empirical_distribution(sent, sizes=True).xaxis
    assert axis.get_major_formatter().format_ticks([1e3, 1e5, 1e7, 1e10]) == [
        "1 kB",
        "100 kB",
        "10 MB",
        "10 GB",
    ]


def test_groups_of_one_size_state_it_once() -> None:
    rows = pl.DataFrame({"kind": ["a", "a", "b", "b"], "value": [1.0, 2.0, 3.0, 4.0]})
    told = describe_empirical_distribution(empirical_distribution(rows, "value", by="kind"))
    assert told == "n = 2 values each."
