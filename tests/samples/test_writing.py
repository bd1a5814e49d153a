"""What is promised of every sample: marked, the same bytes, and never among other files."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import tests.generator as sample_package
import traceana
from tests.generator import write_sample
from tests.samples.published import contents
from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from pathlib import Path

TRACES = {
    "alibaba-minibatch-2020",
    "alibaba-openb-2023",
    "alibaba-pai-2020",
    "bytedance-stragglers-2025",
    "elasticflow-2023",
    "microsoft-itp-2021",
    "zeus-2023",
}


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_same_arguments_give_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    assert files(write_sample(tmp_path / "again")) == files(sample)


@pytest.mark.parametrize("trace", sorted(TRACES))
def test_a_trace_alone_has_the_bytes_it_has_among_all(
    trace: str, sample: Path, tmp_path: Path
) -> None:
    alone = files(write_sample(tmp_path, traces=[trace]))
    assert alone == {name: b for name, b in files(sample).items() if name.startswith(trace)}


def test_another_seed_gives_other_content_in_every_table(sample: Path, tmp_path: Path) -> None:
    write_sample(tmp_path, seed=2)
    for trace in TRACES:
        ours, other = contents(sample / trace), contents(tmp_path / trace)
        assert set(ours) == set(other)
        assert not [name for name in ours if ours[name] == other[name]]


def test_every_file_is_marked(sample: Path) -> None:
    assert {p.name for p in sample.iterdir()} == TRACES
    for name in files(sample):
        trace, file = name.split("/")
        assert file.startswith("SYNTHETIC")
        marker = json.loads((sample / trace / "SYNTHETIC.json").read_text())
        assert marker["synthetic"] is True
        assert marker["seed"] == 1
        assert marker["scale"] > 0
        assert marker["traceana"] == traceana.__version__
        assert marker["trace"] == trace


def test_marker_counts_the_rows(sample: Path) -> None:
    for trace in TRACES:
        marker = json.loads((sample / trace / "SYNTHETIC.json").read_text())
        header = 0 if trace == "alibaba-pai-2020" else 1
        lines = {
            name: len(content.splitlines()) - header
            for name, content in contents(sample / trace).items()
        }
        counted = {
            name.removeprefix("SYNTHETIC-").removesuffix(".xz"): n
            for name, n in marker["rows"].items()
        }
        assert counted == lines


def test_the_smallest_scale_still_has_rows_of_everything(tmp_path: Path) -> None:
    write_sample(tmp_path, scale=1e-9)
    found = {trace: contents(tmp_path / trace) for trace in TRACES}
    lines = [len(content.splitlines()) for csvs in found.values() for content in csvs.values()]
    assert min(lines) >= 4
    assert len(found["microsoft-itp-2021"]) == 10
    assert len(found["elasticflow-2023"]) == 11
    assert len(found["alibaba-pai-2020"]) == 7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"scale": 0}, "scale is 0"),
        ({"scale": -1}, "scale is -1"),
        ({"scale": 101}, "at most 100"),
        ({"scale": float("nan")}, "scale is nan"),
        ({"seed": -1}, "seed is -1"),
        (
            {"traces": "zeus"},
            r"no trace is called 'zeus' \(did you mean zeus-2023\?\); the traces are alibaba",
        ),
    ],
)
def test_an_argument_out_of_range_is_one_line(
    arguments: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceanaError, match=says) as error:
        write_sample(tmp_path / "to", **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    assert not (tmp_path / "to").exists()


def test_it_is_not_written_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("dear to somebody")
    with pytest.raises(TraceanaError, match=r"holds thesis\.tex, which is no part"):
        write_sample(tmp_path)
    assert files(tmp_path) == {"thesis.tex": b"dear to somebody"}


def test_it_is_not_written_over_a_trace_that_is_no_sample(tmp_path: Path) -> None:
    (tmp_path / "zeus-2023").mkdir()
    (tmp_path / "zeus-2023" / "summary_train.csv").write_text("observed")
    with pytest.raises(TraceanaError, match="holds zeus-2023"):
        write_sample(tmp_path, traces="microsoft-itp-2021")
    assert len(files(tmp_path)) == 1


def test_a_file_in_the_folders_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sample").write_text("")
    with pytest.raises(TraceanaError, match="is a file"):
        write_sample(tmp_path / "sample")
    with pytest.raises(TraceanaError, match=r"cannot be written to .*: Not a directory"):
        write_sample(tmp_path / "sample" / "below")


def test_a_full_disk_is_one_short_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise shutil.Error(
            [("/from/a.csv", "/to/a.csv", "[Errno 28] No space left on device")] * 99
        )

    monkeypatch.setattr(shutil, "copytree", fail)
    with pytest.raises(TraceanaError, match=r"cannot be written to .*; is the disk full\?$"):
        traceana.write_sample(tmp_path / "sample")


def test_an_earlier_sample_is_replaced(tmp_path: Path) -> None:
    first = files(write_sample(tmp_path, seed=5, traces="microsoft-itp-2021"))
    assert files(write_sample(tmp_path, seed=6, traces="microsoft-itp-2021")) != first
    assert files(write_sample(tmp_path, seed=5, traces="microsoft-itp-2021")) == first


def test_a_writer_that_fails_leaves_the_earlier_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(write_sample(tmp_path, traces="zeus-2023"))

    def fail(folder: Path, **_: object) -> dict[str, int]:
        (folder / "SYNTHETIC-summary_train.csv").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(sample_package.write._WRITERS, "zeus-2023", fail)
    with pytest.raises(TraceanaError, match="No space left on device"):
        write_sample(tmp_path, seed=2, traces="zeus-2023")
    assert files(tmp_path) == before


def test_what_a_killed_run_left_is_cleaned_up(tmp_path: Path) -> None:
    left = tmp_path / ".alibaba-pai-2020.partial"
    left.mkdir()
    (left / "SYNTHETIC-pai_job_table.csv").write_text("half a ro")
    (tmp_path / "microsoft-itp-2021").mkdir()
    write_sample(tmp_path, traces="microsoft-itp-2021")
    assert {p.name for p in tmp_path.iterdir()} == {"microsoft-itp-2021"}
