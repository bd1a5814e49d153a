"""The files on the how-to pages are ingested as they stand, with the result that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.ingesters import ingest
from traceana.store import Store

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
NAMES = ["slurm", "swf", "kubernetes", "step-times"]


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the name and text of each block that is announced by a comment."""
    return re.findall(
        r"<!-- ((?:file|mapping|result).*?) -->\n```\w+\n(.*?)```", page, flags=re.DOTALL
    )


def ingested(page: str, folder: Path) -> pl.DataFrame:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    files, mapping, result = [], None, ""
    for name, content in blocks(text):
        kind, _, file = name.partition(": ")
        if kind == "result":
            result = content.strip()
            continue
        (folder / file).write_text(content)
        files += [folder / file] if kind == "file" else []
        mapping = folder / file if kind == "mapping" else mapping
    ledger = ingest(files, mapping=mapping, store=folder / "data")
    assert str(ledger) == result
    (entry,) = ledger.entries
    return Store(folder / "data").scan(entry.trace, entry.table).collect()


@pytest.mark.parametrize("page", NAMES)
def test_the_page_s_file_gives_the_page_s_result(page: str, tmp_path: Path) -> None:
    assert ingested(page, tmp_path).height


def test_slurm_table(tmp_path: Path) -> None:
    jobs = ingested("slurm", tmp_path)
    page = (PAGES / "slurm.md").read_text()
    rows = re.findall(r"^\| (\d\w*) \| (.*) \|$", page, flags=re.MULTILINE)
    names = [
        "job_name",
        "status",
        "end_reason",
        "gpus",
        "gpu_type",
        "memory_gib",
        "memory_gib_used",
    ]
    for row, (job, cells) in zip(jobs.iter_rows(named=True), rows, strict=True):
        shown = [f"{v:g}" if isinstance(v, float) else v or "" for v in map(row.get, names)]
        told = [cell.strip() for cell in re.split(r"(?<!\\)\|", cells.replace("| |", "|  |"))]
        assert [job, *(cell.replace("\\|", "|") for cell in told)] == [row["job_id"], *shown]


def test_kubernetes_row(tmp_path: Path) -> None:
    row = ingested("kubernetes", tmp_path).row(0, named=True)
    assert row["gpus"] == pytest.approx(2 / 7)
    assert (row["group"], row["end_reason"], row["runtime_s"]) == ("nlp/bert", "OOMKilled", 600)


def test_step_times_reach_the_stragglers(tmp_path: Path) -> None:
    samples = ingested("step-times", tmp_path)
    assert samples["batch_time"].to_list() == [0.5, 0.9, 0.5, 0.92]
    assert samples["step_s"].to_list() == [1.0, 1.0, 1.02, 1.02]
    jobs = traceana.detect_stragglers(samples, time="step").jobs
    assert jobs.height == 1
