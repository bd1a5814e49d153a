from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.command import run_command


def test_published_files_are_fetched_from_a_folder(tmp_path: Path, real_data: Path) -> None:
    to = tmp_path / "a place"
    # a process of its own, in which warnings of the log are lines on standard error
    command = [sys.executable, "-m", "traceana", "fetch", "zeus-2023", "--to", str(to)]
    done = subprocess.run(
        [*command, "--mirror", str(real_data / "zeus-2023")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == (f"the files of zeus-2023 are in {to}\nnext: traceana ingest '{to}'\n")
    published = {p.name: p.read_bytes() for p in (real_data / "zeus-2023").iterdir()}
    assert {p.name: p.read_bytes() for p in to.iterdir()} == published
    if "alibaba_groups.csv.xz" not in published:
        (note,) = [ln for ln in done.stderr.splitlines() if "alibaba_groups" in ln]
        assert "it is optional (table recurring_jobs)" in note


def test_users_mistake_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = run_command(
        "fetch", "zeus-2023", "--mirror", str(tmp_path / "nowhere"), "--to", str(tmp_path)
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"traceana: mirror {tmp_path}/nowhere: no such folder; name the one that holds the files\n"
    )


def test_each_missing_file_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    done = run_command(
        "fetch",
        "microsoft-itp-2021",
        "--mirror",
        str(tmp_path / "mirror"),
        "--to",
        str(tmp_path / "to"),
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("traceana: microsoft-itp-2021: raw-traces.tar.gz is neither in ")
    assert list((tmp_path / "to").iterdir()) == []
