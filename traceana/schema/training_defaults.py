"""What each data set of the Zeus traces is trained to, and from which batch size.

Facts that the publisher states (Zeus, NSDI'23, and its traces), kept here for every room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class TrainingDefault:
    """What a data set is trained to where nothing else is asked for."""

    target: float
    """Validation metric to reach, as in target_metric."""
    batch_size: int
    """Default batch size b0; a GPU that was not profiled at it takes its largest below."""
    max_epochs: int
    """Epochs after which the publisher's simulator gives a run up; the trace may follow it on."""
    lower_is_harder: bool = False
    """Whether the metric is an error, so that a smaller target is reached later."""


TRAINING_DEFAULTS: Final = {
    "cifar100": TrainingDefault(target=0.6, batch_size=1024, max_epochs=100),
    "imagenet": TrainingDefault(target=0.65, batch_size=256, max_epochs=100),
    "librispeech": TrainingDefault(
        target=40.0, batch_size=256, max_epochs=16, lower_is_harder=True
    ),
    "movielens-1m": TrainingDefault(target=0.41, batch_size=1024, max_epochs=100),
    "sentiment140": TrainingDefault(target=0.84, batch_size=128, max_epochs=10),
    "squad": TrainingDefault(target=84.0, batch_size=32, max_epochs=6),
}
"""Data set -> its defaults."""
