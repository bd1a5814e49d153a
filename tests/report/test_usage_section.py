"""A made-up Slurm log reaches the sections on users, losses, waits and nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.cli.report import _print_results
from traceana.questions.workload import section_consumers

FIELDS = "JobID|User|Account|Partition|State|Submit|Start|End|Elapsed|AllocTRES|NodeList|Restarts"

SHOWN = {".html", ".md", ".svg", ".csv"}


def write_log(path: Path, *, wait_s: int = 3600) -> None:
    """Forty users, one with half of the jobs; node n7 fails, jobs of 8 GPUs wait."""
    rng = np.random.default_rng(4)
    lines = [FIELDS]
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    for job in range(2000):
        user = 0 if job % 2 else int(rng.integers(1, 40))
        node = int(rng.integers(0, 20))
        bad = rng.random() < (0.6 if node == 7 else 0.1)
        submit = begin + timedelta(minutes=30 * job)
        gpus = 8 if job % 10 == 0 else 1
        start = submit + timedelta(seconds=wait_s if gpus == 8 else 120)
        end = start + timedelta(hours=1)
        name = f"{job // 2}_{job % 2}" if job < 100 else str(job + 1000)
        state = "NODE_FAIL" if bad else "COMPLETED"
        lines.append(
            f"{name}|u{user}|lab{user % 3}|gpu|{state}|{submit:%FT%T}|"
            f"{start:%FT%T}|{end:%FT%T}|01:00:00|gres/gpu={gpus}|n{node}|{int(job < 5)}"
        )
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("usage")
    write_log(folder / "sacct.txt")
    store = folder / "store"
    traceana.ingest(folder / "sacct.txt", store=store)
    options = {"out": folder / "out", "only": "consumers,nodes", "formats": "md"}
    return traceana.build_report(store, **options).read_text()  # type: ignore[arg-type]


def test_top_users_and_losses_are_the_planted_ones(page: str) -> None:
    # 1,800 jobs of 1 GPU and 200 of 8, an hour each; user 0 has every second job, none of 8 GPUs
    assert "User u0 submitted 50 % of 2,000 jobs and used 29 % of the GPU-hours" in page
    assert "of all 3,400 GPU-hours" in page


def test_waits_differ_by_size(page: str) -> None:
    assert "jobs of 8 GPUs with 1 h (200 jobs)" in page
    assert "of equal size" not in page


@pytest.mark.parametrize(("wait_s", "expected"), [(7200, True), (300, False)])
def test_a_queue_with_long_waits_is_an_alert(
    tmp_path: Path, *, wait_s: int, expected: bool
) -> None:
    write_log(tmp_path / "sacct.txt", wait_s=wait_s)
    lines = (tmp_path / "sacct.txt").read_text().splitlines()
    of_eight = [line.replace("|gpu|", "|large|") if "gpu=8" in line else line for line in lines]
    (tmp_path / "sacct.txt").write_text("\n".join(of_eight))
    [finding] = [
        one
        for one in section_consumers.build([traceana.read(tmp_path / "sacct.txt")]).findings
        if "large wait longest" in one or "the median job waited" in one
    ][:1]
    said = "sacct: long waits in queue large: median wait 2 h, of all jobs 2 min"
    assert getattr(finding, "alert", "") == (said if expected else "")


def test_the_bad_node_is_named(page: str) -> None:
    assert "1 of 20 nodes fails more often than comparable jobs: n7 " in page


def test_nodes_may_be_those_of_instances(tmp_path: Path) -> None:
    # 1,900 jobs on 19 machines fail in 10 of 100; those on m7 in 60 of 100; 20 jobs ran on two
    rows = range(2000)
    jobs = pl.DataFrame({"job_id": [str(row) for row in rows], "gpus": 1.0, "runtime_s": 60.0})
    of_job = [row % 20 for row in rows]
    failed = [row // 20 < (60 if row % 20 == 7 else 10) for row in rows]
    jobs = jobs.with_columns(status=pl.Series(["failed" if one else "completed" for one in failed]))
    instances = jobs.select("job_id", machine_id=pl.format("m{}", pl.Series(of_job)))
    second = instances.head(20).with_columns(machine_id=pl.lit("m19"))
    store = tmp_path / "store"
    traceana.add_table(jobs, trace="mine", table="jobs", store=store)
    both = pl.concat([instances, second.filter(pl.col("job_id") != "19")])
    traceana.add_table(both, trace="mine", table="instances", store=store)
    options = {"out": tmp_path / "out", "only": "consumers,nodes", "formats": "md"}
    page = traceana.build_report(store, **options).read_text()  # type: ignore[arg-type]
    assert "1 of 20 nodes fails more often than comparable jobs: m7 6" in page
    assert "Of 2,000 completed and failed jobs 1,981 have a node." in page


def test_groups_arrays_and_reasons_have_tables(page: str) -> None:
    for what in ("user", "account", "end reason"):
        assert f"Resources, wait, failure, waste and efficiency by {what}" in page
    assert (
        "100 of 2,000 jobs belong to 50 job arrays; 5 jobs restarted at least once, 5 times in all."
        in page
    )


def test_names_cannot_control_a_terminal_or_break_a_figure(tmp_path: Path) -> None:
    write_log(tmp_path / "sacct.txt")
    text = (tmp_path / "sacct.txt").read_text()
    evils = {"u1": "\x1b[31m<script>alert(1)</script>", "gpu=8": "gpu:\x1b]0;\u202e\ufffe=8"}
    evils["u2"] = "y" * 300_000
    for name, evil in evils.items():
        text = text.replace(f"|{name}|", f"|{evil}|").replace(f"gres/{name}|", f"gres/{evil}|")
    (tmp_path / "sacct.txt").write_text(text)
    traceana.ingest(tmp_path / "sacct.txt", store=tmp_path / "store")
    traceana.build_report(tmp_path / "store", out=tmp_path / "out", only="consumers,outcomes")
    written = [path for path in (tmp_path / "out").rglob("*") if path.suffix in SHOWN]
    assert {path.suffix for path in written} == SHOWN
    for path in written:
        shown = path.read_text()
        assert not {"\x1b", "\u202e"} & {*shown}, path
        assert path.suffix == ".csv" or "y" * 20_000 not in shown, path
        assert path.suffix != ".html" or "<script>alert" not in shown
        if path.suffix == ".svg":
            ElementTree.fromstring(shown)  # noqa: S314


def test_names_with_lines_break_no_table_or_list_of_markdown(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": [f"j{i}" for i in range(60)]}).with_columns(
        submit_s=pl.int_range(60, 120).cast(pl.Float64),
        start_s=pl.lit(120.0),
        end_s=pl.lit(180.0),
        runtime_s=pl.lit(60.0),
        gpus=pl.lit(1.0),
        status=pl.lit("completed"),
        user=pl.Series(["eva", "x\n# y\n| z", "bob"] * 20),
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store")
    traceana.build_report(tmp_path / "store", out=tmp_path / "out", only="consumers")
    lines = (tmp_path / "out" / "index.md").read_text().splitlines()
    assert any(line.startswith("| x # y \\| z |") for line in lines)
    assert not [line for line in lines if line.startswith(("# y", "| z"))]


def test_a_result_of_a_million_characters_is_short_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_results(["user " + "y" * 1_000_000])
    shown = capsys.readouterr().out
    assert "(1,000,005" in shown
    assert len(shown) < 1000
