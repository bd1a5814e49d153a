from __future__ import annotations

import csv
import hashlib
import io
import re
import tarfile
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from traceana.catalog import load_catalog
from traceana.catalog.model import get_trace
from traceana.errors import CatalogError
from traceana.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traceana.catalog.model import CatalogEntry

# which trace has which tables is part of the public contract
TABLES_OF = {
    "alibaba-minibatch-2020": {"worker_samples", "cov_samples"},
    "alibaba-openb-2023": {"jobs", "machines"},
    "alibaba-pai-2020": {
        "jobs",
        "tasks",
        "instances",
        "instance_usage",
        "job_tags",
        "machines",
        "machine_usage",
    },
    "elasticflow-2023": {"jobs", "training_plans"},
    "elasticflow-philly-2023": {"jobs", "training_plans"},
    "microsoft-itp-2021": {"jobs"},
    "acme-2023": {"jobs"},
    "alibaba-dlrm-2025": {"jobs"},
    "alibaba-spot-2026": {"jobs", "machines"},
    "bytedance-stragglers-2025": {"operations", "worker_samples"},
    "helios-2020": {"jobs"},
    "infinitehbd-2025": {"faults"},
    "philly-2017": {"jobs", "tasks", "machines"},
    "zeus-2023": {"training_runs", "power_profiles", "recurring_jobs"},
}
every_trace = pytest.mark.parametrize("trace", load_catalog().values(), ids=lambda trace: trace.id)
every_tried_trace = pytest.mark.parametrize(
    "trace", [one for one in load_catalog().values() if one.tried], ids=lambda trace: trace.id
)
every_trace_of_csvs = pytest.mark.parametrize(
    "trace",
    [
        one
        for one in load_catalog().values()
        if one.tried and all(content.reader == "csv" for content in one.contents)
    ],
    ids=lambda trace: trace.id,
)


def test_catalog_holds_the_public_traces_with_their_tables() -> None:
    assert {trace.id: set(trace.tables) for trace in load_catalog().values()} == TABLES_OF


def test_catalog_is_read_once() -> None:
    assert load_catalog() is load_catalog()


@every_trace
def test_trace_says_all_that_a_reader_needs(trace: CatalogEntry) -> None:
    assert get_trace(trace.id) is trace
    for text in (trace.title, trace.description, trace.license, trace.citation, *trace.notes):
        assert text.strip() == text != ""
        assert "\n" not in text
    assert trace.description.endswith(".")
    assert trace.citation.startswith("@inproceedings{")
    assert trace.citation.count("{") == trace.citation.count("}")
    assert trace.notes
    assert set(trace.rows) <= set(trace.tables) <= set(TABLES)


@every_trace
def test_files_can_be_checked_and_stand_at_a_pinned_revision(trace: CatalogEntry) -> None:
    if not trace.tried:
        assert trace.notes[0] == "Format as published; not tried on the publisher's files."
        assert trace.files == ()
        return
    assert re.fullmatch("[0-9a-f]{40}", trace.revision)
    assert len({file.name for file in trace.files}) == len(trace.files)
    for file in trace.files:
        assert file.url.startswith("https://")
        assert file.url.endswith(f"/{file.name}")
        if "raw.githubusercontent.com" in file.url:
            assert re.search("/[0-9a-f]{40}/", file.url)
        assert (file.sha256 is None) != (file.git_blob is None)
        assert re.fullmatch("[0-9a-f]{64}", file.sha256 or "") or re.fullmatch(
            "[0-9a-f]{40}", file.git_blob or ""
        )
        assert file.bytes is None or file.bytes > 0


@every_trace
def test_contents_lead_to_every_table_and_each_csv_to_one_content(trace: CatalogEntry) -> None:
    assert {table for content in trace.contents for table in content.tables} == set(trace.tables)
    for content in trace.contents:
        assert set(content.not_applicable) <= set(trace.tables) - set(content.tables)
        assert len(set(content.columns)) == len(content.columns)
        for name in content.csvs:
            base = name.rsplit("/", 1)[-1]
            matching = [c for c in trace.contents if re.fullmatch(c.pattern, base)]
            # a file may be read in several ways, each for other tables
            assert [c.name for c in matching if c.reader == content.reader] == [content.name]


def test_only_pai_comes_without_header_lines() -> None:
    headerless = {t.id for t in load_catalog().values() for c in t.contents if not c.header}
    assert headerless == {"alibaba-pai-2020"}
    assert not any(c.header for c in get_trace("alibaba-pai-2020").contents)


def test_numbered_columns_are_written_out() -> None:
    (content,) = [c for c in get_trace("alibaba-minibatch-2020").contents if "cov" in c.tables[0]]
    assert content.columns == ("", *(str(sample) for sample in range(2000)))


