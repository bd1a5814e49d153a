"""A file becomes a trace in one call, and a report in one command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from traceana.cli import app
from traceana.errors import DataError, SourceError, StoreError

LOG = """JobID|JobName|User|Partition|State|Submit|Start|End|Elapsed|AllocTRES
1|train|anna|gpu|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:01:00|2026-03-02T10:01:00|02:00:00|gres/gpu=4
2|train|eva|gpu|FAILED|2026-03-02T08:00:00|2026-03-02T08:02:00|2026-03-02T08:12:00|00:10:00|gres/gpu=1
2.batch|batch|||FAILED|2026-03-02T08:02:00|2026-03-02T08:02:00|2026-03-02T08:12:00|00:10:00|
3|x|eva|gpu|NEVER|soon|||00:00:00|
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "march.txt"
    path.write_text(LOG)
    return path


def test_read_returns_tables_row_counts_and_a_report(log: Path, tmp_path: Path) -> None:
    trace = traceana.read(log)
    assert (trace.id, trace.title, trace.tables) == ("march", "march", ("jobs",))
    assert trace.jobs["gpus"].to_list() == [4.0, 1.0]
    assert trace.table("jobs").equals(trace.jobs)
    assert trace.ledger.entries[0].rejected == {"Submit|not_a_time": 1}
    assert "<td>3</td><td>2</td><td>1</td>" in trace._repr_html_()
    assert str(trace) == "march\nmarch/jobs: 3 rows read = 2 kept + 1 rejected (stored)"
    page = trace.report(out=tmp_path / "out", only="data-quality", formats="md")
    assert "march" in page.read_text()
    for given in (trace, log):
        page = traceana.build_report(given, out=tmp_path / "b", only="data-quality", formats="md")
        assert "march" in page.read_text()
    with pytest.raises(StoreError, match="no table 'tasks'"):
        trace.table("tasks")


def test_nothing_of_a_file_that_is_read_stays(log: Path, tmp_path: Path) -> None:
    """Tables and results, user names among them, are deleted when Python ends."""
    code = (
        f"import traceana; trace = traceana.read({str(log)!r}, timezone='UTC')\n"
        f"trace.report(out={str(tmp_path / 'out')!r}, only='workload'); print(trace.store.path)"
    )
    cache = tmp_path / "cache"
    variables = os.environ | {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert not Path(done.stdout.strip()).exists()
    assert not [*cache.rglob("*.parquet"), *cache.rglob("*.pickle")]
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert f"<code>traceana report {log.name} --timezone UTC</code>" in page
    assert str(tmp_path) not in page


def test_read_follows_the_file_and_its_options(log: Path) -> None:
    first = traceana.read(log)
    assert traceana.read(log).store == first.store
    berlin = traceana.read(log, timezone="Europe/Berlin").jobs["submit_s"][0]
    assert first.jobs["submit_s"][0] - berlin == 3600
    log.write_text(LOG.replace("gres/gpu=4", "gres/gpu=8"))
    assert traceana.read(log).jobs["gpus"][0] == 8


def test_read_takes_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("id,n\na,1\n")
    text = '[jobs]\njob_id = "id"\ngpus = "n"\n'
    (tmp_path / "mine.toml").write_text(text)
    assert traceana.read(path, mapping=tmp_path / "mine.toml").id == "mine"
    assert traceana.read(path, mapping=text).id == "own"
    with pytest.raises(SourceError, match=r"traceana map \S*own.csv --out"):
        traceana.read(path)
    with pytest.raises(SourceError, match="no such file"):
        traceana.read(tmp_path / "nothing.csv")


def test_a_folder_of_two_traces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two/log.txt").write_text(LOG)
    (tmp_path / "two/log.swf").write_text("; Version: 2\n" + "1 " * 18 + "\n")
    with pytest.raises(DataError, match=r"more than one trace \(two, two-swf\)"):
        traceana.read(tmp_path / "two")


def test_files_of_a_folder_are_one_trace(tmp_path: Path) -> None:
    (tmp_path / "spring").mkdir()
    (tmp_path / "spring/march.txt").write_text(LOG)
    (tmp_path / "spring/april.txt").write_text(LOG.replace("\n1|", "\n11|").replace("\n2", "\n12"))
    (tmp_path / "spring/notes.txt").write_text("nothing\n")
    trace = traceana.read(tmp_path / "spring")
    assert (trace.id, sorted(trace.jobs["job_id"])) == ("spring", ["1", "11", "12", "2"])
    assert trace.ledger.entries[0].rows_not_applicable == 2


def test_load_fetches_a_public_trace_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "cluster01.csv").write_text("job_id,submission_time,duration,num_gpu\na,1,60,2\n")
    monkeypatch.setattr("traceana.opening.fetch", lambda _: folder)
    trace = traceana.load("microsoft-itp-2021")
    assert trace.id == "microsoft-itp-2021"
    assert trace.jobs.select("job_id", "gpus").rows() == [("a", 2.0)]
    assert isinstance(trace.jobs, pl.DataFrame)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments, catch_exceptions=True)
    return result.exit_code, result.stdout, result.stderr + repr(result.exception)


def test_one_command_reports_on_a_raw_file(log: Path, tmp_path: Path) -> None:
    out = ["--only", "data-quality", "--format", "md", "--out", str(tmp_path / "out")]
    code, _, told = run("report", str(log), *out)
    assert code == 0
    assert "march/jobs: 3 rows read = 2 kept + 1 rejected" in told
    assert "march" in (tmp_path / "out/index.md").read_text()
    code, _, _ = run("report", str(log), *out, "--store", str(tmp_path / "store"))
    assert code == 0
    assert (tmp_path / "store/march/jobs.parquet").exists()
    assert "are for files" in run("report", "--timezone", "UTC", *out)[2]


def test_traces_of_one_title_have_their_ids(tmp_path: Path) -> None:
    steps = pl.DataFrame(
        {
            "job_id": "job42",
            "worker_id": [f"w{n % 4}" for n in range(200)],
            "step": [n // 4 for n in range(200)],
            "batch_time": [1.0 + 0.01 * (n % 7) for n in range(200)],
        }
    )
    store = tmp_path / "store"
    for trace, slower in (("march", 1.0), ("april", 2.0)):
        frame = steps.with_columns(pl.col("batch_time") * slower)
        traceana.add_table(
            frame, trace=trace, table="worker_samples", store=store, title="Our training job"
        )
    traces = traceana.open_store(store)
    assert [traces.trace(name).label for name in traces.traces()] == [
        "Our training job (april)",
        "Our training job (march)",
    ]
    failed: list[str] = []
    page = traceana.build_report(store, out=tmp_path / "out", on_failure=failed.extend)
    assert failed == []
    text = page.with_name("index.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| Our training job (")]
    assert {row.split("|")[1].strip() for row in rows} == {
        "Our training job (april)",
        "Our training job (march)",
    }
    assert "| Our training job |" not in text
    alone = traceana.build_report(traces.trace("march"), out=tmp_path / "alone")
    assert "Our training job (march)" not in alone.with_name("index.md").read_text()
