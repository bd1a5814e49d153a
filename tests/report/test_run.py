"""Who builds a section, this process, another or an earlier run, makes no difference to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from traceana.errors import StoreError, TraceanaError
from traceana.ingesters import add_table
from traceana.page.blocks import Content, Text
from traceana.page.section import sections
from traceana.report import build, build_report
from traceana.report import run as report_run
from traceana.report.build import find_data_source, open_context
from traceana.report.run import count_workers, section_key

if TYPE_CHECKING:
    from traceana.page.section import Context
    from traceana.store import Store

SOME = ("data-quality", "traces", "task-runtimes", "energy")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "traceana" / "report"


@pytest.fixture
def context(zeus_store: Store) -> Context:
    return open_context(find_data_source(zeus_store.path))


def written(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_processes_and_the_cache_give_the_same_bytes(
    zeus_store: Store, cache: Path, tmp_path: Path
) -> None:
    reports = []
    for name, workers, empty in (("alone", 1, True), ("shared", 2, True), ("kept", 2, False)):
        if empty:
            shutil.rmtree(cache, ignore_errors=True)
        build_report(zeus_store.path, out=tmp_path / name, only=SOME, workers=workers)
        reports.append(written(tmp_path / name))
        assert len(list(cache.glob("*.pickle"))) == len(SOME)
    assert reports[0] == reports[1] == reports[2]
    assert {"index.html", "index.md", "figures/saved-zeus-2023.svg"} <= set(reports[0])


def test_two_reports_at_the_same_moment_do_not_disturb_each_other(
    zeus_store: Store, cache: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from traceana.report import build_report; print('imported', flush=True); "
        f"build_report(sys.argv[1], out=sys.argv[2], only={SOME}, workers=1)"
    )
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    command = [sys.executable, "-c", code, str(zeus_store.path), str(theirs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        build_report(zeus_store.path, out=ours, only=SOME, workers=1)
        assert other.wait() == 0
    assert written(ours) == written(theirs)
    assert len(list(cache.glob("*.pickle"))) == len(SOME)


def test_an_unchanged_section_is_not_built_again(
    zeus_store: Store, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def count(_: Context) -> Content:
        built.append("once")
        return Content((), (Text("here"),))

    section = replace(sections()[0], build=count)
    monkeypatch.setattr(build, "sections", lambda: (section,))
    for _ in range(2):
        build_report(zeus_store.path, out=tmp_path / "out")
    assert built == ["once"]
    assert cache.is_dir()
    # other data, other sections
    store = tmp_path / "store"
    shutil.copytree(zeus_store.path, store)
    (path,) = store.glob("*/ledger.json")
    ledger = json.loads(path.read_text(encoding="utf-8"))
    ledger["tables"]["training_runs"]["ids_are_rows"] = True
    path.write_text(json.dumps(ledger), encoding="utf-8")
    build_report(store, out=tmp_path / "out")
    assert built == ["once"] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda m, _: replace(m, date="1970-01-02 00:00 UTC"),
        lambda m, _: replace(m, store=replace(m.store, master="local[2]")),
        lambda m, _: replace(m, data_source=replace(m.data_source, is_sample=True)),
        lambda m, patch: patch.setattr(report_run, "versions", lambda *_: ("99",)) or m,
        lambda m, patch: patch.setattr(report_run, "code_digest", lambda *_: "new") or m,
    ],
    ids=["date", "engine", "data_source", "library", "code"],
)
def test_a_kept_section_is_for_the_same_options_and_code_only(
    context: Context, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    one, other = sections()[:2]
    key = section_key(context, one)
    assert key == section_key(context, one) != section_key(context, other)
    assert callable(change)
    assert section_key(change(context, monkeypatch), one) != key


def test_a_cache_that_cannot_be_written_is_done_without(
    zeus_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    page = build_report(zeus_store.path, out=tmp_path / "out", only="traces")
    assert page.is_file()


def test_files_are_removed_of_an_earlier_report_only(zeus_store: Store, tmp_path: Path) -> None:
    own = [tmp_path / "data" / "jobs.csv", tmp_path / "figures" / "mine.svg"]
    for path in own:
        path.parent.mkdir()
        path.write_text("mine", encoding="utf-8")
    build_report(zeus_store, out=tmp_path, only="energy", formats="md")
    drawn = {*tmp_path.glob("*/*.*")} - {*own}
    assert {path.suffix for path in drawn} == {".csv", ".svg"}
    build_report(zeus_store, out=tmp_path, only="traces", formats="md")
    assert not any(path.exists() for path in drawn - {*tmp_path.glob("data/table-traces*")})
    assert all(path.exists() for path in own)


def test_what_a_killed_run_had_not_finished_is_removed(zeus_store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for folder in (out, out / "data", out / "figures"):
        folder.mkdir()
        (folder / ".index.html.0badcafe.tmp").write_text("half")
        (folder / "own.tmp").write_text("not ours")
    build_report(zeus_store.path, out=out, only="traces")
    assert [path.name for path in out.rglob("*.tmp")] == ["own.tmp"] * 3


@pytest.mark.parametrize("change", ["deleted", "ingested anew"])
@pytest.mark.parametrize("steps", [0, 1])
def test_a_store_that_changes_while_it_is_read_is_one_line_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, steps: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [5.0, 9.0], "gpus": [2, 4]})
    store, out = tmp_path / "store", tmp_path / "out"
    add_table(jobs, trace="mine", table="jobs", store=store)

    def report_step(done: int, _steps: int, _step: str) -> None:
        if done == steps and change == "deleted":
            shutil.rmtree(store)
        elif done == steps:
            add_table(jobs.head(1), trace="mine", table="jobs", store=store)

    sections = ["workload", "data-quality"]
    with pytest.raises(StoreError, match="mine: deleted or changed while it was read; run again"):
        build_report(store, out=out, only=sections, on_step=report_step)
    assert not list(out.iterdir())
    shutil.rmtree(store, ignore_errors=True)
    add_table(jobs, trace="mine", table="jobs", store=store)
    page = build_report(store, out=out, only=sections).read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert build_report(store, out=out, only=sections).read_bytes() == page


def test_there_are_no_more_workers_than_cores() -> None:
    assert 1 <= count_workers() <= 4


def test_workers_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "POLARS_MAX_THREADS"
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(report_run, "_count_cores", lambda: 6)
    count = [sys.executable, "-c", "import polars; print(polars.thread_pool_size())"]
    with report_run._shared_cores(2):
        assert subprocess.check_output(count, text=True) == "3\n"
    assert name not in os.environ
    monkeypatch.setenv(name, "5")
    with report_run._shared_cores(2):
        assert os.environ[name] == "5"
    assert os.environ[name] == "5"


DIES = """
import os, time
from traceana.page.blocks import Content
from traceana.page.section import Section

