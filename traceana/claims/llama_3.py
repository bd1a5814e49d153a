"""Causes of interruptions of the training of Llama 3 (2024), table 5: arithmetic of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide
from traceana.claims.rounding import agrees, round_as

if TYPE_CHECKING:
    from traceana.store import Store

_CAUSES: Final = pl.DataFrame(
    [
        ("Faulty GPU", "GPU", 148, "30.1"),
        ("GPU HBM3 Memory", "GPU", 72, "17.2"),
        ("Software Bug", "Dependency", 54, "12.9"),
        ("Network Switch/Cable", "Network", 35, "8.4"),
        ("Host Maintenance", "Unplanned Maintenance", 32, "7.6"),
        ("GPU SRAM Memory", "GPU", 19, "4.5"),
        ("GPU System Processor", "GPU", 17, "4.1"),
        ("NIC", "Host", 7, "1.7"),
        ("NCCL Watchdog Timeouts", "Unknown", 7, "1.7"),
        ("Silent Data Corruption", "GPU", 6, "1.4"),
        ("GPU Thermal Interface + Sensor", "GPU", 6, "1.4"),
        ("SSD", "Host", 3, "0.7"),
        ("Power Supply", "Host", 3, "0.7"),
        ("Server Chassis", "Host", 2, "0.5"),
        ("IO Expansion Board", "Host", 2, "0.5"),
        ("Dependency", "Dependency", 2, "0.5"),
        ("CPU", "Host", 2, "0.5"),
        ("System Memory", "Host", 2, "0.5"),
    ],
    schema=["cause", "category", "interruptions", "printed"],
    orient="row",
)


def total(_store: Store, _claim: Claim) -> float:
    """Add up the counts."""
    return float(_CAUSES["interruptions"].sum())


def faulty_gpu(_store: Store, claim: Claim) -> Judgement:
    """Compare the percentage of the first cause."""
    return _share(claim, _CAUSES[:1])


def gpu_causes(_store: Store, claim: Claim) -> Judgement:
    """Compare the percentage of the causes of category GPU."""
    return _share(claim, _CAUSES.filter(category="GPU"))


def _share(claim: Claim, causes: pl.DataFrame) -> Judgement:
    found = 100 * float(causes["interruptions"].sum()) / float(_CAUSES["interruptions"].sum())
    return decide(
        holds=agrees(found, claim.published),
        measured=round_as(found, claim.published),
        evidence=causes,
    )


def others(_store: Store, _claim: Claim) -> Judgement:
    """Compare the percentages of all causes but the first."""
    rest = _CAUSES[1:].with_columns(
        percentage=100 * pl.col("interruptions") / _CAUSES["interruptions"].sum()
    )
    same = sum(agrees(*row) for row in rest.select("percentage", "printed").iter_rows())
    return decide(
        holds=same == rest.height,
        measured=f"{same} of {rest.height} percentages are equal",
        evidence=rest,
    )
