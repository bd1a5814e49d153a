"""A report on a part of the jobs, and one that names nobody."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from tests.cli.command import run_command
from traceana.cli import app

LOG = """JobID|JobName|User|Partition|State|Submit|Start|End|Elapsed|AllocTRES
1|merger|annabel|gpu|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:01:00|2026-03-02T10:01:00|02:00:00|gres/gpu=4
2|merger|evelyn|gpu|FAILED|2026-03-02T08:00:00|2026-03-02T08:02:00|2026-03-02T08:12:00|00:10:00|gres/gpu=1
3|merger|evelyn|cpu|COMPLETED|2026-04-02T08:00:00|2026-04-02T08:02:00|2026-04-02T08:12:00|00:10:00|
"""


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str, section: str = "provenance"
) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # a short section: a process for it would take longer to start
    monkeypatch.setattr("traceana.report.run.count_workers", lambda: 1)
    log = tmp_path / "march.txt"
    log.write_text(LOG)
    only = ["--only", section, "--format", "md", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["report", str(log), *only, *options])
    assert result.exit_code == 0, (result.output, result.exception)
    return (tmp_path / "out" / "index.md").read_text()


def test_a_month_and_a_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    march = run(tmp_path, monkeypatch, "--since", "2026-03-01", "--until", "2026-04-01")
    assert "since 2026-03-01, until 2026-04-01" in march
    assert "; Jobs 2; " in march
    queue = run(tmp_path, monkeypatch, "--where", "queue = 'cpu'")
    assert "where queue = 'cpu'" in queue
    assert "; Jobs 1; " in queue


def test_an_anonymized_page_holds_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = run(tmp_path, monkeypatch, "--anonymize", section="workload")
    assert "march (anonymized)" in page
    for name in ("annabel", "evelyn", "merger"):
        assert name not in page


def test_another_trace_stands_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "runtime_s": [5.0, 7.0], "gpus": [1.0, 1.0]})
    traceana.add_table(jobs, trace="theirs", table="jobs", store=tmp_path / "own", title="Theirs")
    monkeypatch.setenv("TRACEANA_STORE", str(tmp_path / "own"))
    page = run(tmp_path, monkeypatch, "--compare", "theirs", section="comparison")
    assert "| Theirs | 6 s (n = 2)" in page
    assert re.search(r"\| march \| [\d.,]+ \w+ \([^|]*n = 3\)", page)


def test_a_trace_that_is_nowhere_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEANA_STORE", str(tmp_path / "none"))
    with pytest.raises(AssertionError, match="nowhere"):
        run(tmp_path, monkeypatch, "--compare", "nowhere")


def test_a_report_of_files_keeps_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    run(tmp_path, monkeypatch, "--format", "md,html")
    page = (tmp_path / "out" / "index.html").read_text()
    typed = "traceana report march.txt --only provenance --format md --out out"
    assert f"with <code>{typed} --format md,html" in page
    assert "a temporary store, which" in page
    kept = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert kept - {"cache"} == {"march.txt", "out"}
    in_cache = {path.relative_to(tmp_path).parts[1] for path in (tmp_path / "cache").rglob("*")}
    assert in_cache <= {"matplotlib"}


def test_a_report_of_files_in_a_named_store_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, monkeypatch, "--store", str(tmp_path / "data"), "--format", "md,html")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<code>traceana report --store data</code>" in page
    assert str(tmp_path) not in page
    assert traceana.open_store(tmp_path / "data").traces() == ["march"]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (["--since", "soon"], "time 'soon' cannot be read; write 2026-03-31"),
        (["--window", "2026-03-01", "x"], "time 'x' cannot be read; write 2026-03-31"),
        (
            ["--since", "2026-04-01", "--until", "2026-03-01"],
            "the begin, 2026-04-01, is not before",
        ),
        (["--window", "90", "60"], "the begin, 90, is not before the end, 60; exchange them"),
    ],
)
def test_limits_that_no_log_has_are_refused_before_one_is_read(
    tmp_path: Path, limits: list[str], message: str
) -> None:
    for command in ("report", "summary"):
        done = run_command(command, tmp_path / "missing.txt", *limits)
        assert done.returncode == 2
        assert done.stderr.startswith(f"traceana: {message}")
        assert done.stderr.count("\n") == 1


def test_limits_outside_the_log_are_refused_with_its_times(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(LOG)
    for limits in (["--since", "2027-01-01"], ["--window", "2027-01-01", "2027-02-01"]):
        done = run_command("summary", tmp_path / "log.txt", *limits)
        assert done.returncode == 2
        assert "the log is from 2026-03-02 08:00 UTC to 2026-04-02 08:12 UTC: choose" in done.stderr


def test_limits_are_refused_where_there_are_no_jobs(tmp_path: Path) -> None:
    faults = pl.DataFrame({"machine_id": ["a"], "start_s": [0.0]})
    traceana.add_table(faults, trace="faults", table="faults", store=tmp_path / "own")
    done = run_command("summary", "--store", tmp_path / "own", "--since", "5")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--since: a limit chooses jobs, and there is no table of jobs here" in done.stderr


def test_a_summary_of_one_job_states_that_nothing_stands_out(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(
        "JobID|User|State|Submit|Start|End|Elapsed|AllocTRES\n"
        "71|anna|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00|"
        "cpu=8,gres/gpu:a100=4\n"
    )
    done = run_command("summary", log)
    assert done.returncode == 0
    assert done.stdout == "no result stands out; traceana report has all numbers\n"
