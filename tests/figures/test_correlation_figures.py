"""What plot_runtime_against and plot_group_means draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.figures.drawn import collection, legend, points
from traceana.analysis import correlate, joint_counts, mean_by_value
from traceana.errors import DataError
from traceana.figures import draw_figure, plot_group_means, plot_runtime_against, render_svg
from traceana.figures.means import describe_group_means, describe_runtime_against

LEVELS = ("row", "group_mean", "group_mean_weighted")
MEANS = pl.DataFrame(
    {"value": [0.0, 25, 50, 100, 800], "n": [2, 1, 8, 4, 1], "mean": [50.0, 400, 100, 300, 9000]}
)


def rows(n: int = 400, *, seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    gpus = rng.choice([0.0, 25, 50, 100, 200, 800], n, p=[0.1, 0.3, 0.3, 0.2, 0.05, 0.05])
    return pl.DataFrame({"gpus": gpus, "runtime_s": rng.lognormal(6, 2, n)})


def group_means(frame: pl.DataFrame, **options: object) -> dict[str, object]:
    return {
        "counts": joint_counts(frame, "gpus", "runtime_s"),
        "correlations": correlate(frame, "gpus", "runtime_s", level=LEVELS).table,
        "x_label": "GPUs (%)",
        **options,
    }


def test_a_point_is_a_value_at_its_mean_all_alike() -> None:
    ax = plot_runtime_against(MEANS, x_label="GPUs (%)")
    np.testing.assert_array_equal(points(ax, "means"), MEANS.select("value", "mean").to_numpy())
    assert len(set(collection(ax, "means").get_sizes())) == 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("GPUs (%)", "Mean runtime (s)")
    assert ax.get_ylim()[0] == 0
    assert ax.get_title(loc="left") == ""


def test_a_logarithmic_view_has_its_title_and_a_place_for_0() -> None:
    ax = plot_runtime_against(MEANS, x_label="GPUs (%)", log_x=True, heading="below 350 s")
    assert ax.get_title(loc="left") == "below 350 s"
    assert ax.get_xlabel() == "GPUs (%), logarithmic"
    # a 0 has its place on the logarithmic axis
    assert ax.get_xscale() == "symlog"
    ticks = ax.get_xticks()
    assert ticks[0] == 0
    assert all(tick >= 25 for tick in ticks[1:])
    assert plot_runtime_against(MEANS[1:], x_label="", log_x=True).get_xscale() == "log"


def test_discs_have_areas_in_proportion_to_their_rows() -> None:
    frame = rows()
    means = mean_by_value(frame, "gpus", "runtime_s")
    ax = plot_group_means(means, **group_means(frame))  # type: ignore[arg-type]
    sizes = collection(ax, "discs").get_sizes()
    np.testing.assert_allclose(sizes / sizes.max(), means["n"] / max(means["n"]))
    for gid in ("discs", "means"):
        np.testing.assert_allclose(points(ax, gid), means.select("value", "mean").to_numpy())
    assert (ax.get_xscale(), ax.get_yscale()) == ("symlog", "log")


def test_the_density_has_a_box_for_every_bin_with_rows() -> None:
    frame = rows()
    options = group_means(frame)
    ax = plot_group_means(mean_by_value(frame, "gpus", "runtime_s"), **options)  # type: ignore[arg-type]
    density = collection(ax, "rows")
    counts = options["counts"]
    assert isinstance(counts, pl.DataFrame)
    assert density.get_array().sum() == frame.height
    assert density.get_rasterized()
    assert len(density.get_paths()) == counts.height
    first = density.get_paths()[0].vertices
    # the bin of 0 is a strip around it
    assert first[:, 0].min() == -first[:, 0].max() < 0


def test_every_level_is_told_with_its_interval_and_n() -> None:
    frame = rows()
    options = group_means(frame)
    ax = plot_group_means(mean_by_value(frame, "gpus", "runtime_s"), **options)  # type: ignore[arg-type]
    table = options["correlations"]
    assert isinstance(table, pl.DataFrame)
    row, mean, weighted = table.rows(named=True)
    effective = f"{weighted['n_effective']:.1f} effective"
    assert legend(ax) == [
        f"rows: r = {row['r']:.2f}, no interval, 400 rows",
        f"means: r = {mean['r']:.2f}, p = {mean['pvalue']:.2g}, 6 points",
        f"weighted: r = {weighted['r']:.2f}, p = {weighted['pvalue']:.2g}, {effective}",
    ]


def test_a_correlation_that_is_not_known_is_told_as_such() -> None:
    frame = rows().filter(pl.col("gpus").is_in([25.0, 50, 100]))
    ax = plot_group_means(mean_by_value(frame, "gpus", "runtime_s"), **group_means(frame))  # type: ignore[arg-type]
    assert legend(ax)[1:] == ["means: no r", "weighted: no r"]


def test_a_million_rows_stay_small() -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    frame = pl.DataFrame({"gpus": rng.integers(1, 1500, n), "runtime_s": rng.lognormal(6, 2, n)})
    counts = joint_counts(frame, "gpus", "runtime_s", bins=60)
    means = mean_by_value(frame, "gpus", "runtime_s")
    table = correlate(frame, "gpus", "runtime_s", level=LEVELS).table
    drawn = draw_figure("group-means", means, counts=counts, correlations=table, x_label="GPUs")
    assert len(render_svg(drawn, prefix="a")) < 500_000
    drawn = draw_figure("runtime-against", means, x_label="GPUs")
    assert len(render_svg(drawn, prefix="a")) < 500_000


def test_what_cannot_be_drawn_is_refused() -> None:
    twice = pl.concat([MEANS, MEANS])
    for wrong in (MEANS.clear(), twice):
        with pytest.raises(DataError, match="the means of one group, each value once"):
            plot_runtime_against(wrong, x_label="")
        with pytest.raises(DataError, match="the means of one group, each value once"):
            plot_group_means(wrong, **group_means(rows()))  # type: ignore[arg-type]
    options = group_means(rows())
    table = options["correlations"]
    assert isinstance(table, pl.DataFrame)
    with pytest.raises(DataError, match="one correlation per level"):
        plot_group_means(MEANS, **options | {"correlations": pl.concat([table, table])})  # type: ignore[arg-type]


def test_descriptions_count() -> None:
    assert describe_runtime_against(MEANS) == (
        "5 distinct values, n = 16 rows; 2 points have one row, and the largest has 8."
    )
    assert describe_group_means(MEANS) == (
        "n = 16 rows with 5 distinct values; 50.0 % of the rows have the value 50."
    )
