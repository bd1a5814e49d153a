"""A finding is its sentence, and keeps its numbers where sections are kept on disk."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from traceana.page.blocks import Content
from traceana.page.finding import Finding


def test_a_finding_is_text_with_numbers_that_survive_the_cache() -> None:
    numbers: dict[str, Any] = {"effect": 3.0, "interval": (2.0, 4.5), "n": 90, "cost_gpu_h": 120.0}
    found = Finding("n07 fails 3 times as often.", **numbers, alert="node n07")
    kept: Any = pickle.loads(pickle.dumps(found))  # noqa: S301  its own bytes
    assert kept == found == "n07 fails 3 times as often."
    assert (kept.effect, kept.ci_low, kept.ci_high, kept.n) == (3.0, 2.0, 4.5, 90)
    assert (kept.cost_gpu_h, kept.alert, kept.certainty) == (120.0, "node n07", "exact")


def test_an_unknown_certainty_is_refused() -> None:
    with pytest.raises(ValueError, match="certainty is 'sure'"):
        Finding("x", certainty="sure")  # type: ignore[arg-type]


def test_the_name_of_a_trace_precedes_all_words_that_there_are() -> None:
    found = Finding("jobs wait.", heading="jobs wait", cost_jobs=2).of("Seren")
    assert (found, found.heading, found.alert) == ("Seren: jobs wait.", "Seren: jobs wait", "")
    assert found.cost_jobs == 2
    content = Content(("none failed.",), further=(Finding("few ran."),)).of("Seren")
    assert content.every_finding == ("Seren: none failed.", "Seren: few ran.")
