"""Each command with each kind of fault: one line, status 1 or 2, nothing half-written."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import FrameType

import polars as pl
import pytest

import traceana
from tests.catalog.conftest import PUBLISHED, SHA256_A
from tests.cli.command import run_command
from traceana.catalog.model import get_trace
from traceana.ingesters import ingest
from traceana.samples import write_sample

LOG = """JobID|User|Partition|State|Submit|Start|End|Elapsed|AllocTRES
1|ann|gpu|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:01:00|2026-03-02T10:01:00|02:00:00|gres/gpu=4
2|eve|gpu|FAILED|2026-03-02T08:00:00|2026-03-02T08:02:00|2026-03-02T08:12:00|00:10:00|gres/gpu=1
"""
ITP, LOGS, OPENB = "microsoft-itp-2021", "bytedance-stragglers-2025", "alibaba-openb-2023"
ZEUS = ("zeus-2023", "--gpu", "v100", "--dataset")
OF_STORE, TO_FILE = ("--store", "STORE"), ("--out", "OUT/jobs.parquet")
COMMANDS: dict[str, tuple[str, ...]] = {
    "traces": ("traces", *OF_STORE),
    "tables": ("tables", *OF_STORE),
    "fetch": ("fetch", "zeus-2023", "--mirror", "FOLDER", "--to", "OUT"),
    "sample": ("sample", "OUT", "--trace", "zeus-2023"),
    "ingest": ("ingest", "LOG", "--store", "OUT"),
    "map": ("map", "LOG", "--out", "OUT/mine.toml"),
    "anonymize": ("anonymize", ITP, "--out", "OUT", *OF_STORE),
    "export": ("export", ITP, "--out", "OUT", "--format", "csv", *OF_STORE),
    "report": ("report", "LOG", "--out", "OUT", "--only", "workload"),
    "report-store": ("report", "--out", "OUT", "--only", "hazards", *OF_STORE),
    "summary": ("summary", "LOG"),
    "figures": ("figures", "concentration", "--format", "svg", "--out", "OUT", *OF_STORE),
    "compare": ("compare", ITP, "elasticflow-2023", *OF_STORE),
    "reliability": ("reliability", "faults", "--machines", "9", *OF_STORE),
    "claims": ("claims", "--paper", "zeus", *OF_STORE),
    "deadlines": ("simulate", "deadlines", "elasticflow-2023", *OF_STORE),
    "recurring": ("simulate", "recurring", *ZEUS, "cifar100", *OF_STORE),
    "batching": ("simulate", "batching", "--throughputs", "100,200,300"),
    "energy": ("simulate", "energy", *ZEUS, "librispeech", *OF_STORE),
    "place": ("simulate", "place", OPENB, "--policy", "fgd", "--seeds", "1", *OF_STORE),
    "operations": ("simulate", "operations", LOGS, "--timeline", "OUT/steps.json", *OF_STORE),
    "schedule": ("simulate", "schedule", ITP, "--policy", "fifo", *TO_FILE, *OF_STORE),
}  # fmt: skip
OPTIONS: dict[str, tuple[str, ...]] = {
    "traces": ("--jsn",),
    "tables": ("more",),
    "fetch": ("--mirror", "nowhere"),
    "sample": ("--trace", "none"),
    "ingest": ("--reader", "none"),
    "map": ("--reader", "none"),
    "anonymize": ("--round", "nan"),
    "export": ("--table", "none"),
    "report": ("--since", "soon"),
    "report-store": ("--only", "none"),
    "summary": ("--where", "gpus >"),
    "figures": ("--size", "0"),
    "compare": ("--fail-if", "gpus >"),
    "reliability": ("--machines", "-1"),
    "claims": ("--paper", "none"),
    "deadlines": ("--policies", "none"),
    "recurring": ("--gpu", "none"),
    "batching": ("--throughputs", "1,x"),
    "energy": ("--eta", "2"),
    "place": ("--seeds", "0"),
    "operations": ("--ideal", "none"),
    "schedule": ("--gpus", "-1"),
}
WRITING = [name for name, words in COMMANDS.items() if any("OUT" in word for word in words)]
READING = [name for name, words in COMMANDS.items() if {"STORE", "LOG", "FOLDER"} & {*words}]
UNREADABLE = Path("/proc/self/mem")
"""A file whose first byte cannot be read, by root neither."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    log = folder / "log.txt"
    log.write_text(LOG)
    (folder / "files").mkdir()
    (folder / "files" / "a.csv").write_bytes(PUBLISHED["a.csv"])
    ingest([log, write_sample(folder / "sample")], store=folder / "store")
    faults = pl.DataFrame({"machine_id": list("abc"), "start_s": [0.0, 9e5, 2e6]})
    traceana.add_table(faults, trace="faults", table="faults", store=folder / "store")
    return folder


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("traceana.report.run.count_workers", lambda: 1)
    entry = get_trace("zeus-2023")
    file = replace(entry.files[0], name="a.csv", sha256=SHA256_A, git_blob=None, bytes=3)
    planted = replace(entry, files=(file,))
    monkeypatch.setattr("traceana.catalog.download.get_trace", lambda _: planted)


