"""Published numbers of faults, on the published log and by their own arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceana.claims import check_claims
from traceana.ingesters import ingest
from traceana.store import Store, open_store


def test_the_published_log_has_its_publishers_numbers(
    published_faults: Path, tmp_path: Path
) -> None:
    ingest(published_faults, store=tmp_path)
    results = check_claims(open_store(tmp_path), paper="infinitehbd")
    found = {row["id"]: row for row in results.table.iter_rows(named=True)}
    others = {name: row["verdict"] for name, row in found.items() if row["verdict"] != "reproduced"}
    assert others == {"infinitehbd-fleet": "not testable", "infinitehbd-clock": "differs"}
    assert found["infinitehbd-clock"]["measured"] == "first event on day 3.8955"
    assert found["infinitehbd-descriptions-link-down"]["measured"] == "40"
    assert found["infinitehbd-classes-hardware-other-failures"]["measured"] == "1"
    assert not results.altered


LLAMA_3 = {
    "gpu-hbm3-memory": "17.2",
    "software-bug": "12.9",
    "network-switch-cable": "8.4",
    "host-maintenance": "7.6",
    "gpu-sram-memory": "4.5",
    "gpu-system-processor": "4.1",
    "nic": "1.7",
    "nccl-watchdog-timeouts": "1.7",
    "silent-data-corruption": "1.4",
    "gpu-thermal-interface-sensor": "1.4",
    "ssd": "0.7",
    "power-supply": "0.7",
    "server-chassis": "0.5",
    "io-expansion-board": "0.5",
    "dependency": "0.5",
    "cpu": "0.5",
    "system-memory": "0.5",
}


@pytest.mark.parametrize(
    ("paper", "expected"),
    [
        ("meta-rsc", {"meta-rsc-16384": "1.8", "meta-rsc-131072": "0.23"}),
        (
            "llama-3",
            {
                "llama-3-total": "419",
                "llama-3-faulty-gpu": "35.3",
                "llama-3-gpu-causes": "64.0",
            }
            | {  # 72 / 419 = .1718, 54 / 419 = .1289 ... as printed
                f"llama-3-percentage-{cause}": printed for cause, printed in LLAMA_3.items()
            },
        ),
    ],
)
def test_arithmetic_needs_no_data(tmp_path: Path, paper: str, expected: dict[str, str]) -> None:
    results = check_claims(Store(tmp_path), paper=paper)
    assert dict(results.table.select("id", "measured").rows()) == expected
    differs = set(results.table.filter(verdict="differs")["id"])
    unequal = {"llama-3-faulty-gpu", "llama-3-gpu-causes"} & set(expected)
    assert differs == unequal <= set(results.evidence)
