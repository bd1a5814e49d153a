"""Default target, batch size and epochs of the data sets of the Zeus traces (NSDI'23)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, kw_only=True)
class TrainingDefault:
    """How a data set is trained if nothing else is requested."""

    target: float
    """Validation metric to reach, as in target_metric."""
    batch_size: int
    """Default batch size b0; a GPU that was not profiled at it uses its largest one below."""
    max_epochs: int
    """Epochs after which a simulated run is stopped."""
    lower_is_harder: bool = False
    """Whether the metric is an error, so that a smaller target is reached later."""


TrainingDefaults: TypeAlias = Mapping[str, TrainingDefault]
"""Defaults by data set."""

TRAINING_DEFAULTS: Final[TrainingDefaults] = {
    "cifar100": TrainingDefault(target=0.6, batch_size=1024, max_epochs=100),
    "imagenet": TrainingDefault(target=0.65, batch_size=256, max_epochs=100),
    "librispeech": TrainingDefault(
        target=40.0, batch_size=256, max_epochs=16, lower_is_harder=True
    ),
    "movielens-1m": TrainingDefault(target=0.41, batch_size=1024, max_epochs=100),
    "sentiment140": TrainingDefault(target=0.84, batch_size=128, max_epochs=10),
    "squad": TrainingDefault(target=84.0, batch_size=32, max_epochs=6),
}
"""As the publisher states them; :func:`traceana.training_defaults` derives others."""
