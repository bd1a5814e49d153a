"""A file that is not the published one is told among the findings."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from tests.report.reader import read_page, section
from traceana.ingesters import ingest
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_that_is_not_as_published_is_told_first(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "job_1_norm.csv").write_text(
        ",worker,gpu,time,batch_time_norm\n"
        + "".join(f"{i},{i % 2},25,{10 * (i // 2) + 1},{100 + i}\n" for i in range(40))
    )
    ingest(tmp_path / "files", store=tmp_path / "store")
    page = build_report(tmp_path / "store", out=tmp_path / "out").read_text(encoding="utf-8")
    _, told = [
        item.text for item in section(read_page(page), "data-quality").all("ul")[0].all("li")
    ]
    assert told.startswith(
        "These files of PAI workers differ from the published ones, and so may all its numbers: "
        "job_1_norm.csv."
    )


def test_cells_that_were_set_to_null_and_ids_from_row_numbers_are_stated(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("g,t\n" + "".join(f"{i % 2 or '?'},{i}\n" for i in range(9)))
    mapping = '[jobs]\ngpus = "g"\nsubmit_s = "t"\n'
    ledger = ingest(tmp_path / "x.csv", mapping=mapping, trace="m", store=tmp_path / "store")
    assert "set to null: m/jobs: 5 cells by g|not_a_number" in str(ledger)
    page = build_report(tmp_path / "store", out=tmp_path / "out").read_text(encoding="utf-8")
    _, *told = [
        item.text for item in section(read_page(page), "data-quality").all("ul")[0].all("li")
    ]
    assert told == [
        "Cells that could not be read are missing values: 5 cells by g|not_a_number in jobs (m).",
        "No column identifies the rows, so the row number is the id: jobs (m).",
    ]


def test_jobs_that_are_twice_in_the_log_under_another_id_are_counted(tmp_path: Path) -> None:
    jobs = [(f"{i}", "ann", 60 * i, 60 * i + 5, 60 * i + 3605, 2) for i in range(200)]
    again = [(f"b-{one}", *rest) for one, *rest in jobs[:20]]
    for name, rows, stated in (("once", jobs, 0), ("twice", jobs + again, 1)):
        lines = [",".join(map(str, row)) for row in [("id", "u", "s", "b", "e", "g"), *rows]]
        (tmp_path / "x.csv").write_text("\n".join(lines))
        columns = {"job_id": "id", "user": "u", "submit_s": "s", "start_s": "b", "end_s": "e"}
        columns["gpus"] = "g"
        mapping = "[jobs]\n" + "\n".join(f'{one} = "{two}"' for one, two in columns.items())
        store = tmp_path / name
        ingest(tmp_path / "x.csv", mapping=mapping, trace="m", store=store)
        page = build_report(store, out=tmp_path / "out", only="data-quality").read_text()
        told = "20 jobs equal another one in all but the id (40 GPU-hours)"
        assert (told in page) == bool(stated)


@pytest.mark.parametrize(("astray", "n"), [(None, 0), ("9999-12-31", 1), ("1970-01-01", 1)])
def test_a_time_far_from_all_others_is_an_alert(tmp_path: Path, astray: str | None, n: int) -> None:
    begin = 1_767_225_600.0  # 2026-01-01
    start = begin + 86_400.0 * np.random.default_rng(1).uniform(0, 40, 300)
    end = start + 3600
    if astray:
        time_s = datetime.fromisoformat(f"{astray}T00:00:00+00:00").timestamp()
        (end if time_s > begin else start)[7] = time_s
    jobs = pl.DataFrame({"start_s": start, "end_s": end, "gpus": 1.0, "user": "ann"})
    page = build_report({"jobs": jobs}, out=tmp_path, formats="md", only="data-quality,trends")
    head = page.read_text(encoding="utf-8").split("## Trends")[0]
    assert head.count("1 job with a time far from those of all others") == n
    assert head.count("whose period is 39.") == n  # of 40 days, without the first and last jobs
