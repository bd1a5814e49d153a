"""What was run in the Zeus trace: data sets, batch sizes, targets, GPUs and power limits.

These are the axes of the real grids; every value measured on them is drawn by :mod:`.zeus`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Workload:
    """A data set and its network, the axes of its grids and a smooth model of its training.

    The metric approaches `best_metric` exponentially from `first_metric`, passing the default
    target after `epochs` epochs at the batch size `best_batch`; each doubling away from it costs
    `slower` times the square of the doublings in epochs and `worse` times it in the best metric.
    """

    network: str
    optimizer: str
    learning_rate: float
    runs: dict[int, int]  # repetitions by batch size
    targets: tuple[str, ...]  # as printed
    default_target: float
    first_metric: float
    best_metric: float
    epochs: float
    most_epochs: int
    best_batch: int
    slower: float
    worse: float
    epoch_s: float  # on a V100 with a full GPU
    half_batch: float  # at which an epoch takes twice as long
    use: float  # of the GPU's power, at full batch


def _same(runs: int, *batches: int) -> dict[int, int]:
    return dict.fromkeys(batches, runs)


_TWENTIETHS: Final = tuple(f"{i / 20:.2f}".removesuffix("0") for i in range(1, 20))

WORKLOADS: Final = {
    "cifar100": Workload(
        "shufflenetv2",
        "adadelta",
        0.2,
        {8: 4, **_same(5, 16, 32, 64, 128, 256, 512), 1024: 10, **_same(5, 2048, 4096)},
        _TWENTIETHS,
        0.6,
        0.0,
        0.72,
        16.0,
        600,
        100,
        0.25,
        0.002,
        7.0,
        250.0,
        0.8,
    ),
    "imagenet": Workload(
        "resnet50",
        "adadelta",
        0.2,
        {64: 4, **_same(5, 128, 192, 256, 360), 512: 1, 1024: 1},
        _TWENTIETHS,
        0.65,
        0.0,
        0.74,
        20.0,
        90,
        300,
        0.15,
        0.03,
        3400.0,
        6.0,
        0.95,
    ),
    "librispeech": Workload(
        "deepspeech2",
        "adamw",
        2.5e-4,
        {
            2: 2,
            4: 4,
            8: 4,
            16: 4,
            **_same(5, 12, 24, 32, 48, 56, 64, 72, 96, 128, 156, 192),
            256: 2,
            512: 3,
        },
        ("65", "60", "55", "50", "45", "40", "35"),
        40.0,
        110.0,
        32.0,
        8.0,
        16,
        24,
        0.05,
        0.004,
        5200.0,
        12.0,
        0.75,
    ),
    "movielens-1m": Workload(
        "ncf",
        "adam",
        1.2e-3,
        {4: 3, **_same(5, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)},
        ("0.3", "0.325", "0.35", "0.375", "0.4", "0.41", "0.42"),
        0.41,
        0.1,
        0.425,
        3.5,
        50,
        1024,
        0.03,
        0.0015,
        7.0,
        2300.0,
        0.02,
    ),
    "squad": Workload(
        "bert_base_uncased",
        "adamw",
        2.5e-6,
        _same(10, 4, 8, 12, 16, 24, 32, 48, 56),
        ("82.5", "83.0", "83.5", "84.0", "84.5", "85.0", "85.5", "86.0"),
        84.0,
        70.0,
        85.9,
        3.4,
        10,
        16,
        0.01,
        0.0,
        1600.0,
        0.5,
        0.97,
    ),
    "sentiment140": Workload(
        "bert_base_uncased",
        "adamw",
        1.2e-7,
        _same(10, 8, 16, 32, 40, 48, 56, 64, 128),
        ("0.82", "0.825", "0.83", "0.835", "0.84", "0.845", "0.85", "0.852"),
        0.84,
        0.7,
        0.857,
        2.6,
        10,
        32,
        0.02,
        0.0,
        3900.0,
        6.0,
        0.95,
    ),
}


@dataclass(frozen=True)
class Gpu:
    """A GPU, its power limits, the batch sizes that were run, and a smooth model of it."""

    limits: tuple[int, ...]
    idle_w: float
    peak_w: float
    slower: float  # than a V100
    batches: dict[str, tuple[int, ...]]


def _doublings(first: int, last: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(first.bit_length() - 1, last.bit_length()))


def _every_25(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1, 25))


GPUS: Final = {
    "a40": Gpu(
        _every_25(100, 300),
        80.0,
        270.0,
        0.9,
        {
            "cifar100": _doublings(8, 8192),
            "imagenet": (8, 16, 32, 64, 128, 192, 256, 360, 512),
            "librispeech": (8, 16, 32, 64, 128, 192),
            "movielens-1m": _doublings(8, 32768),
            "squad": (8, 12, 16, 24, 32, 48, 56, 72),
            "sentiment140": _doublings(8, 256),
        },
    ),
    "p100": Gpu(
        _every_25(125, 250),
        33.0,
        180.0,
        2.0,
        {
            "cifar100": _doublings(8, 2048),
            "imagenet": _doublings(8, 128),
            "librispeech": (8, 12, 16, 24, 32, 48, 56, 64, 72),
            "movielens-1m": _doublings(4, 16384),
            "squad": (4, 8, 12, 16, 24),
            "sentiment140": _doublings(8, 64),
        },
    ),
    "rtx6000": Gpu(
        (*_every_25(100, 250), 260),
        55.0,
        255.0,
        1.3,
        {
            "cifar100": _doublings(8, 4096),
            "imagenet": (8, 16, 32, 64, 128, 192, 256),
            "librispeech": (8, 12, 16, 24, 32, 48, 56, 64, 72, 96, 128),
            "movielens-1m": _doublings(4, 16384),
            "squad": (4, 8, 12, 16, 24, 32),
            "sentiment140": _doublings(8, 128),
        },
    ),
    "v100": Gpu(
        _every_25(100, 250),
        35.0,
        235.0,
        1.0,
        {
            "cifar100": _doublings(8, 4096),  # with two optimizers
            "imagenet": (8, 16, 32, 64, 128, 192, 256, 360),
            "librispeech": (2, 4, 8, 12, 16, 24, 32, 48, 56, 64, 72, 96, 128, 156, 192),
            "movielens-1m": _doublings(4, 16384),
            "squad": (8, 12, 16, 24, 32, 48, 56),
            "sentiment140": _doublings(8, 128),
        },
    ),
}


def limits_of(name: str, dataset: str, batch: int) -> tuple[int, ...]:
    """Return the power limits a configuration was measured at: the real grids have gaps."""
    limits = GPUS[name].limits
    if (name, dataset) == ("a40", "sentiment140"):
        return limits[::2]
    if (name, dataset, batch) == ("rtx6000", "movielens-1m", 4):
        return limits[-2:]
    return limits