@pytest.mark.parametrize(
    ("trace", "name", "known"),
    [
        ("alibaba-openb-2023", "openb_pod_list_default.csv", True),
        ("alibaba-openb-2023", "openb_pod_list_gpuspec33.csv", False),  # would count pods twice
        ("alibaba-openb-2023", "openb_pod_list_defaultXcsv", False),
        ("alibaba-minibatch-2020", "job_5_norm.csv", True),
        ("alibaba-minibatch-2020", "job_1_norm.csv.bak", False),
        ("microsoft-itp-2021", "cluster1.csv", False),
        ("zeus-2023", "summary_power_h100.csv", True),
    ],
)
def test_patterns_know_a_csv_by_its_name(trace: str, name: str, known: bool) -> None:
    contents = get_trace(trace).contents
    assert any(re.fullmatch(content.pattern, name) for content in contents) is known


def test_testbed_rows_are_plans_and_no_jobs() -> None:
    (testbed,) = [c for c in get_trace("elasticflow-2023").contents if c.csvs == ("195job.csv",)]
    assert testbed.tables == ("training_plans",)
    assert testbed.not_applicable == ("jobs",)


@pytest.mark.parametrize("asked", ["zeus", "Zeus-2023", "zeus-2032"])
def test_misspelt_trace_is_told_the_close_one(asked: str) -> None:
    with pytest.raises(CatalogError) as error:
        get_trace(asked)
    message = str(error.value)
    assert "did you mean zeus-2023?" in message
    assert all(trace in message for trace in TABLES_OF)
    assert "\n" not in message


def test_unknown_trace_is_told_what_there_is() -> None:
    with pytest.raises(CatalogError) as error:
        get_trace("qqq")
    assert "did you mean" not in str(error.value)
    assert all(trace in str(error.value) for trace in TABLES_OF)


# --- against the publishers' files -------------------------------------------------------------


def read_csvs(folder: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Every CSV of a folder, in archives too, read with the standard library alone."""
    for path in sorted(folder.iterdir()):
        if path.name.endswith(".csv"):
            with path.open(newline="") as lines:
                yield path.name, list(csv.reader(lines))
        elif path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in archive:
                    content = archive.extractfile(member)
                    if content is not None and member.name.endswith(".csv"):
                        text = content.read().decode()
                        yield member.name, list(csv.reader(io.StringIO(text)))


@every_tried_trace
def test_checksums_and_sizes_are_those_of_the_published_files(
    trace: CatalogEntry, real_data: Path
) -> None:
    checked = 0
    for file in trace.files:
        # a fault log and a trace of an artifact are beside the traces
        folders = (real_data / trace.id, *(real_data.parent / "published").glob("*"))
        path = next(
            (folder / file.name for folder in folders if (folder / file.name).is_file()), None
        )
        if path is not None and file.sha256 is not None:
            content = path.read_bytes()
            assert hashlib.sha256(content).hexdigest() == file.sha256, file.name
            assert len(content) == file.bytes, file.name
            checked += 1
    assert checked


@every_trace_of_csvs
def test_every_published_csv_is_known_with_its_columns_and_rows(
    trace: CatalogEntry, real_data: Path
) -> None:
    if not (real_data / trace.id).is_dir():
        pytest.skip("a file of an artifact is beside the traces")
    rows: Counter[str] = Counter()
    seen = set()
    for name, lines in read_csvs(real_data / trace.id):
        (content,) = [c for c in trace.contents if re.fullmatch(c.pattern, name)]
        if content.header:
            assert tuple(lines[0]) == content.columns
            lines = lines[1:]  # noqa: PLW2901
        assert {len(line) for line in lines} == {len(content.columns)}
        for table in content.tables:
            # the CoV table is counted by its cells, padding left out
            cells = table == "cov_samples"
            rows[table] += (
                sum(len([c for c in ln[1:] if c]) for ln in lines) if cells else len(lines)
            )
        seen.add(name)
    if trace.id == "alibaba-pai-2020":  # only the smallest of its tables is at hand
        assert rows == {"machines": trace.rows["machines"]}
    else:
        assert rows == trace.rows
        missing = {csv for content in trace.contents for csv in content.csvs} - seen
        assert missing <= {"alibaba_groups.csv"}


def test_columns_of_headerless_csvs_are_those_of_the_header_files(real_data: Path) -> None:
    trace = get_trace("alibaba-pai-2020")
    for content in trace.contents:
        (name,) = content.csvs
        header = real_data / trace.id / name.replace(".csv", ".header")
        assert tuple(header.read_text().strip().split(",")) == content.columns