def build(context):
    return Content(("built",))

def dies(traces):
    time.sleep(3)  # until the other process has built what waits
    os._exit(1)

def slow(traces):
    time.sleep(1)
    return Content(("slow",))

NEEDS = ({"training_runs": ("dataset",)},)
LAST, A, B, C = Section("last", "Last", 4, build), *(
    Section(name, name, place, function, needs=NEEDS)
    for place, (name, function) in enumerate({"a": slow, "b": slow, "c": dies}.items())
)
"""


@pytest.mark.usefixtures("cache")
def test_a_worker_that_ends_is_noticed_whatever_else_was_built(
    zeus_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "dies-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dies\nVersion: 1.0\n")
    lines = "".join(f"{name} = dies:{name.upper()}\n" for name in ("a", "b", "c", "last"))
    (info / "entry_points.txt").write_text(f"[traceana.sections]\n{lines}")
    (info.parent / "dies.py").write_text(DIES)
    monkeypatch.syspath_prepend(str(info.parent))
    sections.cache_clear()
    try:
        with pytest.raises(TraceanaError, match="was killed"):
            build_report(zeus_store.path, out=tmp_path / "out", only="a,b,c,last", workers=2)
    finally:
        sections.cache_clear()
        sys.modules.pop("dies", None)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed from /proc")
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_workers_end_with_a_killed_parent(
    zeus_store: Store, tmp_path: Path, number: int, status: int
) -> None:
    code = (
        "import signal; from traceana.cli import main; from traceana.report import run\n"
        # nohup, which may run the tests, has it ignored
        "if __name__ == '__main__': signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "run.count_workers = lambda: 3; main()"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, script, "report", "--store", zeus_store.path, "--out", tmp_path]
    running = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE)

    known: set[str] = set()

    def workers() -> list[str]:
        found: list[str] = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (folder / "cmdline").read_text()
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                if "spawn_main" in command and (int(parent) == running.pid or folder.name in known):
                    found.append(folder.name)
        known.update(found)
        return found

    while not (started := workers()) and running.poll() is None:
        time.sleep(0.02)
    time.sleep(0.5)  # a process that was not told yet what it is for says so
    running.send_signal(number)
    _, printed = running.communicate()
    assert started, "no worker was started"
    assert running.returncode == status
    # a killed one leaves semaphores, which Python reports
    assert number == signal.SIGKILL or printed == b""
    deadline = time.monotonic() + 600
    while workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not workers()
