"""The sample has the form of the real files, cell by cell, and nothing of their content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.samples.published import contents, headed, rows

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {
    "empty": r"",
    "whole": r"-?\d+",
    "nan": r"nan",
    "decimal": r"-?\d+\.\d+(e-?\d+)?",
    "power": r"\d+(\.\d+)?e-\d+",
    "text": r".*",
}
HEADED = [
    "alibaba-minibatch-2020",
    "microsoft-itp-2021",
    "elasticflow-2023",
    "alibaba-openb-2023",
    "zeus-2023",
]


def kind(cell: str) -> str:
    return next(name for name, pattern in KINDS.items() if re.fullmatch(pattern, cell))


def kinds(content: bytes) -> list[set[str]]:
    """Kinds of cell in each column; the CoV table's samples count as one column."""
    names, *cells = rows(content)
    of_column = [set(map(kind, column)) for column in zip(*cells, strict=True)]
    return [of_column[0], set().union(*of_column[1:])] if "1999" in names else of_column


@pytest.mark.parametrize("trace", HEADED)
def test_csvs_headers_and_kinds_of_cell_are_the_publishers(
    trace: str, sample: Path, real_data: Path
) -> None:
    real, ours = contents(real_data / trace), contents(sample / trace)
    assert set(real) <= set(ours) <= {*real, "alibaba_groups.csv"}
    for name, content in real.items():
        assert ours[name].split(b"\n")[0] == content.split(b"\n")[0], name
        assert ours[name].endswith(b"\n") == content.endswith(b"\n"), name
        assert b'"' not in ours[name]
        assert b"\r" not in ours[name]
        for column, (our, published) in enumerate(
            zip(kinds(ours[name]), kinds(content), strict=True)
        ):
            assert our <= published, f"{name}, column {column}"


def test_archives_are_named_as_the_publishers(sample: Path, real_data: Path) -> None:
    for trace in ("microsoft-itp-2021", "elasticflow-2023"):
        real = {path.name for path in (real_data / trace).iterdir()}
        ours = {path.name for path in (sample / trace).iterdir()} - {"SYNTHETIC.json"}
        assert ours == {f"SYNTHETIC-{name}" for name in real}


def test_pai_headers_are_the_publishers(sample: Path, real_data: Path) -> None:
    real = {path.name: path.read_bytes() for path in (real_data / "alibaba-pai-2020").iterdir()}
    headers = {name: header for name, header in real.items() if name.endswith(".header")}
    assert len(headers) == 7
    for name, header in headers.items():
        assert (sample / "alibaba-pai-2020" / f"SYNTHETIC-{name}").read_bytes() == header


def test_pai_machines_have_the_form_and_the_mix_of_the_real_ones(
    larger_pai: Path, real_data: Path
) -> None:
    real = rows(contents(real_data / "alibaba-pai-2020")["pai_machine_spec.csv"])
    ours = list(zip(*headed(larger_pai, "pai_machine_spec").values(), strict=True))
    assert all(re.fullmatch(r"[0-9a-f]{24}", row[0]) for row in [*real, *ours])
    builds = {tuple(row[1:]) for row in real}
    assert {row[1:] for row in ours} == builds
    for build in builds:
        counted = sum(tuple(row[1:]) == build for row in real) * len(ours) / len(real)
        assert abs(sum(row[1:] == build for row in ours) - counted) <= 1


# the forms that the publisher's own description shows for the tables whose real files are large
HEX24, HEX60, TIME = r"[0-9a-f]{24}", r"[0-9a-f]{60}", r"\d+\.0|"
NUMBER = r"\d+\.\d+(e-\d+)?"
PAI_FORMS = {
    "pai_job_table": [HEX24, HEX60, r"[0-9a-f]{12}", r"[A-Z][a-z]+", TIME, TIME],
    "pai_task_table": [
        *(HEX24, r"\w+", r"\d+\.0", r"[A-Z][a-z]+", TIME, TIME),
        *(r"\d+\.0", NUMBER, r"\d+\.0|", r"MISC|T4|P100|V100|V100M32|"),
    ],
    "pai_instance_table": [
        *(HEX24, r"\w+", HEX60, HEX60, HEX60, r"[A-Z][a-z]+", TIME, TIME, HEX24 + "|"),
    ],
    "pai_sensor_table": [
        *(HEX24, r"\w+", HEX60, HEX60, HEX24 + "|", r"/dev/nvidia[0-7]|", NUMBER),
        *(NUMBER + "|", NUMBER, NUMBER, NUMBER + "|", NUMBER + "|", *[NUMBER] * 4),
    ],
    "pai_group_tag_table": [
        *(HEX60, r"[0-9a-f]{12}", r"MISC|T4|P100|V100|V100M32|", r"[0-9a-f]{32}", r"[a-z]*"),
    ],
    "pai_machine_metric": [HEX60, HEX24, r"\d+", r"\d+", *[NUMBER] * 8],
}


@pytest.mark.parametrize("table", sorted(PAI_FORMS))
def test_pai_cells_have_the_described_form(table: str, sample: Path) -> None:
    cells = rows(contents(sample / "alibaba-pai-2020")[f"{table}.csv"])
    for column, (values, form) in enumerate(
        zip(zip(*cells, strict=True), PAI_FORMS[table], strict=True)
    ):
        wrong = [value for value in values if not re.fullmatch(form, value)]
        assert not wrong, f"column {column}"


def test_no_identifier_of_the_real_files_occurs(sample: Path, real_data: Path) -> None:
    for trace, csvs in {
        "alibaba-pai-2020": ["pai_machine_spec.csv"],
        "microsoft-itp-2021": [f"cluster{i:02d}.csv" for i in range(1, 11)],
        "alibaba-openb-2023": ["openb_pod_list_default.csv", "openb_node_list_all_node.csv"],
    }.items():
        real, ours = contents(real_data / trace), contents(sample / trace)
        for name in csvs:
            real_ids = {row[0] for row in rows(real[name])[1:]}
            our_ids = [row[0] for row in rows(ours[name])[1:]]
            assert len(set(our_ids)) == len(our_ids)
            assert not real_ids & set(our_ids)


@pytest.mark.parametrize("trace", HEADED)
def test_no_row_of_the_real_files_occurs(trace: str, sample: Path, real_data: Path) -> None:
    real, ours = contents(real_data / trace), contents(sample / trace)
    for name, content in real.items():
        if re.fullmatch(r"job_._norm.csv", name):
            # five small numbers a row meet by chance; a run of thirty of them does not
            values = [",".join(row[-1] for row in rows(c)[1:]) for c in (content, ours[name])]
            run = ",".join(values[1].split(",")[:30])
            assert run not in values[0]
        else:
            assert not set(content.splitlines()[1:]) & set(ours[name].splitlines()[1:]), name
