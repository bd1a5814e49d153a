"""Curves of ends against published tables, statsmodels' own, and what must always hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from statsmodels.duration.survfunc import CumIncidenceRight

from traceana import cumulative_incidence, kaplan_meier
from traceana.errors import DataError
from traceana.stats.survival import incidence

STATUS = ["completed", "failed", "cancelled", "running", None]


def frame_of(times: list[float], events: list[int]) -> pl.DataFrame:
    status = ["failed" if event else "running" for event in events]
    return pl.DataFrame({"runtime_s": [float(time) for time in times], "status": status})


@pytest.mark.parametrize("arm", ["maintained", "nonmaintained"])
def test_the_leukaemia_table_of_r(published: dict[str, Any], arm: str) -> None:
    known = published["aml"][arm]
    found = kaplan_meier(frame_of(known["time"], known["event"]))
    curves = found.curves
    assert curves["time_s"].to_list() == known["steps"]
    assert curves["n_at_risk"].to_list() == known["at_risk"]
    digits = 3 if arm == "maintained" else 4
    assert curves["survival"].round(digits).to_list() == known["survival"]
    # the interval of log(-log) gives back the standard error
    s = curves["survival"].to_numpy()[: len(known["std_error"])]
    low, high = (curves[name].to_numpy()[: len(s)] for name in ("ci_low", "ci_high"))
    for bound, sign in ((low, 1), (high, -1)):
        half = sign * (np.log(-np.log(bound)) - np.log(-np.log(s))) / ndtri(0.975)
        np.testing.assert_allclose(half * s * -np.log(s), known["std_error"], atol=6e-5)
    row = found.groups.row(0, named=True)
    assert row["median_s"] == known["median"]
    assert row["n_events"] == sum(known["event"])
    assert row["n_censored"] == len(known["event"]) - sum(known["event"])


def test_competing_ends_are_statsmodels_own() -> None:
    rng = np.random.default_rng(3)
    times, code = rng.integers(1, 40, 300).astype(float), rng.integers(0, 3, 300)
    status = np.array(["running", "completed", "failed"])[code]
    curves = cumulative_incidence(pl.DataFrame({"runtime_s": times, "status": status})).curves
    with np.errstate(divide="ignore", invalid="ignore"):
        other = CumIncidenceRight(times, code)
    for number, event in enumerate(("completed", "failed")):
        mine = curves.filter(event=event)
        at = np.searchsorted(other.times, mine["time_s"].to_numpy())
        p = mine["incidence"].to_numpy()
        np.testing.assert_allclose(p, other.cinc[number][at], rtol=1e-12)
        half = np.log(np.log(mine["ci_low"].to_numpy()) / np.log(p)) / ndtri(0.975)
        # where the last one ends, statsmodels divides by 0
        known = np.isfinite(other.cinc_se[number][at])
        assert known.sum() >= len(known) - 1
        np.testing.assert_allclose(
            (half * -p * np.log(p))[known], other.cinc_se[number][at][known], rtol=1e-9
        )


def test_without_censoring_it_is_the_share_and_its_binomial_error() -> None:
    status = ["failed"] * 30 + ["completed"] * 70
    rows = pl.DataFrame({"runtime_s": np.arange(100.0), "status": status})
    last = cumulative_incidence(rows).groups.filter(event="failed").row(0, named=True)
    half = 1.959963984540054 * np.sqrt(0.3 * 0.7 / 100) / (0.3 * np.log(0.3))
    assert last["incidence"] == pytest.approx(0.3)
    assert (last["ci_high"], last["ci_low"]) == pytest.approx(
        (0.3 ** np.exp(half), 0.3 ** np.exp(-half))
    )


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(STATUS), st.sampled_from(["a", None])),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=40, deadline=None)
def test_what_has_ended_and_what_has_not_make_one(rows: list[tuple[int, Any, Any]]) -> None:
    schema = {"runtime_s": pl.Float64, "status": pl.String, "g": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    curves, whole = cumulative_incidence(frame, by="g"), kaplan_meier(frame, by="g")
    assert curves.groups["n"].sum() == 3 * frame.height
    for row in curves.curves.iter_rows(named=True):
        assert 0 <= row["incidence"] <= 1 + 1e-12
        if row["ci_low"] is not None:
            assert 0 <= row["ci_low"] <= row["incidence"] <= row["ci_high"] <= 1
    for group in frame["g"].unique():
        own = curves.curves.filter(pl.col("g").eq_missing(pl.lit(group)))
        steps = own.select(pl.col("incidence").diff().over("event")).to_series()
        assert (steps.drop_nulls() >= 0).all()
        last = curves.groups.filter(pl.col("g").eq_missing(pl.lit(group)))["incidence"].sum()
        survival = whole.curves.filter(pl.col("g").eq_missing(pl.lit(group)))["survival"]
        assert last == pytest.approx(1 - (survival[-1] if len(survival) else 1), abs=1e-12)


@given(
    ends=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    cut=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_one_way_to_end_has_greenwoods_variance(ends: list[int], cut: list[int]) -> None:
    keep = [i for i in range(len(ends)) if ends[i] + cut[i]]
    if not keep:
        return
    found = incidence([[ends[i]] for i in keep], [cut[i] for i in keep])
    np.testing.assert_allclose(found.incidence[:, 0], 1 - found.surviving, atol=1e-12)
    alive = found.surviving > 1e-12
    np.testing.assert_allclose(
        found.incidence_variance[alive, 0], found.surviving_variance[alive], atol=1e-12
    )


def test_what_is_not_known_is_null_with_its_reason() -> None:
    frame = frame_of([5, 9, 9], [1, 0, 0])
    row = kaplan_meier(frame).groups.row(0, named=True)
    assert row["median_s"] is None
    assert row["note"] == "more than half of the rows outlast the observed time"
    completed = cumulative_incidence(frame).groups.filter(event="completed").row(0, named=True)
    assert completed["incidence"] is None
    assert completed["note"] == "no row with a runtime is completed"
    nothing = pl.DataFrame({"runtime_s": [None], "status": ["failed"]})
    assert kaplan_meier(nothing).groups["n_excluded"].item() == 1
    assert cumulative_incidence(nothing).curves.is_empty()
    assert "more than half of the rows" in str(kaplan_meier(frame))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"events": ("ended",)}, "events names status 'ended'; statuses are completed"),
        ({"events": ()}, "found is none"),
        ({"confidence": 95}, "confidence must lie between 0 and 1"),
        ({"by": "event"}, "by cannot name event"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    frame = frame_of([1, 2], [1, 0]).with_columns(event=pl.lit(1))
    with pytest.raises(DataError, match=text):
        cumulative_incidence(frame, **options)


def test_durations_and_other_names_give_the_same() -> None:
    seconds = pl.DataFrame(
        {"status": ["failed", "running", "running"], "runtime_s": [40.0, None, 30.0]}
    )
    durations = seconds.select(state="status", elapsed=pl.duration(seconds="runtime_s"))
    expected = cumulative_incidence(seconds, events="failed")
    found = cumulative_incidence(durations, events="failed", status="state", runtime="elapsed")
    assert found.groups.equals(expected.groups)
    assert found.curves.equals(expected.curves)
    with pytest.raises(DataError, match=r"column runtime_s is missing; .* pass runtime='"):
        cumulative_incidence(durations.rename({"state": "status"}))


def test_the_incidence_at_a_runtime_is_that_of_the_step_before() -> None:
    frame = frame_of([3, 20, 200, 4000], [1, 1, 0, 1])
    found = cumulative_incidence(frame, events="failed")
    # by hand: 1/4 by 3 s, and 1/4 more by 20 s
    assert found.incidence_at(10)["incidence"].to_list() == [0.25]
    assert found.incidence_at(2)["incidence"].to_list() == [0]
    assert found.incidence_at(100)["incidence"].item() == pytest.approx(0.5)


def test_missing_runtimes_that_depend_on_the_outcome_are_noted() -> None:
    rows = {"failed": (38, 446), "completed": (1721, 79)}  # with and without a runtime
    frame = pl.DataFrame(
        [
            {"status": status, "runtime_s": float(row + 1) if row < known else None}
            for status, (known, unknown) in rows.items()
            for row in range(known + unknown)
        ]
    )
    notes = dict(cumulative_incidence(frame).groups.select("event", "note").rows())
    assert notes["failed"] == (
        "biased: 446 of 484 rows of status failed have no runtime, 79 of 1800 of the other events"
    )
    assert notes["completed"] is None
    survival = kaplan_meier(frame)
    assert survival.groups["note"].item() == notes["failed"]
    assert "biased: 446" in str(survival)


def test_survival_is_drawn_from_one_to_its_last_value() -> None:
    frame = pl.DataFrame({"runtime_s": [60.0, 120.0, 240.0, 480.0], "status": "completed"})
    (line,) = [one for one in kaplan_meier(frame).plot().lines if one.get_gid() == "line-all"]
    assert list(line.get_ydata()) == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]  # type: ignore[arg-type]


def test_rows_without_a_runtime_bias_no_curve_of_any_end() -> None:
    # with one event there is no other whose runtimes are missing less often
    jobs = pl.DataFrame({"runtime_s": [1.0, 2, 3] * 9 + [None] * 9, "status": ["completed"] * 36})
    groups = kaplan_meier(jobs, status=None).groups
    assert groups.select("n", "n_excluded", "note").row(0) == (27, 9, None)


def test_an_event_without_a_row_is_not_biased() -> None:
    statuses = ["cancelled"] + ["completed"] * 6 + ["cancelled", "failed", "completed"]
    jobs = pl.DataFrame(
        {
            "runtime_s": [None, *map(float, range(10, 80, 10)), 10.0, 20.0],
            "status": statuses,
            "group": ["a"] * 8 + ["b"] * 2,
        }
    )
    found = kaplan_meier(jobs, by="group", events=("completed", "failed", "cancelled"))
    assert not found.groups["note"].str.starts_with("biased").any()
