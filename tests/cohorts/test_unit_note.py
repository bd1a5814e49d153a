"""Rows of one user that are treated as independent have a note."""

from __future__ import annotations

import polars as pl
import pytest

import traceana
from traceana.cohorts.cohort import UNIT_NOTE

JOBS = pl.DataFrame(
    {
        "user": ["ann", "bob", "eva", "jo", "kim", "lee"] * 10,
        "gpu": ["T4", "V100", "T4"] * 20,
        "runtime_s": [float(row + 1) for row in range(60)],
        "status": ["completed", "failed", "completed", "completed"] * 15,
    }
)


@pytest.mark.parametrize("name", ["failure_rates", "outcome_rates", "runtime_by"])
def test_a_frame_with_users_and_no_cluster_is_noted(name: str) -> None:
    function = getattr(traceana, name)
    assert UNIT_NOTE in function(JOBS, "gpu")["note"].to_list()
    assert UNIT_NOTE in function(JOBS.to_pandas(), "gpu")["note"].to_list()
    for quiet in (
        function(JOBS, "gpu", cluster="user"),
        function(JOBS, "user"),
        function(JOBS.drop("user"), "gpu"),
    ):
        assert "note" not in quiet.columns or UNIT_NOTE not in quiet["note"].to_list()


def test_results_have_the_note_in_their_frames() -> None:
    assert traceana.kaplan_meier(JOBS).groups["note"].item() == UNIT_NOTE
    assert UNIT_NOTE in traceana.compare_runtimes(JOBS, "gpu").test["note"].to_list()
    assert UNIT_NOTE not in traceana.kaplan_meier(JOBS, cluster="user").groups["note"].to_list()


def test_a_trace_that_names_no_user_is_not_asked_for_its_users() -> None:
    nobody = JOBS.with_columns(user=pl.lit(None, pl.String))
    assert UNIT_NOTE not in traceana.kaplan_meier(nobody).groups["note"].to_list()
