"""Groups of jobs of any trace, mapped to the workloads of another, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.simulate.recurring.tiny import POWER, RUNS
from traceana.ingesters import add_table
from traceana.questions.recurring.analyze import (
    first_groups,
    group_simulation,
    grouped_jobs,
    ratio_fits,
    ratio_stages,
    workloads_of,
)
from traceana.store import Store, open_store

if TYPE_CHECKING:
    from pathlib import Path

JOBS = pl.DataFrame(
    {
        "job_id": list("abcdef"),
        "inst_id": list("uvwxyz"),
        "submit_s": [0.0, 5.0, 30.0, 40.0, 50.0, None],
        "end_s": [10.0, 20.0, 40.0, 45.0, 90.0, 9.0],
    }
)
TAGS = pl.DataFrame({"inst_id": list("uvwxyz"), "group": [*"ggghk", None]})


@pytest.fixture
def session(tmp_path: Path) -> Store:
    add_table(JOBS, trace="mine", table="jobs", store=tmp_path)
    add_table(TAGS, trace="mine", table="job_tags", store=tmp_path)
    return open_store(tmp_path)


def with_workloads(session: Store) -> Store:
    store = session.path
    add_table(RUNS, trace="work", table="training_runs", store=store)
    add_table(POWER, trace="work", table="power_profiles", store=store)
    return open_store(store)


def test_groups_of_tags_are_simulated_with_the_workloads_of_another_trace(session: Store) -> None:
    assert workloads_of(session.trace("mine")) == (None, "")
    jobs = grouped_jobs(session.trace("mine"))
    assert jobs["group"].to_list() == ["g", "g", "g", "h", "k"]
    session = with_workloads(session)
    work = session.trace("work")
    assert workloads_of(session.trace("mine")) == (work, "g")
    result = group_simulation(session.trace("mine"), work, "g")
    assert not isinstance(result, str)
    # only group g recurs: of its three jobs the second starts before the first has ended
    (row,) = result.by_dataset().to_dicts()
    assert (row["groups"], row["recurrences"], row["runs"]) == (1, 3, 3)
    assert row["concurrent"] == pytest.approx(1 / 3)
    (group,) = result.groups.to_dicts()
    assert row["energy_saved"] == pytest.approx(group["energy_saved"])


def test_ratios_before_and_after_mapping(session: Store) -> None:
    before = ratio_stages(session.trace("mine"), None, "")
    assert set(before["stage"]) == {"before mapping"}
    ratios = [10 / (35 / 3), 15 / (35 / 3), 10 / (35 / 3)]  # 10, 15 and 10 s; h and k are alone
    assert sorted(before["runtime_ratio"]) == pytest.approx(sorted(ratios))
    session = with_workloads(session)
    work = session.trace("work")
    both = ratio_stages(session.trace("mine"), work, "g")
    # one data set: all jobs of recurring groups together, here those of g alone
    assert both.group_by("stage").len()["len"].to_list() == [3, 3]
    assert set(ratio_fits(session.trace("mine"), work, "g")) == {
        "before mapping",
        "after mapping",
    }


def test_the_groups_that_start_first_are_kept_whole() -> None:
    jobs = pl.DataFrame({"group": list("bbbaac"), "start_s": [0.0, 9, 9, 1, 2, 3]})
    assert set(first_groups(jobs, 5)["group"]) == {"a", "b"}
    assert set(first_groups(jobs, 2)["group"]) == {"b"}
    assert first_groups(jobs, 6).height == 6