def run(name: str, inputs: Path, out: Path, *more: str, **places: Path) -> CompletedProcess[str]:
    out.mkdir()
    given = {"STORE": inputs / "store", "LOG": inputs / "log.txt", "FOLDER": inputs / "files"}
    given |= places
    words = (given.get(word, word.replace("OUT", str(out))) for word in COMMANDS[name])
    return run_command(*words, *more)


def assert_told(done: CompletedProcess[str], *statuses: int) -> None:
    """Assert one line that is the last, and no traceback."""
    assert done.returncode in statuses, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        assert re.match(r"traceana: |Error: |.*(--help|Try )", lines[-1]), done.stderr
        assert sum(line.startswith("traceana: ") and "note:" not in line for line in lines) <= 2
        assert len(lines[-1]) < 1200


def written(folder: Path) -> dict[str, bytes]:
    """Return the files under final names, without what differs between two runs."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def assert_whole(name: str, inputs: Path, out: Path) -> None:
    """Assert that what was written is what a run without a fault writes."""
    found = written(out)
    if found and name != "anonymize":  # whose key is random
        shutil.rmtree(out)
        run(name, inputs, out)
        assert found.items() <= written(out).items()


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_fault_it_ends_well(name: str, inputs: Path, tmp_path: Path) -> None:
    done = run(name, inputs, tmp_path / "out")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert bool(written(tmp_path / "out")) == (name in WRITING)


def test_a_pipe_and_what_a_link_leads_to_are_written(inputs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "traceana", "map", str(inputs / "log.txt"), "--out"]
    piped = subprocess.run([*command, "/dev/stdout"], stdout=subprocess.PIPE, check=True)
    assert b"\n[jobs]\n" in piped.stdout
    (tmp_path / "link").symlink_to(tmp_path / "mine.toml")
    run_command("map", inputs / "log.txt", "--out", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "mine.toml").read_bytes() in piped.stdout


@pytest.mark.parametrize("name", OPTIONS)
def test_a_wrong_option_is_one_line(name: str, inputs: Path, tmp_path: Path) -> None:
    assert_told(run(name, inputs, tmp_path / "out", *OPTIONS[name]), 2)
    assert not written(tmp_path / "out")


@pytest.mark.parametrize("name", READING)
@pytest.mark.parametrize("fault", ["missing", "another kind", "unreadable"])
def test_an_input_at_fault_is_one_line(name: str, fault: str, inputs: Path, tmp_path: Path) -> None:
    places = {word: tmp_path / word for word in ("STORE", "LOG", "FOLDER")}
    if fault == "another kind":
        (tmp_path / "LOG").mkdir()
        for word in ("STORE", "FOLDER"):
            (tmp_path / word).write_text("no folder")
    elif fault == "unreadable":
        if not UNREADABLE.exists():
            pytest.skip("needs /proc")
        (tmp_path / "LOG").symlink_to(UNREADABLE)
        (tmp_path / "FOLDER").mkdir()
        (tmp_path / "FOLDER" / "a.csv").symlink_to(UNREADABLE)
        for path in (inputs / "store").glob("*/*.*"):
            there = tmp_path / "STORE" / path.relative_to(inputs / "store")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(UNREADABLE)
    status = (0, 2) if name == "traces" else (2,)  # there need not be a store
    assert_told(run(name, inputs, tmp_path / "out", **places), *status)
    assert not written(tmp_path / "out")


@pytest.mark.parametrize("name", [name for name in READING if "STORE" in COMMANDS[name]])
@pytest.mark.parametrize("damaged", ["*.parquet", "manifest.json", "ledger.json"])
def test_a_broken_store_is_one_line(name: str, damaged: str, inputs: Path, tmp_path: Path) -> None:
    shutil.copytree(inputs / "store", tmp_path / "STORE")
    for path in (tmp_path / "STORE").glob(f"*/{damaged}"):
        os.truncate(path, path.stat().st_size // 2)
    status = (0, 2) if name in ("traces", "claims") else (2,)  # synthetic rows decide no claim
    assert_told(run(name, inputs, tmp_path / "out", STORE=tmp_path / "STORE"), *status)
    assert not written(tmp_path / "out")


@contextmanager
def full_disk(bytes_left: int) -> Iterator[None]:
    """Let no file grow beyond this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("name", "bytes_left"), [*((name, 1) for name in COMMANDS), *((name, 3000) for name in WRITING)]
)
def test_a_full_disk_is_one_line(name: str, bytes_left: int, inputs: Path, tmp_path: Path) -> None:
    with full_disk(bytes_left):
        done = run(name, inputs, tmp_path / "out")
    assert_told(done, 0, 2)
    assert done.returncode == 2 or name not in WRITING or bytes_left > 1
    assert_whole(name, inputs, tmp_path / "out")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("calls", [3, 40, 400])
def test_a_fault_of_ours_is_one_line(name: str, calls: int, inputs: Path, tmp_path: Path) -> None:
    package = f"{Path(traceana.__file__).parent}/"
    left = calls

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        code = frame.f_code
        place = code.co_filename
        ours = event == "call" and place.startswith(package) and "/cli/" not in place
        left -= ours and not code.co_name.startswith("<")
        if left == 0:
            sys.setprofile(None)
            raise RuntimeError("injected\nin two lines")

    sys.setprofile(interrupt)
    try:
        done = run(name, inputs, tmp_path / "out")
    finally:
        sys.setprofile(None)
    assert_told(done, 0, 1, 2)
    assert_whole(name, inputs, tmp_path / "out")
