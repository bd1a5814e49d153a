"""A short run of the fuzz target, and the faults that it found before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import fuzz


@pytest.mark.parametrize("fault", fuzz.PAST)
def test_a_fault_of_the_past_stays_mended(fault: str) -> None:
    fuzz.check(*fuzz.PAST[fault])


@pytest.mark.parametrize("seed", fuzz.PAST_SEEDS)
def test_a_mutant_of_the_past_stays_mended(seed: int) -> None:
    fuzz.check_mutant(seed)


def test_mutated_files_are_accounted_for_and_read_alike_fast_and_carefully() -> None:
    assert fuzz.run(5, seed=1, kill_every=10**9)


@pytest.mark.parametrize("seed", range(12))
def test_a_changed_store_is_read_as_it_was_or_refused(seed: int) -> None:
    fuzz.check_store(seed)


def test_frames_with_any_columns_are_accounted_for() -> None:
    fuzz.check_frames(12, seed=0)


@pytest.mark.parametrize("seed", [7, 10])
def test_a_report_is_made_of_tables_unlike_any_trace(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fuzz.check_report(seed)


def test_an_ingest_that_is_killed_is_made_good_by_the_next() -> None:
    fuzz.check_kill(seed=1)


def test_the_target_notices_a_lost_row(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["row 1", "row 2"], ["row 1"]])
    monkeypatch.setattr(fuzz, "ingest_one", lambda *_: next(answers))
    with pytest.raises(AssertionError):
        fuzz.check("x.csv", b"")
