"""To which trace a file belongs, and which files are named in messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingesters.conftest import itp_csv
from traceana.ingesters import ingest
from traceana.ingesters.discover import discover, known_names
from traceana.ingesters.files import list_csvs


def test_one_file_of_each_kind_is_named() -> None:
    names = known_names().split(", ")
    assert {"trace_seren.csv", "coefficient_variation.csv", "job_1_norm.csv"} < {*names}
    assert "job_2_norm.csv" not in names
    assert names.count("cluster_job_log") == 1


@pytest.mark.parametrize(("folder", "trace"), [("itp", "microsoft-itp-2021"), ("other", None)])
def test_a_broken_file_belongs_to_the_trace_of_its_folder(
    tmp_path: Path, folder: str, trace: str | None
) -> None:
    """Two traces have files of this name."""
    for name in ("itp", folder):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "itp" / "cluster01.csv").write_bytes(itp_csv(1))
    (tmp_path / folder / "cluster02.csv").write_text("a,b\n1,2\n")
    ((found, reason),) = discover([tmp_path], trace=None, leave_out=()).failures
    assert found == trace
    assert "its columns are not the published ones" in reason


def test_other_files_of_a_folder_are_only_named(tmp_path: Path) -> None:
    (tmp_path / "cluster01.csv").write_bytes(itp_csv(1))
    (tmp_path / "cluster_job_log").write_text("no JSON\n")
    (tmp_path / "notes").write_text("x\n")
    (tmp_path / "notes.json5").write_text("x\n")
    found = discover([tmp_path], trace=None, leave_out=())
    assert found.not_recognized == ["notes", "notes.json5"]


@pytest.mark.parametrize(
    ("second", "files"), [("a,1\n", ["a/x.csv"]), ("b,2\n", ["a/x.csv", "b/x.csv"])]
)
def test_two_files_of_one_name_are_read_once_or_called_by_their_folders(
    tmp_path: Path, second: str, files: list[str]
) -> None:
    for folder, row in (("a", "a,1\n"), ("b", second)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(f"id,g\n{row}")
    mapping = '[jobs]\njob_id = "id"\ngpus = "g"\n'
    ledger = ingest(tmp_path, mapping=mapping, trace="m", store=tmp_path / "store")
    (entry,) = ledger.entries
    assert entry.rows_kept == len(files)
    assert len(ledger.left_out) == 2 - len(files)
    assert [one.file for one in entry.files] == files


def test_links_that_are_not_followed_are_named(tmp_path: Path) -> None:
    folder, other = tmp_path / "logs", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "a.csv").write_text("id\n1\n")
    (folder / "b.csv").symlink_to("a.csv")
    (folder / "c.csv").symlink_to("gone.csv")
    (folder / "d").symlink_to(other)
    (folder / "own").symlink_to(folder)
    listing = list_csvs(folder)
    assert [csv.name for csv in listing.csvs] == ["a.csv", "b.csv"]
    assert listing.others == [
        "c.csv (a link to nothing: fetch its file)",
        "d (a link to a folder: name that folder too)",
        "own (a link to a folder: name that folder too)",
    ]
