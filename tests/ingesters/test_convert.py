"""A block parsed at once and the same block read line by line give the same rows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.generator.pai import COLUMNS
from traceana.catalog.model import get_trace
from traceana.ingesters.build import Converted, convert
from traceana.ingesters.compiled import Source, compile_mapping
from traceana.ingesters.mapping import parse_mapping
from traceana.ingesters.readers.csv import Block, frame_block
from traceana.ingesters.readers.reader import LINE, Rows
from traceana.schema import get_table

TASKS = list(COLUMNS["pai_task_table"])
MAPPING = parse_mapping(get_trace("alibaba-pai-2020").text, where="pai")
SOURCE = Source(None, Rows(tuple(TASKS), lambda _: iter(())))
COMPILED = compile_mapping(SOURCE, MAPPING, "tasks")

words = st.sampled_from(["Terminated", "Failed", "Waiting", "", "Lost", "unknown"])
names = st.sampled_from(["j1", "", "a b", " j", "é", "jé j", "j\t", "-", "~", "\x7f"])
written = "0 0.0 0.00 -0 1 1.0 2.5 +1 1e3 1E+2 .5 5. -1 nan NaN inf -inf 1e999 1e19 x 1_0 0x1 --1"
numbers = st.sampled_from(
    [*written.split(), "", " 1", "1 ", "\t1", "1\t", "1\x00", "\u0661", "1\r"]
)
good = st.sampled_from(
    [
        "j1,worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0,T4",
        "j2,ps,1,Failed,0,,600.0,29.0,,CPU",
        "j3,worker,,Running,5,5,,,100,",
    ]
)
cells = st.tuples(names, names, numbers, words, numbers, numbers, numbers, numbers, numbers, names)
odd = st.sampled_from(
    [
        "",
        "j1,worker,3.0",
        "j1,worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0",
        "j1,worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0,T4,T4",
        "j1,worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0,T4,",
        '"j1",worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0,T4',
        '"j,1",worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0',
        'j1,worker,3.0,Terminated,10.0,20.0,600.0,29.0,50.0,"T4',
        "j1,worker,3.0,Terminated,20.0,10.0,600.0,29.0,50.0,T4",
    ]
)
lines = st.one_of(
    good.map(str.encode),
    good.map(str.encode),
    odd.map(str.encode),
    cells.map(",".join).map(str.encode),
    st.just(b"j\xc3,\xa9,1,Failed,1,2,,,,"),
)


def block_of(content: list[bytes]) -> Block:
    data = b"".join(line + b"\n" for line in content).replace(b"\r\n", b"\n")
    return Block(data, tuple(TASKS), first_line=7, header_lines=0)


def converted(block: Block) -> Converted:
    return convert(frame_block(block, COMPILED.kinds), COMPILED)


@settings(max_examples=30, deadline=None)
@given(content=st.lists(lines, min_size=1, max_size=6))
@example(content=[b"j1,worker,3.0", b"j1,w,3,Failed,1,2,6,2,5,T4,a,b,c,d,e,f,g"])
@example(content=[b"j1,w,nan,Failed,1,2,6,2,5,T4"])
@example(content=[b"j1,w,1e19,Failed,1,2,6,2,5,T4"])
@example(content=[b"j1,w,3,Failed,1,2,6,2,5,T4,", b"j1,w,3,Failed,1,2,6,2,5"])
def test_parsed_at_once_or_line_by_line(content: list[bytes]) -> None:
    block = block_of(content)
    at_once = converted(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Block, "at_once", lambda *_: None)
        by_line = converted(block_of(content))
    assert_frame_equal(at_once.kept, by_line.kept)
    assert_frame_equal(at_once.rejected, by_line.rejected)
    assert at_once.unknown_words == by_line.unknown_words
    told = [*at_once.kept[LINE], *at_once.rejected["line"]]
    assert sorted(told) == list(range(7, 7 + len(content)))
    _, failure = get_table("tasks").filter(at_once.kept.select(pl.exclude(LINE)))
    assert set(failure.counts()) <= {"primary_key"}


@settings(max_examples=20, deadline=None)
@given(content=st.lists(good.map(str.encode), min_size=1, max_size=9))
def test_rows_without_fault_are_parsed_at_once(content: list[bytes]) -> None:
    block = block_of(content)
    assert block.at_once() is not None
    assert converted(block).kept.height == block.lines == len(content)


def test_an_end_before_its_start_is_missing_and_the_outcome_stays() -> None:
    line = "j,worker,1.0,{status},{start},{end},600.0,10.0,100.0,T4"
    ends = [("Terminated", 100.0, 50.0), ("Failed", "", 50.0), ("Terminated", 100.0, 150.0)]
    text = [line.format(status=status, start=start, end=end) for status, start, end in ends]
    rows = converted(block_of([one.encode() for one in text])).kept
    assert rows["status"].to_list() == ["completed", "failed", "completed"]
    assert rows["end_s"].to_list() == [None, 50.0, 150.0]


def test_unknown_values_are_counted_by_their_first_word() -> None:
    line = "j,worker,1.0,{status},1,2,600.0,10.0,100.0,T4"
    words = ["Odd", "Odd one", "Odd two", "x" * 100, "x" * 101, "x" * 150 + " y", "Running"]
    found = converted(block_of([line.format(status=word).encode() for word in words]))
    assert found.kept["status"].to_list() == ["unknown"] * 6 + ["running"]
    (counts,) = found.unknown_words.values()
    assert counts == {"Odd": 1, "Odd ...": 2, "x" * 100: 2, "x" * 100 + " ...": 1}


@pytest.mark.parametrize(
    ("number", "rule"),
    [
        ("1000000000000000", None),
        ("1000000000000001", "inst_num"),
        ("9223372036854775808", "inst_num"),
        ("1.5", "inst_num"),
        ("-1", "inst_num"),
        ("1e3", None),
        ("1_0", "inst_num"),
    ],
)
def test_whole_numbers_fit_into_64_bits(number: str, rule: str | None) -> None:
    found = converted(block_of([f"j,worker,{number},Failed,1,2,600.0,10.0,100.0,T4".encode()]))
    if rule is None:
        assert found.kept["instances"].item() == int(float(number))
    elif number in ("-1", "1000000000000001"):
        assert found.rejected["rule"].str.starts_with("instances|m").to_list() == [True]
    else:
        assert found.kept["instances"].item() is None
        assert sum(found.nulled.values()) == 1


def test_a_replacement_character_of_the_file_is_text_beside_a_bad_line() -> None:
    row = "j1,\ufffd,3.0,Terminated,10.0,20.0,600.0,29.0,50.0,T4"
    found = converted(block_of([row.encode(), b"short"]))
    assert found.kept["task_name"].to_list() == ["\ufffd"]
    assert found.rejected["rule"].to_list() == ["short_row"]
    found = converted(block_of([row.encode(), b"j1,\xff" + row[4:].encode()]))
    assert found.rejected["rule"].to_list() == ["task_name|not_utf8"] * 2
