"""A finding: one sentence, with the numbers by which findings are ranked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

Certainty = Literal["exact", "estimated", "cannot tell"]


class Finding(str):
    """A sentence with its effect, and what it costs, by which the report ranks findings."""

    __slots__ = ("__dict__",)
    effect: float | None
    ci_low: float | None
    ci_high: float | None
    n: int | None
    """The effect, its interval (None for an exact number) and n."""
    cost_gpu_h: float
    cost_jobs: float
    """GPU-hours and jobs that the finding concerns; 0 where it costs nothing."""
    certainty: Certainty
    """``exact`` for a number of a complete log, ``estimated`` for a statement on what would happen
    again, ``cannot tell`` where the data decide nothing: such a finding is never a main result."""
    alert: str
    """One line for the alerts at the top of the page; empty for none."""
    machine: str
    """The machine that the alert is about, if it is one: its alerts are one line."""
    heading: str
    """The result in at most twelve words, for the heading of its section; empty for none."""
    is_null: bool
    """Whether the effect is negligible or not distinguishable from none."""
    is_description: bool
    """Whether it describes the log and nobody acts upon it: no main result, unlike what has a cost
    or an effect."""

    def __new__(
        cls,
        text: str,
        /,
        *,
        effect: float | None = None,
        interval: tuple[float, float] | None = None,
        n: int | None = None,
        cost_gpu_h: float = 0.0,
        cost_jobs: float = 0.0,
        certainty: Certainty = "exact",
        alert: str = "",
        machine: str = "",
        heading: str = "",
        is_null: bool = False,
        is_description: bool = False,
    ) -> Finding:
        """Make a finding of its sentence."""
        if certainty not in get_args(Certainty):
            raise ValueError(f"certainty is {certainty!r}; expected one of {get_args(Certainty)}")
        made = super().__new__(cls, text)
        made.effect, made.n = effect, n
        made.ci_low, made.ci_high = interval or (None, None)
        made.cost_gpu_h, made.cost_jobs = cost_gpu_h, cost_jobs
        made.certainty, made.alert, made.machine = certainty, alert, machine
        made.heading, made.is_null, made.is_description = heading, is_null, is_description
        return made

    @property
    def is_decided(self) -> bool:
        """Whether the data decide it, and it finds something."""
        return not self.is_null and self.certainty != "cannot tell"

    @property
    def may_lead(self) -> bool:
        """Whether it may be a main result or an alert: it states an effect that the data decide."""
        return self.is_decided and not self.is_description

    def of(self, name: str, /) -> Finding:
        """Return the finding of one trace among others: its name, a colon and the words."""
        made = self.reword(lambda words: f"{name}: {words}" if words else "")
        made.machine = (
            self.machine and f"{name}: {self.machine}"
        )  # names of two traces may be alike
        return made

    def reword(self, change: Callable[[str], str], /) -> Finding:
        """Return the finding with changed words."""
        made = Finding(change(self))
        made.__dict__ |= {
            **self.__dict__,
            "alert": change(self.alert),
            "heading": change(self.heading),
        }
        return made
