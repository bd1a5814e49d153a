"""One colour, line and mark for each batch-size controller, the same in every figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Look:
    """How a controller is drawn."""

    colour: str
    line: str
    marker: str


_LOOKS: Final = {
    "uniform": Look("#8A8A8A", "-", "s"),
    "static": Look("#E69F00", "-.", "^"),
    "measured": Look("#CC79A7", "--", "v"),
    "proportional": Look("#0072B2", "-", "o"),
    "damped": Look("#56B4E9", "--", "D"),
    "omnilearn": Look("#D55E00", ":", "X"),
    "oracle": Look("#009E73", "-", "*"),
}
_OTHER: Final = Look("#000000", ":", "P")


def look_of(controller: str, /) -> Look:
    """Return the look of a controller; those of users share one."""
    return _LOOKS.get(controller, _OTHER)
