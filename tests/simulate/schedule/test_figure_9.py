"""ElasticFlow's figures 9 to 11 on traces drawn by the rules of the published generator."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import simulate_schedule
from traceana.claims.elasticflow_figures import draw_jobs, figure_9, figure_10
from traceana.simulate.deadlines.simulate import published_rates
from traceana.simulate.schedule.compiled import Compiled, _machine_code
from traceana.simulate.schedule.elastic_plan import plan_jobs


@pytest.fixture(autouse=True)
def _compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceana.simulate.schedule.compiled._machine_code", _machine_code)
    monkeypatch.setattr(plan_jobs, "_left_s", 0.0)


def test_compiled_plans_are_those_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, rates = draw_jobs(150, 300, rng=1, best_effort=0.2), published_rates()

    def run() -> pl.DataFrame:
        return simulate_schedule(jobs, policy="elasticflow", gpus=32, profiles=rates).jobs

    compiled = run()
    assert plan_jobs.takes_arrays
    plain = Compiled(plan_jobs._function)
    monkeypatch.setattr(plain, "_left_s", np.inf)
    monkeypatch.setattr("traceana.simulate.schedule.elastic.plan_jobs", plain)
    assert run().equals(compiled)
    assert not plain.takes_arrays


@pytest.mark.parametrize(
    ("policy", "gpus", "printed", "draws"),
    [
        ("edf", 64, 0.026, 4),
        ("edf", 128, 0.118, 4),
        ("edf_admission", 64, 0.203, 4),
        ("edf_admission", 128, 0.326, 4),
        ("edf_elastic", 128, 0.835, 2),
    ],
)
def test_printed_fractions_are_among_those_of_drawn_traces(
    policy: str, gpus: int, printed: float, draws: int
) -> None:
    met = [fraction for *_, fraction in figure_9((policy,), (gpus,), draws)]
    assert min(met) - 0.02 <= printed <= max(met) + 0.02


def test_jobs_are_drawn_by_the_published_rules() -> None:
    jobs = draw_jobs(20_000, 900, rng=1, best_effort=0.3)
    assert np.diff(jobs["submit_s"].to_numpy()).mean() == pytest.approx(900, rel=0.03)
    assert jobs["deadline_s"].null_count() / jobs.height == pytest.approx(0.3, abs=0.02)
    assert (jobs["gpus"] == 1).mean() == pytest.approx(0.83, abs=0.02)
    # 80 % from 10 min to 316 min, the rest to 10,000 min, both log-uniform
    assert (jobs["runtime_s"] < 60 * 10**2.5).mean() == pytest.approx(0.8, abs=0.02)
    assert jobs["runtime_s"].median() == pytest.approx(60 * 10 ** (1 + 1.5 * 5 / 8), rel=0.1)
    tightness = (jobs["deadline_s"] - jobs["submit_s"]) / jobs["runtime_s"]
    assert tightness.mean() == pytest.approx(1, abs=0.02)


def test_efficiency_is_that_of_the_running_jobs() -> None:
    lines = figure_10()
    assert lines["Cluster efficiency"].is_between(0, 1).all()
    most = dict(lines.group_by("policy").max().select("policy", "Cluster efficiency").iter_rows())
    assert most["elasticflow"] > most["edf"] > 0
