"""What plot_straggler_attributes draws."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import straggler_attributes
from traceana.errors import DataError
from traceana.figures import plot_straggler_attributes

SAMPLES = pl.DataFrame(
    {
        "job_id": ["a"] * 24,
        "step": [step for step in range(4) for _ in range(6)],
        "worker_id": list("012345") * 4,
        "stage": [0, 0, 1, 1, 2, 2] * 4,
        "batch_time": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0] * 4,
    }
)


def test_a_dot_per_group_and_the_name_of_the_slowest() -> None:
    result = straggler_attributes(SAMPLES, attributes="stage", time="step")
    ax = result.plot()
    dots = {dots.get_gid(): dots for dots in ax.collections}
    offsets = {gid: np.asarray(each.get_offsets())[:, 0].tolist() for gid, each in dots.items()}
    assert offsets["attribute-1"] == [0.0, 0.0, 0.5]
    assert offsets["attribute-0"] == [0.0] * 6
    assert [text.get_text() for text in ax.texts][1] == "stage 2 (2 workers)"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["worker", "stage"]
    # filled where the attribute explains the slowness
    filled = {gid: np.asarray(each.get_facecolor()).size > 0 for gid, each in dots.items()}
    assert filled == {"attribute-0": False, "attribute-1": True}


def test_several_jobs_need_one() -> None:
    both = pl.concat([SAMPLES, SAMPLES.with_columns(job_id=pl.lit("b"))])
    result = straggler_attributes(both, attributes="stage", time="step")
    assert plot_straggler_attributes(result, job="b").get_xlabel() == "Job time gained"
    with pytest.raises(DataError, match="found 2 jobs; pass job="):
        plot_straggler_attributes(result)
