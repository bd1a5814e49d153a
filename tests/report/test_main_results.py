"""Main results: the findings that cost most; one that finds no effect is none."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from traceana.page.blocks import Content
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.report.page import Built, _without, alerts, main_results

SECTION = Section("runtimes", "Runtimes", 1, lambda _: Content(), part="Runtimes")


def built(*findings: Finding | str) -> list[Built]:
    """Return a part of the page with one section for each finding."""
    return [
        Built(dataclasses.replace(SECTION, id=f"section-{place}"), Content((finding,)))
        for place, finding in enumerate(findings)
    ]


def test_what_finds_no_effect_is_no_main_result_and_no_alert() -> None:
    part = built(
        Finding("No resource goes with the runtime.", heading="No resource", is_null=True),
        Finding("Nodes fail alike.", heading="Alike", certainty="cannot tell", cost_jobs=9),
        Finding("A costly nothing.", heading="Nothing", alert="x", is_null=True, cost_gpu_h=9),
        "Not computed.",
        Finding("The median runtime is 3 h.", heading="Median 3 h"),
    )
    assert [one.text for one in main_results(part)] == ["The median runtime is 3 h."]
    assert alerts(part) == []


def test_a_description_is_a_heading_and_no_main_result() -> None:
    rate = Finding("169 faults per 1,000 node-days.", heading="169 faults", is_description=True)
    part = built(rate, Finding("Half of the memory is free.", heading="Half is free"))
    assert [one.text for one in main_results(part)] == ["Half of the memory is free."]
    unclear = Finding("Nodes fail alike.", heading="Alike", certainty="cannot tell")
    assert Content((unclear, rate)).heading == "169 faults"


def test_the_alerts_of_one_machine_are_one_line() -> None:
    faults, other = (
        Finding("Faults.", alert=f"machine {name}: 28 faults", machine=name, cost_jobs=cost)
        for name, cost in (("n7", 27), ("n9", 5))
    )
    fails = Finding("Jobs.", alert="node n7: 6 times the failures", machine="n7", cost_jobs=80)
    late = Finding("Waits.", alert="long waits", cost_jobs=40)
    assert [one.text for one in alerts(built(faults, late, other, fails))] == [
        "node n7: 6 times the failures; 28 faults",
        "long waits",
        "machine n9: 28 faults",
    ]
    two = [fails.of("march"), fails.of("april"), faults.of("april")]
    assert [one.text for one in alerts(built(*two))] == [
        "march: node n7: 6 times the failures",
        "april: node n7: 6 times the failures; 28 faults",
    ]


def test_further_costly_findings_of_a_section_fill_the_room() -> None:
    idle = Finding("Half of the GPU time was idle.", heading="Idle", cost_gpu_h=100)
    user = Finding("User u1 submitted half of the jobs.", heading="User", cost_gpu_h=40)
    few = Finding("Cheap.", heading="Cheap", cost_gpu_h=1)
    part = [Built(SECTION, Content((idle, user, few)))]
    assert [one.text for one in main_results(part)] == [str(idle), str(user)]


def test_what_costs_more_hours_comes_first_however_few_jobs_it_concerns() -> None:
    idle = Finding("The GPUs are idle.", heading="Idle", cost_gpu_h=250_000)
    failed = Finding("Failed.", heading="Failed", cost_gpu_h=1333, cost_jobs=1286)
    limits = Finding("Limits.", heading="Limits", cost_gpu_h=1681, cost_jobs=273)
    memory = Finding("Memory.", heading="Memory", cost_jobs=2000)
    other = Finding("Node.", heading="Node", cost_gpu_h=1500, cost_jobs=300)
    part = [Built(SECTION, Content((failed, limits))), *built(idle, memory, other)]
    assert [one.text for one in main_results(part)] == [
        "The GPUs are idle.",
        "Memory.",
        "Limits.",
        "Node.",
        "Failed.",
    ]
    kept = [
        Finding(one, alert=one, cost_gpu_h=one.cost_gpu_h, cost_jobs=one.cost_jobs)
        for one in (failed, other, limits)
    ]
    assert [one.text for one in alerts(built(*kept))] == ["Limits.", "Node.", "Failed."]


def test_a_sentence_goes_on_after_its_heading() -> None:
    heading = "Job AR takes twice as long"
    assert _without(f"{heading} as ideal.", heading) == " as ideal."
    assert _without(f"{heading}; repair it.", heading) == "Repair it."
    assert _without(f"{heading}, 3 h in all.", heading) == "3 h in all."
    assert _without("Another sentence.", heading) == "Another sentence."


def test_a_number_of_the_head_of_the_page_is_no_main_result() -> None:
    part = built(
        Finding("The median runtime is 3 h (n = 9).", heading="The median runtime is 3 h"),
        Finding("9 of 30 jobs failed.", heading="9 of 30 jobs failed"),
        Finding("Half of the memory is free.", heading="Half of the memory is free"),
    )
    head: Any = [("Failed", "30 % (9 of 30)"), ("Median runtime", "3 h")]
    trace: Any = None
    shown = main_results(part, [(trace, head)])
    assert [one.text for one in shown] == ["Half of the memory is free."]
    assert len(main_results(part, [(trace, head)] * 2)) == 3


def test_a_result_is_the_heading_before_one_that_cannot_tell() -> None:
    unclear = Finding("No outage is found.", heading="No outage", certainty="cannot tell")
    clear = Finding("12 % of the GPUs were allocated.", heading="12 % allocated")
    assert Content((unclear, clear)).heading == "12 % allocated"
    assert Content((unclear,)).heading == "No outage"


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(0, 1e6), st.sampled_from(["exact", "cannot tell"])),
        max_size=9,
    )
)
def test_the_costliest_are_first_and_none_is_null(cases: list[tuple[Any, ...]]) -> None:
    part = built(
        *(
            Finding(
                f"Finding {place}.", heading="h", is_null=null, cost_gpu_h=cost, certainty=certainty
            )
            for place, (null, cost, certainty) in enumerate(cases)
        )
    )
    costs = {
        f"Finding {place}.": cost
        for place, (null, cost, certainty) in enumerate(cases)
        if not null and certainty == "exact"
    }
    found = [costs[one.text] for one in main_results(part)]  # a null one has no cost here
    large = [one for one in costs.values() if one and one >= 0.05 * max(costs.values())]
    free = [one for one in costs.values() if not one][:1]
    assert found == (sorted(large, reverse=True)[:6] or free)
