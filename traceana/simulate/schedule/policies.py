"""Scheduling policies by name."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.simulate.schedule.backfilling import ConservativeBackfilling, EasyBackfilling
from traceana.simulate.schedule.elastic import EarliestDeadlineFirst, ElasticFlow
from traceana.simulate.schedule.queueing import (
    FairShare,
    FirstInFirstOut,
    PredictedShortestJobFirst,
    Priority,
    ShortestJobFirst,
    ShortestRemainingTimeFirst,
)
from traceana.simulate.schedule.timesharing import Gandiva, Themis, Tiresias

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.simulate.schedule.policy import SchedulingPolicy

POLICIES: Final[dict[str, Callable[[], SchedulingPolicy]]] = {
    "fifo": FirstInFirstOut,
    "fair_share": FairShare,
    "sjf": ShortestJobFirst,
    "sjf_user_mean": PredictedShortestJobFirst,
    "sjf_last_value": partial(PredictedShortestJobFirst, last=True),
    "srtf": ShortestRemainingTimeFirst,
    "easy": EasyBackfilling,
    "conservative": ConservativeBackfilling,
    "priority": Priority,
    "tiresias": Tiresias,
    "gandiva": Gandiva,
    "themis": Themis,
    "edf": EarliestDeadlineFirst,
    "edf_admission": partial(ElasticFlow, least=False),
    "edf_elastic": partial(ElasticFlow, admission=False),
    "elasticflow": ElasticFlow,
}
_CHRONUS: Final = (
    "chronus is left out: it solves an integer program for every lease, and nothing orders its "
    "equal optima, so that the schedule would depend on the solver"
)
_METHODS: Final = ("admit", "order", "allocate", "place")


def find_policy(policy: object, /) -> tuple[str, Callable[[], SchedulingPolicy]]:
    """Return the name of a policy and a function that makes one for each group.

    An object is copied for each group, so that no group sees what it remembers of another.
    """
    if isinstance(policy, str):
        if policy in POLICIES:
            return policy, POLICIES[policy]
        if policy == "chronus":
            raise DataError(_CHRONUS)
        raise DataError(f"no policy is called {policy!r}; there are {', '.join(POLICIES)}")
    name = getattr(policy, "__name__", type(policy).__name__)
    make = policy if isinstance(policy, type) or not hasattr(policy, "allocate") else None
    candidate = make() if callable(make) else policy
    if missing := [method for method in _METHODS if not callable(getattr(candidate, method, None))]:
        raise DataError(
            f"policy {name} has no method {', '.join(missing)}; derive it from SchedulingPolicy"
        )
    if callable(make):
        return name, make
    return name, lambda: deepcopy(policy)  # type: ignore[return-value]
