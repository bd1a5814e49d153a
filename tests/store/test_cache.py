"""Objects kept in the cache folder: what counts as kept, and what is deleted."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from traceana import add_table, open_store
from traceana.store.cache import Cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "traceana" / "some"


@pytest.mark.parametrize("damage", [b"", b"x" * 40, None])
def test_a_damaged_file_counts_as_none(folder: Path, damage: bytes | None) -> None:
    cache = Cache("some")
    cache.save("key", ("told",))
    assert cache.load("key") == ("told",)
    assert cache.load("other") is None
    path = folder / "key.pickle"
    path.write_bytes(path.read_bytes()[:-1] if damage is None else damage)
    assert cache.load("key") is None


def test_the_files_used_longest_ago_are_deleted(folder: Path) -> None:
    cache = Cache("some", limit_bytes=3_500)
    for day in range(5):
        cache.save(f"key{day}", b"x" * 1_000)
        os.utime(folder / f"key{day}.pickle", (day, day))
    assert sorted(path.stem for path in folder.iterdir()) == ["key2", "key3", "key4"]


@pytest.mark.parametrize(
    "large", [b"x" * (1 << 26), {"of": (pl.DataFrame({"x": pl.zeros(1 << 24, eager=True)}),)}]
)
def test_a_large_object_is_not_kept(folder: Path, large: object) -> None:
    Cache("some").save("key", large)
    assert not folder.exists()


def test_a_full_disk_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    Cache("some").save("key", 1)
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache = Cache("some")
    cache.save("key", 1)
    with cache.alone("key"):
        assert cache.load("key") is None


def test_what_one_computes_the_others_wait_for(folder: Path) -> None:
    cache, calls = Cache("some"), []
    all_there = threading.Barrier(4)

    def compute() -> object:
        all_there.wait()
        with cache.alone("key"):
            if (kept := cache.load("key")) is None:
                calls.append(1)
                cache.save("key", "told")
                return "told"
        return kept

    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(compute) for _ in range(4)]]
    assert (found, len(calls)) == (["told"] * 4, 1)
    assert [path.name for path in folder.iterdir()] == ["key.pickle"]


def test_a_result_that_has_its_trace_is_not_taken_by_another_path(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [1.0]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path / "here" / "data")
    monkeypatch.chdir(tmp_path / "here")
    trace = open_store("data").trace("mine")
    trace.cached(("itself",), lambda: [trace])
    assert folder.parent.is_dir()
    monkeypatch.chdir(tmp_path)
    again = open_store(tmp_path / "here" / "data").trace("mine")
    [kept] = again.cached(("itself",), lambda: [again])
    assert kept.scan("jobs").collect().height == 1
