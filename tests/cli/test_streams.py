"""What is at fault is one line: full disks, closed pipes, long paths, malformed stores, names."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.exceptions import PanicException

from tests.cli.command import run_command
from tests.ingesters.conftest import worker_times
from traceana.catalog import fetch
from traceana.cli.output import Stream, show_steps, write_frame
from traceana.errors import CatalogError, StoreError, ask_for_report, printable
from traceana.exchange import export_tables
from traceana.ingesters import add_table, ingest
from traceana.report import build_report
from traceana.store import open_store, writer
from traceana.store.ledger import parse_ledger

TRACE = "alibaba-minibatch-2020"


def run(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "traceana", *map(str, args)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)  # type: ignore[call-overload]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    (files / "job_1_norm.csv").write_bytes(worker_times())
    ingest(files, store=tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(store: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("tables", "--store", store, stdout=full)
    assert done.returncode == 2
    assert done.stderr == "traceana: the output cannot be written: No space left on device\n"


def test_a_reader_that_leaves_is_no_fault(store: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = run("tables", "--store", store, "--json", stdout=gone)
    assert (done.returncode, done.stderr) == (0, "")


def test_standard_output_may_be_closed(store: Path) -> None:
    done = run("tables", "--store", store, preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "args",
    [
        ("ingest", "a" * 5000),
        ("ingest", "{files}", "--store", "a" * 5000),
        ("tables", "--store", "a" * 5000),
        ("report", "--store", "a" * 5000),
        ("ingest", "{files}", "--mapping", "a" * 5000),
        ("fetch", TRACE, "--mirror", "a" * 5000),
    ],
)
def test_a_long_path_is_one_line(store: Path, args: tuple[str, ...]) -> None:
    done = run_command(*(arg.format(files=store.parent / "files") for arg in args))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("traceana: ")
    assert "too long" in line


def test_control_characters_of_names_and_data_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "pai_job_table.csv").write_bytes(b"j,i,u,\x1b[31mFoo\x9b,1,2\n")
    (folder / "\x1b[2J.csv").write_text("\x1b]0;title\x07\n")
    named = folder / "job_1_norm.csv"
    named.write_bytes(worker_times().replace(b"norm\n", b"norm,\x1b[5mx\n", 1))
    done = run_command("ingest", folder, "--store", tmp_path / "store")
    said = done.stdout + done.stderr
    assert printable(said) == said
    assert "\\x1b[31mFoo" in said
    assert "\\x1b[2J.csv" in said


@pytest.mark.parametrize("text", ["\x1b[0m", "\r", "\x07", "\u202e", "\ud800", "\x9b"])
def test_printable(text: str) -> None:
    assert printable(f"é\n{text}").encode().startswith("é\n\\".encode())


def test_an_interrupt_while_the_command_is_imported_is_silent() -> None:
    code = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "traceana.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from traceana.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_an_interrupt_before_a_command_runs_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.main.get_command", interrupted)
    done = run_command("traces")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("name", ["ledger", "manifest"])
@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "3", '{"format": 0}', '{"format": 1, "tables": 3}', "[" * 100_000),
        '{"format": 2, "trace": "x", "tables": [], "missing": {}}',
        '{"format": 99, "tables": {}}',
    ],
)
def test_a_malformed_file_of_the_store_is_one_line(store: Path, name: str, text: str) -> None:
    (store / TRACE / f"{name}.json").write_text(text)
    with pytest.raises(StoreError, match="this version can read") as error:
        open_store(store).ledger(TRACE) if name == "ledger" else open_store(store).manifest(TRACE)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", ["without a column", "of other types", "of a new table"])
def test_a_table_of_another_version_is_one_line_and_built_anew(store: Path, change: str) -> None:
    ledger, path = store / TRACE / "ledger.json", store / TRACE / "worker_samples.parquet"
    table, whole = pq.read_table(path), path.read_bytes()
    if change == "of a new table":
        ledger.write_text(ledger.read_text().replace('"worker_samples": {', '"novel": {'))
        path.rename(path.with_name("novel.parquet"))
    elif change == "without a column":
        pq.write_table(table.drop_columns(["step"]), path)
    else:
        pq.write_table(table.set_column(0, "job_id", pa.array([1] * table.num_rows)), path)
    with pytest.raises(StoreError, match=r"another version wrote it.*; ingest again"):
        open_store(store).ledger(TRACE)
    if change != "of a new table":
        ingest(store.parent / "files", store=store)
        assert path.read_bytes() == whole


def test_an_unreadable_manifest_stops_an_ingest_of_unchanged_files(store: Path) -> None:
    (store / TRACE / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="manifest format 99, not 1"):
        ingest(store.parent / "files", store=store)


def test_a_damaged_table_is_one_line(store: Path) -> None:
    path = store / TRACE / "worker_samples.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    done = run_command(
        "report", "--store", store, "--out", store / "report", "--only", "stragglers"
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "mirror",
    ["http://[::1", "http://", "http://a b/", "https://exa mple", "file://[", "http://host:99999/"],
)
def test_a_malformed_address_is_one_line(mirror: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="not a valid address") as error:
        fetch("zeus-2023", to=tmp_path, mirror=mirror)
    assert "\n" not in str(error.value)


def test_formulas_in_a_csv_are_neutralized(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1+2", "@x", "\tx", "\nx", "\uff1d1", "a=b", "-", "-1.5", None]
    kept = ["'=1+1", "'+1", "'-1+2", "'@x", "'\tx", "'\nx", "'\uff1d1", "a=b", "-", "-1.5", None]
    frame = pl.DataFrame({"a": texts, "b": [-1.5] * 11, "=cmd()": texts}).with_columns(
        c=pl.col("a").cast(pl.Categorical), d=pl.concat_list("a", pl.lit("x"))
    )
    write_frame(frame, tmp_path / "x.csv")
    found = pl.read_csv(tmp_path / "x.csv")
    assert found["a"].to_list() == found["c"].to_list() == found["'=cmd()"].to_list() == kept
    assert found["b"].to_list() == [-1.5] * 11
    assert found["d"][0] == "'=1+1 x"


def test_each_csv_of_a_command_is_neutralized(tmp_path: Path) -> None:
    """All else in the package that writes a CSV has numbers or made-up names alone."""
    package = Path(str(files("traceana")))
    writers = {
        source.relative_to(package).as_posix()
        for source in package.rglob("*.py")
        if re.search(
            r"^(?! *>>>).*(write_csv|sink_csv|csv\.writer|to_csv|savetxt)",
            source.read_text(),
            re.MULTILINE,
        )
    }
    assert writers - {"samples/files.py", "samples/pai.py"} == {
        "exchange/export.py",
        "tables/display.py",
    }
    jobs = pl.DataFrame({"job_id": ["=cmd()"], "submit_s": [5.0], "user": ["\x1b[31m@u"]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    [path] = export_tables("mine", store=tmp_path, out=tmp_path, file_format="csv")
    assert pl.read_csv(path)["job_id"].to_list() == ["'=cmd()"]
    build_report(tmp_path, out=tmp_path / "page", only=["workload", "data-quality"])
    for written in (tmp_path / "page").rglob("*.csv"):
        assert not re.search(r"(?m)(^|,)\"?[=@]", written.read_text())


def test_a_step_of_the_progress_bar_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_steps("ingest") as report_step:
        report_step(1, 2, "a\x1b]0;b[/red]")
    shown = capsys.readouterr().err
    assert "a\\x1b]0;b[/red]" in shown
    assert "\x1b]0;" not in shown


def test_lines_written_at_once_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Stream(sys.stdout).writelines(["a\x1b[31m\n", "b\n"])
    assert capsys.readouterr().out == "a\\x1b[31m\nb\n"


def test_writers_of_one_file_do_not_share_a_temporary_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "ledger.json", []

    def look(_: int) -> None:
        seen.append({one.name for one in tmp_path.glob(".*.tmp")})
        if len(seen) == 1:
            writer.write_whole({path: b"second"})

    monkeypatch.setattr(os, "fsync", look)
    writer.write_whole({path: b"first"})
    assert len(seen[1]) == 2
    assert path.read_text() == "first"
    assert [one.name for one in tmp_path.iterdir()] == ["ledger.json"]


@pytest.mark.parametrize("turn", [0, 1])
def test_of_files_of_which_one_cannot_be_written_none_is(
    turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = itertools.count()

    def full(_: int) -> None:
        if next(turns) == turn:
            raise OSError(28, "No space left on device")

    (tmp_path / "old.csv").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        writer.write_whole({tmp_path / "old.csv": b"new", tmp_path / "more.csv": b"new"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"old.csv": "old"}


def test_folders_are_not_synced_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "os", SimpleNamespace(name="nt"))
    writer.sync_folder(tmp_path)


def test_the_disk_limit_of_an_ingest_is_one_line(store: Path) -> None:
    import resource  # noqa: PLC0415  not on Windows

    files, other = store.parent / "files", store.parent / "other"
    limit = 1 << 10
    done = run(
        "ingest",
        files,
        "--store",
        other,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        # a measurement of coverage writes files of its own
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")},
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "cannot be written" in line
    assert not list(other.rglob("*.tmp"))


@pytest.mark.parametrize("cache", ["/dev/null/x", ""])
def test_neither_a_home_nor_a_cache_is_needed(store: Path, cache: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    environment |= {"XDG_CACHE_HOME": cache} if cache else {}
    asked = ("claims", "--store", store, "--json", "--paper", TRACE)
    done = run(*asked, stdout=subprocess.DEVNULL, env=environment)
    assert done.returncode == 0
    assert all(line.startswith("traceana: note: ") for line in done.stderr.splitlines())


def test_a_ledger_is_read_as_it_was_written(store: Path) -> None:
    ledger = open_store(store).ledger(TRACE)
    assert parse_ledger(ledger.json) == ledger


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("can't start new thread"), PanicException("WouldBlock\nat 5")],
)
def test_a_lack_of_memory_or_threads_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("traceana.cli.app", fail)
    done = run_command("traces")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("traceana: out of memory or threads, or a fault of Polars (")


def test_a_fault_is_one_line_for_a_bug_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("traceana.cli.app", fail)
    done = run_command("traces")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert re.fullmatch(
        r"traceana: the command could not be completed\. Please report it with these words: "
        r"traceana [\w.]+, command traces, IndexError in test_streams\.py:\d+ from "
        r"__init__\.py:\d+: list index out of range\n",
        done.stderr,
    )


def test_words_for_a_bug_report_have_no_path() -> None:
    with pytest.raises(OSError, match="nowhere") as error:
        Path("/nowhere/ann").read_text()
    assert ask_for_report("x", error.value).endswith(": No such file or directory")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("os error 2: /home/ann b/x y/jobs.parquet", "os error 2: jobs.parquet"),
        (r"'C:\Users\ann\jobs.csv' is no table", "'jobs.csv' is no table"),
        ("3/4 of a / b / c", "3/4 of a / b / c"),
    ],
)
def test_words_for_a_bug_report_have_no_folder(said: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        raise ValueError(said)
    assert ask_for_report("x", error.value).endswith(f": {told}")


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="needs /dev/null")
def test_a_device_in_the_place_of_a_file_of_a_store_is_not_read(store: Path) -> None:
    manifest = store / TRACE / "manifest.json"
    manifest.unlink()
    manifest.symlink_to("/dev/null")
    done = run_command("export", TRACE, "--store", store, "--out", store.parent / "out")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no regular file" in done.stderr
