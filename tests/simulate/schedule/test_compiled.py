"""Where machine code is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import traceana
from traceana.simulate.schedule.compiled import Compiled, _machine_code


def _twice(number: int) -> int:
    return 2 * number


@pytest.fixture(autouse=True)
def _compile_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceana.simulate.schedule.compiled._PAYS_S", 0.0)
    monkeypatch.setattr("traceana.simulate.schedule.compiled._machine_code", _machine_code)


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
