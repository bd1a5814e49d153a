"""Lines of Slurm's accounting records: counts, ends of blocks and quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingesters.conftest import Write
from tests.ingesters.test_sacct import one, read
from traceana.ingesters.readers.lines import Block
from traceana.ingesters.readers.sacct_lines import Layout


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
    ):
        assert layout._end(text.encode(), b"|") == len(whole)


@pytest.mark.parametrize("quoting", [False, True])
def test_quotes_of_a_log_are_text(quoting: bool) -> None:
    block = Block(b'1|"a|b\n2|c\n3|d|e\n', ("x", "y", "z"), 1, 1, "|", quoting=quoting)
    assert block.cells["y"].to_list() == (["d"] if quoting else ['"a', "d"])
    assert block.bad["line"].to_list() == ([1, 2] if quoting else [2])


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
