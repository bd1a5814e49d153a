"""The how-to page's own files, ingested as they stand."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from traceana.ingesters import ingest
from traceana.store import open_store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "map-your-own-file.md"


def test_the_page_maps_a_file(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    csv, mapping, *_ = re.findall(r"```\w+\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "march.csv").write_text(csv)
    (tmp_path / "mycluster.toml").write_text(mapping)
    ledger = ingest(
        tmp_path / "march.csv", mapping=tmp_path / "mycluster.toml", store=tmp_path / "data"
    )
    store = open_store(tmp_path / "data")
    jobs = store.scan("mycluster", "jobs").collect()
    assert jobs["job_id"].to_list() == ["1001", "1002", "1003", "1004"]
    assert jobs["status"].to_list() == ["completed", "cancelled", "failed", "unknown"]
    assert jobs["runtime_s"].to_list() == [3600.0, 0.0, 93600.0, 600.0]
    assert jobs["memory_gib"].to_list() == [32.0, 16.0, 64.0, 32.0]
    assert jobs["project"].to_list() == ["vision", "speech", "vision", "vision"]
    berlin = ZoneInfo("Europe/Berlin")
    submitted = datetime(2026, 3, 29, 1, 59, tzinfo=berlin).timestamp()
    assert jobs["submit_s"][2] == submitted
    assert jobs["start_s"][2] == submitted + 120  # 03:01, as clocks went from 02:00 to 03:00
    assert jobs["gpus"].to_list() == [4, 2, 8, None]
    assert ledger.entries[0].nulled == {"gpu_count|not_a_number": 1}
    manifest = store.manifest("mycluster")
    assert (manifest.title, manifest.timezone) == ("Our cluster, March 2026", "Europe/Berlin")
    assert manifest.absolute_times
