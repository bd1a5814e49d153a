from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def run_fetch(*asked: str) -> subprocess.CompletedProcess[str]:
    run = "from traceana.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", run, "fetch", *asked], capture_output=True, text=True, check=False
    )


def test_published_files_are_fetched_from_a_folder(tmp_path: Path, real_data: Path) -> None:
    to = tmp_path / "a place"
    done = run_fetch("zeus-2023", "--mirror", str(real_data / "zeus-2023"), "--to", str(to))
    assert done.returncode == 0
    assert done.stdout == (f"the files of zeus-2023 are in {to}\nnext: traceana ingest '{to}'\n")
    published = {p.name: p.read_bytes() for p in (real_data / "zeus-2023").iterdir()}
    assert {p.name: p.read_bytes() for p in to.iterdir()} == published
    if "alibaba_groups.csv.xz" not in published:
        (note,) = [ln for ln in done.stderr.splitlines() if "alibaba_groups" in ln]
        assert "it is optional (table recurring_jobs)" in note


def test_users_mistake_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = run_fetch("zeus-2023", "--mirror", str(tmp_path / "nowhere"), "--to", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"traceana: mirror {tmp_path}/nowhere: no such folder; name the one that holds the files\n"
    )


def test_each_missing_file_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    done = run_fetch(
        "microsoft-itp-2021", "--mirror", str(tmp_path / "mirror"), "--to", str(tmp_path / "to")
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("traceana: microsoft-itp-2021: raw-traces.tar.gz is neither in ")
    assert list((tmp_path / "to").iterdir()) == []
