"""What plot_cov and plot_cov_ecdf draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana.errors import DataError
from traceana.figures import plot_cov, plot_cov_ecdf
from traceana.questions.stragglers.figures_variation import describe_cov

COV = pl.DataFrame(
    {
        "job_id": ["job_2", "job_2", "job_2", "job_10", "job_10"],
        "time_s": [21.0, 1.0, 11.0, 1.0, 11.0],
        "cov": [0.3, 0.1, None, 0.5, 0.4],
    }
)


def test_one_line_a_job_in_order_of_time_broken_where_there_is_no_cov() -> None:
    first, second = plot_cov(COV, ddof=0).lines
    assert (first.get_gid(), second.get_gid()) == ("cov-job_2", "cov-job_10")
    assert np.asarray(first.get_xdata()).tolist() == [1, 11, 21]
    np.testing.assert_array_equal(first.get_ydata(), [0.1, np.nan, 0.3])
    np.testing.assert_array_equal(second.get_ydata(), [0.5, 0.4])


@pytest.mark.parametrize(
    ("ddof", "label"), [(0, "CoV (ddof 0)"), (1, "CoV (ddof 1)"), (None, "CoV (as published)")]
)
def test_the_label_says_which_deviation_it_is(ddof: int | None, label: str) -> None:
    assert plot_cov(COV, ddof=ddof).get_ylabel() == label
    assert plot_cov_ecdf(COV, ddof=ddof).get_xlabel() == label


def test_several_jobs_are_named_and_one_is_the_title() -> None:
    several = plot_cov(COV, ddof=0)
    assert {"job_2", "job_10"} <= {text.get_text() for text in several.texts}
    one = plot_cov(COV.filter(job_id="job_10"), ddof=0)
    assert one.get_title(loc="left") == "CoV across workers, job_10"
    assert not one.texts


def test_a_job_without_any_cov_has_no_name_to_place() -> None:
    frame = COV.with_columns(cov=pl.when(pl.col("job_id") == "job_10").then("cov"))
    assert "job_2" not in {text.get_text() for text in plot_cov(frame, ddof=0).texts}


def test_the_distribution_is_that_of_the_known_values() -> None:
    first, second = plot_cov_ecdf(COV, ddof=0).lines
    # k of n known values are at most the k-th: 1/2 and 1 for two values
    for line, values in ((first, [0.1, 0.3]), (second, [0.4, 0.5])):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert sorted(set(x.tolist())) == values
        assert sorted(set(y.tolist())) == [0, 0.5, 1]


def test_many_jobs_are_grey_beneath_the_distribution_of_all() -> None:
    frame = pl.DataFrame(
        {
            "job_id": [f"job_{job}" for job in range(8) for _ in range(3)],
            "cov": [job + tick / 10 for job in range(8) for tick in range(3)],
        }
    )
    ax = plot_cov_ecdf(frame, ddof=None)
    assert len(ax.lines) == 9
    assert len({line.get_color() for line in ax.lines[:8]}) == 1
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["one job", "all time steps"]
    assert np.unique(np.asarray(ax.lines[8].get_xdata())).size == 24


def test_nothing_known_is_refused() -> None:
    with pytest.raises(DataError, match="every value is null"):
        plot_cov_ecdf(COV.with_columns(cov=pl.lit(None, pl.Float64)), ddof=0)


def test_descriptions_count_what_is_drawn_and_what_is_not() -> None:
    assert describe_cov(COV) == "4 CoVs from 0.100 to 0.500; 1 without one."
    assert describe_cov(COV.filter(job_id="job_10")) == "2 CoVs from 0.400 to 0.500."
    empty = COV.with_columns(cov=pl.lit(None, pl.Float64))
    assert describe_cov(empty) == "5 time steps, none with a CoV."
