"""A cell in quotes may have line ends, wherever a file is cut into blocks."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingesters.test_mapping import ingest_text
from traceana.ingesters import files
from traceana.ingesters.readers import csv as lines

MAPPING = '[trace]\nkeep = ["note"]\n[jobs]\njob_id = "id"\ngpus = "g"\n'
cells = st.text(st.sampled_from('ab \n",;1'), max_size=6).filter(lambda one: one == one.strip())


@settings(max_examples=30, deadline=None)
@given(
    notes=st.lists(cells, min_size=1, max_size=12),
    block=st.sampled_from([1, 7, 40, 1 << 24]),
    part=st.sampled_from([3, 9, 1 << 20]),
)
def test_rows_are_those_of_the_csv_module(
    notes: list[str], block: int, part: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([["id", "note", "g"], *([f"j{n}", note, n] for n, note in enumerate(notes))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", block)
        patch.setattr(lines, "_CELLS_A_PART", part)
        store, ledger = ingest_text(tmp_path_factory.mktemp("x"), text.getvalue(), MAPPING)
    jobs = store.scan("mine", "jobs").collect()
    assert jobs.select("job_id", "gpus", "note").rows() == [
        (f"j{n}", n, note or None) for n, note in enumerate(notes)
    ]
    (entry,) = ledger.entries
    assert entry.rows_read == entry.rows_kept == len(notes)


def test_a_quote_that_is_not_closed_costs_its_line(tmp_path: Path) -> None:
    text = 'id,note,g\na,"open,1\nb,fine,2\nc,"two\nlines",3\nd,5" disk,4\ne,"x"y,5\n'
    store, ledger = ingest_text(tmp_path, text, MAPPING)
    jobs = store.scan("mine", "jobs").select("job_id", "note").collect()
    assert jobs.rows() == [("b", "fine"), ("c", "two\nlines"), ("d", '5" disk')]
    rejected = store.scan_rejected("mine", "jobs").select("line", "rule").collect().rows()
    assert rejected == [(2, "unbalanced_quote"), (7, "unbalanced_quote")]
    assert ledger.entries[0].rows_read == 5
