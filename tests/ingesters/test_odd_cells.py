"""A cell that cannot be read costs itself; only a key or a time that is decisive costs its row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.ingesters.test_mapping import JOBS, ingest_text
from traceana.cli import app
from traceana.ingesters import ingest
from traceana.store import open_store

LOG = "id,gpu_count,n,t\na,4,2,100\nb,N/A,3,7\nc,-1,x,9\nd,two,1.5,soon\n,1,1,8\n"
MAPPED = '[jobs]\njob_id = "id"\nnodes = "n"\nsubmit_s = { time = "t", unit = "s" }\n'


@pytest.mark.parametrize(
    ("source", "gpus", "expected"),
    [
        ('null = ["N/A", "-1"]', "gpu_count", [4.0, None, None]),
        ('null = ["N/A", "-1.00"]', "gpu_count * 2", [8.0, None, None]),
        ('null = ["N/A", "-1"]', "COALESCE(gpu_count, 0)", [4.0, 0.0, 0.0]),
        ('type = "text", null = ["-1"]', "gpu_count", [4.0, None, None]),
        (
            'type = "text", null = ["-1"]',
            "CASE WHEN gpu_count = 'N/A' THEN 9 ELSE 1 END",
            [1.0, 9.0, 1.0],
        ),
        ('type = "number", null = ["-1"]', "gpu_count", [4.0, None, None]),
    ],
)
def test_words_for_null_of_a_numeric_column(
    tmp_path: Path, source: str, gpus: str, expected: list[float | None]
) -> None:
    mapping = f'{MAPPED}gpus = "{gpus}"\n[jobs.source]\ngpu_count = {{ {source} }}\n'
    store, ledger = ingest_text(tmp_path, LOG, mapping)
    jobs = store.scan("mine", "jobs").collect()
    assert jobs.select("job_id", "gpus", "nodes").rows() == [
        (name, number, nodes)
        for name, number, nodes in zip("abc", expected, [2, 3, None], strict=True)
    ]
    (entry,) = ledger.entries
    assert entry.rejected == {"job_id|nullability": 1, "t|not_a_number": 1}
    assert (entry.rows_read, entry.rows_kept, entry.nulled["n|not_a_number"]) == (5, 3, 1)


def test_an_expression_over_a_cell_that_is_not_read_is_null(tmp_path: Path) -> None:
    mapping = f'{MAPPED}gpus = "COALESCE(gpu_count, 0)"\ncpus = "gpu_count + n"\n'
    store, ledger = ingest_text(tmp_path, LOG.replace("-1", "1"), mapping)
    jobs = store.scan("mine", "jobs").select("gpus", "cpus").collect()
    assert jobs.rows() == [(4.0, 6.0), (None, None), (1.0, None)]
    assert sum(ledger.entries[0].nulled.values()) == 4
    assert open_store(store.path).ledger("mine").entries[0].nulled == ledger.entries[0].nulled


def test_one_line_names_a_column_of_which_most_cells_cannot_be_read(tmp_path: Path) -> None:
    rows = "".join(f"j{i},{'?' if i % 3 else 5}\n" for i in range(30))
    (tmp_path / "x.csv").write_text("id,g\n" + rows)
    (tmp_path / "m.toml").write_text(JOBS + 'gpus = "g"\n')
    files = [str(tmp_path / name) for name in ("x.csv", "m.toml", "store")]
    arguments = ["ingest", files[0], "--mapping", files[1], "--store", files[2]]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert "set to null: m/jobs: 20 cells by g|not_a_number" in done.stdout
    assert (
        "note: m/jobs: most cells of g cannot be read, so gpus is mostly null; check" in done.stdout
    )


@pytest.mark.parametrize("n_bad", [1, 20])
def test_few_cells_that_sacct_left_unreadable_are_not_most(tmp_path: Path, n_bad: int) -> None:
    rows = "".join(
        f"{i}|{'-1-22:47:43' if i < n_bad else '01:00:00'}|COMPLETED|2026-03-02T08:00:00|"
        "2026-03-02T08:00:00|2026-03-02T09:00:00\n"
        for i in range(30)
    )
    (tmp_path / "x.txt").write_text("JobID|Elapsed|State|Submit|Start|End\n" + rows)
    ledger = ingest(tmp_path / "x.txt", trace="m", store=tmp_path / "store")
    (entry,) = ledger.entries
    assert entry.nulled == {"Elapsed|not_a_duration": n_bad}
    assert bool(entry.mostly_nulled) == (n_bad == 20)


def test_rows_without_an_id_are_identified_by_their_numbers(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("g,t\n1,5\n1,5\n2,x\n1,5\n")
    mapping = '[jobs]\ngpus = "g"\nsubmit_s = "t"\n'
    ledger = ingest(tmp_path / "a.csv", mapping=mapping, trace="m", store=tmp_path / "one")
    jobs = open_store(tmp_path / "one").scan("m", "jobs").collect()
    assert jobs["job_id"].to_list() == ["1", "2", "4"]
    assert (ledger.entries[0].ids_are_rows, ledger.entries[0].rows_read) == (True, 4)
    names = [tmp_path / "a.csv", tmp_path / "b.csv"]
    (names[1]).write_text("g,t\n7,5\n")
    ledger = ingest(names, mapping=mapping, trace="m", store=tmp_path / "two")
    jobs = open_store(tmp_path / "two").scan("m", "jobs").collect()
    assert jobs["job_id"].to_list() == ["a.csv:1", "a.csv:2", "a.csv:4", "b.csv:1"]
    ingest(names[1], mapping=mapping, trace="m", store=tmp_path / "one")  # a later export
    jobs = open_store(tmp_path / "one").scan("m", "jobs").collect()
    assert jobs["job_id"].to_list() == ["1", "2", "4", "b.csv:1"]


def test_kept_columns_may_be_renamed(tmp_path: Path) -> None:
    mapping = '[trace]\nkeep = { node = "Host(s)", site = "site" }\n' + JOBS
    store, _ = ingest_text(tmp_path, "id,Host(s),site\na,n1,x\n", mapping)
    assert store.scan("mine", "jobs").select("node", "site").collect().rows() == [("n1", "x")]
    assert {"node", "site"} <= set(store.manifest("mine").tables["jobs"].columns)


def test_nodes_of_a_job_may_be_separated_or_abbreviated(tmp_path: Path) -> None:
    cells = ["n1;n2", "n1 n2", "n1, n2", "n[1-2]", "n1"]
    text = "id,host\n" + "".join(f'j{i},"{cell}"\n' for i, cell in enumerate(cells))
    store, _ = ingest_text(tmp_path, text, '[trace]\nkeep = ["host"]\n' + JOBS)
    hosts = store.scan("mine", "jobs").collect()["host"].to_list()
    assert hosts == ["n1,n2"] * 4 + ["n1"]


cells = st.sampled_from(["1", "2.5", "", "x", "N/A", "1e400", "0", " 3"])


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=9))
def test_every_row_is_kept_or_rejected_and_every_cell_read_or_counted(
    rows: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cells")
    text = (
        "id,g,n,t\n" + "".join(f"j{i},{','.join(row)}\n" for i, row in enumerate(rows)) + "z,,,\n"
    )
    mapping = JOBS + 'gpus = "g"\nnodes = "n"\nsubmit_s = "t"\n'
    store, ledger = ingest_text(folder, text, mapping)
    (entry,) = ledger.entries
    given_cells = {"": None, "1": 1.0, "2.5": 2.5, "0": 0.0}
    kept = [row for row in rows if row[2] in given_cells]
    assert entry.rows_read == len(rows) + 1 == entry.rows_kept + entry.rows_rejected
    assert entry.rows_kept == len(kept) + 1
    jobs = store.scan("mine", "jobs").select("gpus", "nodes").head(len(kept)).collect()
    gpus = [given_cells.get(row[0]) for row in kept]
    nodes = [given_cells.get(row[1]) for row in kept]
    assert jobs["gpus"].to_list() == gpus
    assert jobs["nodes"].to_list() == [one if one != 2.5 else None for one in nodes]
    given_values = sum(bool(cell) for row in kept for cell in row[:2])
    read = jobs.select(pl.all().count()).sum_horizontal().item()
    assert sum(entry.nulled.values()) == given_values - read
