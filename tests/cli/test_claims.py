"""``traceana claims`` on a terminal, as JSON, and as a check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.claims.conftest import as_if_real, itp_store
from traceana.claims import PAPERS
from traceana.cli import app
from traceana.errors import DataError, StoreError
from traceana.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("itp")
    return as_if_real(itp_store(folder), folder / "published")


def run(store: Path, *asked: str, columns: int = 80) -> Result:
    return CliRunner().invoke(
        app, ["claims", "--store", str(store), *asked], env={"COLUMNS": str(columns)}
    )


def test_the_table_fits_and_says_every_verdict_as_a_word(store: Store) -> None:
    done = run(store.path, "--paper", "microsoft-itp-2021")
    assert done.exit_code == 0
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("itp-jobs"))
    assert lines[start].split()[1:] == ["69,351", "jobs"]
    assert lines[start + 1].split() == ["differs", "measured:", "20"]
    assert "4 claims: 1 reproduced, 3 differs (1 by a tolerance of ours), 0 observation" in (
        " ".join(done.stdout.split())
    )


def test_an_altered_file_is_named_and_refutes_nothing(tmp_path: Path) -> None:
    done = run(itp_store(tmp_path).path, "--paper", "microsoft-itp-2021", "--strict")
    assert done.exit_code == 0
    assert "0 differs" in " ".join(done.stdout.split())
    assert "raw-traces.tar.gz" in done.stderr
    assert "is not the published file" in done.stderr


def test_json_is_alone(store: Store) -> None:
    done = run(store.path, "--json", "--paper", "microsoft-itp-2021")
    told = json.loads(done.stdout)
    assert {"id", "published", "measured", "verdict", "reason"} <= set(told[0])
    assert (told[0]["id"], told[0]["measured"], told[0]["verdict"]) == ("itp-jobs", "20", "differs")
    assert list(told[0])[:5] == ["id", "paper", "section", "kind", "statement"]
    differs = json.loads(run(store.path, "--json", "--verdict", "differs").stdout)
    assert {row["verdict"] for row in differs} == {"differs"}


def test_the_default_is_a_line_per_paper(store: Store) -> None:
    done = run(store.path)
    for paper in PAPERS:
        assert f"\n{paper} " in done.stdout
    assert "itp-jobs" not in done.stdout
    assert "itp-jobs" in run(store.path, "--verdict", "differs").stdout
    assert isinstance(run(store.path, "--verdict", "wrong").exception, DataError)


def test_strict_fails_where_a_claim_differs_only(store: Store) -> None:
    assert run(store.path, "--strict", "--paper", "microsoft-itp-2021").exit_code == 1
    assert run(store.path, "--strict", "--paper", "alibaba-minibatch-2020").exit_code == 0


def test_a_users_mistake(store: Store, tmp_path: Path) -> None:
    done = run(store.path, "--paper", "none")
    assert isinstance(done.exception, DataError)
    assert f"the papers are {', '.join(PAPERS)}" in str(done.exception)
    assert "\n" not in str(done.exception)
    assert isinstance(run(tmp_path).exception, StoreError)
