"""Results are drawn by their own figure, and equal ones compare equal."""

import polars as pl
import pytest

import traceana
from traceana.tables.result import Result

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b"],
        "submit_s": [0, 0],
        "runtime_s": [100, 100],
        "gpus": [1, 1],
        "deadline_s": [150, 150],
    }
)
SAMPLES = pl.DataFrame(
    {
        "job_id": "a",
        "time_s": [0, 0, 30, 30],
        "worker_id": ["0", "1"] * 2,
        "batch_time": [1.0, 2.0] * 2,
    }
)
PAIRS = pl.DataFrame(
    {"user": ["a", "b"] * 10, "x": range(20), "y": [i * i % 17 for i in range(20)]}
)


def results() -> list[Result]:
    return [
        traceana.simulate_schedule(JOBS, policy="fifo", gpus=1),
        traceana.simulate_batching([(0, 100), (0, 300)], controller="proportional"),
        traceana.replay_batching(SAMPLES, controllers=["uniform", "oracle"]),
        traceana.correlate(PAIRS, x="x", y="y"),
        traceana.correlate(PAIRS, x="x", y="y", by="user", method=["pearson", "spearman"]),
    ]


@pytest.mark.parametrize("which", range(5))
def test_a_result_is_drawn_and_equals_itself_computed_again(which: int) -> None:
    first, again = results()[which], results()[which]
    assert first == again
    assert first != results()[which - 1]
    assert first.plot().has_data()


def test_correlations_are_named_by_group_and_drawn_by_method() -> None:
    axes = results()[4].plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a, x", "b, x"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["pearson", "spearman"]
