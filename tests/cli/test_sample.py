from __future__ import annotations

from pathlib import Path

from tests.cli.command import run_command


def test_it_says_what_it_wrote_and_what_comes_next(tmp_path: Path) -> None:
    to = tmp_path / "a place"
    done = run_command("sample", str(to), "--trace", "zeus-2023")
    assert done.returncode == 0, done.stderr
    assert "SYNTHETIC" in done.stdout
    (line,) = [ln for ln in done.stdout.splitlines() if "zeus-2023" in ln]
    rows = 3759 + 453 + 270 + 410 + 476 + 3000
    assert f"{rows:,}" in line
    assert done.stdout.splitlines()[-1] == f"next: traceana ingest '{to}'"
    assert [path.name for path in to.iterdir()] == ["zeus-2023"]
    ingested = run_command("ingest", str(to), "--store", str(tmp_path / "store"))
    assert "not recognized" not in ingested.stdout


def test_users_mistake_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    done = run_command("sample", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"traceana: {tmp_path} has notes.txt, which is no part of an earlier sample; "
        "name a new or empty folder\n"
    )
