"""Lines of Slurm's accounting records: counts, ends of blocks and quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingesters.conftest import Write
from tests.ingesters.test_sacct import one, read
from traceana.errors import SourceError
from traceana.ingesters.readers import sacct_lines
from traceana.ingesters.readers.csv import Block
from traceana.ingesters.readers.sacct_lines import Layout
from traceana.store import Store


@pytest.mark.parametrize(
    ("fields", "cpus", "nodes"),
    [
        ({"ReqCPUS": "1", "NNodes": "1"}, 1, 1),
        ({"ReqCPUS": "0", "NNodes": "0"}, 8, 2),  # of AllocTRES
        ({"ReqCPUS": "0", "ReqTRES": "cpu=3"}, 3, 2),
    ],
)
def test_a_count_of_0_is_none_and_of_1_is_one(
    write: Write, tmp_path: Path, fields: dict[str, str], cpus: float, nodes: int
) -> None:
    job = one(write, tmp_path, **fields)
    assert (job["cpus"], job["nodes"]) == (cpus, nodes)


def test_a_block_ends_with_its_last_whole_record() -> None:
    layout = Layout("|", ("JobID", "JobName", "State"))
    for text, whole in (
        ("1|a|COMPLETED\n2|b|FAILED\n", "1|a|COMPLETED\n2|b|FAILED\n"),
        ("1|a|COMPLETED\n2|b\n", "1|a|COMPLETED\n"),  # a name of two lines goes on
        ("1|a|COMPLETED\n2|b\nc\n", "1|a|COMPLETED\n"),
        ("1|a|COMPLETED\n\n", "1|a|COMPLETED\n"),
    ):
        assert layout._end(text.encode(), b"|") == len(whole)


@pytest.mark.parametrize("quoting", [False, True])
def test_quotes_of_a_log_are_text(quoting: bool) -> None:
    block = Block(b'1|"a|b\n2|c\n3|d|e\n', ("x", "y", "z"), 1, 1, "|", quoting=quoting)
    assert block.read()[0]["y"].to_list() == (["d"] if quoting else ['"a', "d"])
    assert block.read()[1]["line"].to_list() == ([1, 2] if quoting else [2])


def test_a_line_that_is_cut_takes_nothing_of_the_next_record(write: Write, tmp_path: Path) -> None:
    lines = ["JobID|JobName|State|Comment", "1|cut", "2|a|b|COMPLETED|c|d"]
    for place in range(2):  # at the end of the file, and before another record
        folder = write("log.txt", "\n".join([*lines, *["3|e|f|FAILED|g|h"] * place]) + "\n")
        jobs, ledger = read(folder, tmp_path / str(place))
        assert jobs["job_name"].to_list() == ["a|b", "e|f"][: place + 1]
        assert ledger.entries[0].rejected == {"short_row": 1}


def test_resources_behind_an_empty_field_are_joined(write: Write, tmp_path: Path) -> None:
    text = (
        "JobID,QOS,AllocTRES,State\n1,,cpu=8,mem=1G,FAILED\n2,q,cpu=8,mem=2G,FAILED\n3,,,FAILED\n"
    )
    jobs, ledger = read(write("log.txt", text), tmp_path)
    assert ledger.entries[0].rejected == {}
    found = jobs.select("job_id", "qos", "cpus", "memory_gib").rows()
    assert found == [("1", None, 8, 1), ("2", "q", 8, 2), ("3", None, None, None)]


def test_neighboring_resources_are_told_apart_by_their_names(write: Write, tmp_path: Path) -> None:
    text = (
        "JobID,User,ReqTRES,AllocTRES,State,JobName\n"
        "1,anna,cpu=8,gres/gpu=8,cpu=6,gres/gpu=4,FAILED,plain\n"
        "2,anna,cpu=8,gres/gpu=8,cpu=6,gres/gpu=4,FAILED,a,a\n"
    )
    jobs, ledger = read(write("log.txt", text), tmp_path)
    assert ledger.entries[0].rejected == {}
    assert jobs["job_name"].to_list() == ["plain", "a,a"]
    assert jobs["gpus"].to_list() == [4, 4]


@pytest.mark.parametrize("between", [0, 1, 2])
def test_lines_with_others_between_are_no_record(
    write: Write, tmp_path: Path, between: int
) -> None:
    whole = ["7|whole|FAILED|x"] * between
    lines = ["JobID|JobName|State|Comment", "1|first", *whole, "second|FAILED|x"]
    jobs, ledger = read(write("log.txt", "\n".join([*lines, "8|w|FAILED|x"]) + "\n"), tmp_path)
    names = ["w", "whole"] if between else ["first\nsecond", "w"]
    assert sorted(jobs["job_name"]) == names
    assert ledger.entries[0].rejected.get("short_row", 0) == (2 if between else 0)


def test_a_line_may_end_before_the_id(write: Write, tmp_path: Path) -> None:
    text = "State|User|JobID\nFAILED|a\nFAILED\nFAILED|b|7\n"
    jobs, ledger = read(write("log.txt", text), tmp_path)
    assert jobs.select("job_id", "user").rows() == [("7", "b")]
    assert ledger.entries[0].rejected == {"short_row": 2}


@pytest.mark.parametrize("separator", ["|", "~~"])
def test_lines_of_several_blocks_keep_their_numbers(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    monkeypatch.setattr(sacct_lines, "_BLOCK", 32)
    lines = ["JobID|User|State", *(f"{n}|u{n}|FAILED" for n in range(2, 12)), "x|y|z"]
    lines[5] = "5|cut"
    folder = write("log.txt", "\n".join(lines).replace("|", separator) + "\n")
    jobs, ledger = read(folder, tmp_path)
    assert jobs["user"].to_list() == [f"u{n}" for n in range(2, 12) if n != 6]
    assert ledger.entries[0].rejected == {"short_row": 1, "JobID|not_a_job_id": 1}
    rejected = Store(tmp_path / "store").scan_rejected("log", "jobs").collect()
    assert rejected["line"].to_list() == [6, 12]


def test_line_ends_in_two_fields_are_joined(write: Write, tmp_path: Path) -> None:
    text = "JobID|JobName|WorkDir|State\n1|a\nb|p\nq|FAILED\n2|c|d|FAILED\n"
    jobs, ledger = read(write("log.txt", text), tmp_path)
    assert ledger.entries[0].rejected == {}
    assert jobs.select("job_id", "job_name").rows() == [("1", "a\nb"), ("2", "c")]


@pytest.mark.parametrize("blank", ["\n", " \n\r\n"])
def test_blank_lines_before_the_header_are_no_rows(
    write: Write, tmp_path: Path, blank: str
) -> None:
    text = blank + "JobID|JobName|State\n1|a|FAILED\nx|b|FAILED\n"
    jobs, ledger = read(write("log.txt", text), tmp_path)
    assert jobs["job_name"].to_list() == ["a"]
    assert ledger.entries[0].rows_read == 2
    rejected = Store(tmp_path / "store").scan_rejected("log", "jobs").collect()
    assert rejected.select("line", "row").rows() == [(2 + blank.count("\n") + 1, 2)]


def test_a_table_with_times_of_other_names_is_no_log_of_sacct(write: Write, tmp_path: Path) -> None:
    header = "JobID,User,Partition,State,GPUs,Submit Time,End Time"
    folder = write("log.txt", f"{header}\n1,eva,short,COMPLETED,8,2026-01-01,2026-01-02\n")
    with pytest.raises(SourceError, match="traceana map"):
        read(folder, tmp_path / "store")
