"""The claims on the publishers' files, judged once for all tests here, and stores to judge."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.generator import write_sample
from tests.ingesters.conftest import tar_gz
from traceana.claims import PAPERS, Claim, ClaimResults, Paper, check_claims, papers
from traceana.ingesters import ingest
from traceana.store import Store, open_store

CLAIMS = {claim.id: claim for paper in PAPERS.values() for claim in paper.claims}
ONE_PAPER = "made-up"


@pytest.fixture(scope="session")
def results(real_store: Store) -> ClaimResults:
    """Every claim on every file that is at hand."""
    return check_claims(real_store)


def verdicts(results: ClaimResults) -> dict[str, str]:
    return dict(results.table.select("id", "verdict").rows())


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Synthetic PAI and Zeus rows."""
    folder = tmp_path_factory.mktemp("claims")
    traces = ["alibaba-pai-2020", "zeus-2023"]
    ingest(write_sample(folder / "files", scale=0.002, traces=traces), store=folder / "store")
    return open_store(folder / "store")


def as_if_real(store: Store, folder: Path) -> Store:
    """The same rows with ledgers that call them published."""
    shutil.copytree(store.path, folder)
    for path in folder.glob("*/ledger.json"):
        text = path.read_text().replace('"synthetic": true', '"synthetic": false')
        path.write_text(re.sub('"as_published": (false|null)', '"as_published": true', text))
    return open_store(folder)


def planted(monkeypatch: pytest.MonkeyPatch, *claims: Claim) -> None:
    monkeypatch.setattr(papers, "_WHOLE", 0)  # rows of a test are not the published ones
    monkeypatch.setitem(PAPERS, ONE_PAPER, Paper("A paper that does not exist", lambda: claims))


def itp_store(folder: Path, clusters: range = range(1, 11), gpus: int = 2) -> Store:
    """Clusters of two jobs, of 1 and (by default) 2 GPUs."""
    header = "job_id,submission_time,duration,num_gpu"
    files = {
        f"cluster{i:02d}.csv": f"{header}\nc{i}-a,10,3600,1\nc{i}-b,20,1800,{gpus}".encode()
        for i in clusters
    }
    ingest(tar_gz(folder / "files" / "raw-traces.tar.gz", files), store=folder / "store")
    return open_store(folder / "store")
