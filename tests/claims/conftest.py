"""The ledger of claims on the publishers' files, judged once for all tests here."""

from __future__ import annotations

import pytest

from traceana.claims import ClaimResults, check_claims
from traceana.store import Store


@pytest.fixture(scope="session")
def results(real_store: Store) -> ClaimResults:
    """Every claim on every file that is at hand."""
    return check_claims(real_store)
