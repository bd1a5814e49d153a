"""Where machine code is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana
from traceana import simulate_schedule
from traceana.simulate.schedule import timesharing
from traceana.simulate.schedule.compiled import Compiled, _machine_code


def _twice(number: int) -> int:
    return 2 * number


@pytest.fixture(autouse=True)
def _compile_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceana.simulate.schedule.compiled._PAYS_S", 0.0)
    monkeypatch.setattr("traceana.simulate.schedule.compiled._machine_code", _machine_code)


def test_compiled_fair_fractions_are_those_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    jobs = pl.DataFrame(
        {
            "job_id": [str(job) for job in range(300)],
            "submit_s": np.sort(rng.uniform(0, 30_000, 300)).round(),
            "runtime_s": rng.uniform(60, 3600, 300).round(),
            "gpus": rng.integers(1, 9, 300).astype(float),
        }
    )
    monkeypatch.setattr(timesharing._fair_fractions, "_left_s", np.inf)
    plain = simulate_schedule(jobs, policy="themis", gpus=16).jobs
    compiled = Compiled(timesharing._fair_fractions._function)
    monkeypatch.setattr(timesharing, "_fair_fractions", compiled)
    assert simulate_schedule(jobs, policy="themis", gpus=16).jobs.equals(plain)
    assert compiled.takes_arrays


def test_machine_code_is_not_kept_beside_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Compiled(_twice)(21) == 42
    assert list(tmp_path.rglob("*.nbi"))
    assert not list(Path(__file__).parent.rglob("*twice*.nbi"))
    assert not list(Path(traceana.__file__).parent.rglob("*.nbi"))


def test_machine_code_is_made_anew_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "file"))
    assert Compiled(_twice)(21) == 42
    assert not list(Path(__file__).parent.rglob("*twice*.nbi"))
