"""Published counts of the PAI trace that its sample is calibrated to, and what is lost in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS: Final = {
    "pai_job_table": 1_055_501,
    "pai_task_table": 1_261_050,
    "pai_instance_table": 7_522_002,
    "pai_sensor_table": 3_033_232,
    "pai_group_tag_table": 1_055_032,
    "pai_machine_metric": 2_009_423,
}
"""Rows of the tables that grow with the scale (the machines are drawn by build)."""

STATUSES: Final = {"Terminated": 885_073, "Failed": 256_762, "Running": 115_501, "Waiting": 3_714}
"""Tasks by status."""

TERMINATED, FAILED, RUNNING, WAITING, INTERRUPTED = range(5)
STATUS_WORDS: Final = pl.Series([*STATUSES, "Interrupted"])

GPU_TYPES: Final = {"MISC": 696, "T4": 227, "P100": 73, "V100": 29, "V100M32": 19}
"""Tasks with a GPU type, in thousands."""

NO_TYPE: Final = len(GPU_TYPES)  # the index of an empty GPU type
NO_TYPE_TASKS: Final = 218_000

PLAN_GPU: Final = {
    100: 442_591,
    25: 272_243,
    50: 136_701,
    10: 116_648,
    200: 16_312,
    800: 4_943,
    # the rest, on values of our choice
    20: 16_000,
    5: 11_000,
    30: 8_000,
    400: 5_000,
    75: 4_000,
    15: 3_647,
}
"""Tasks by percent of a GPU requested."""

NO_PLAN: Final = len(PLAN_GPU)  # the index of an empty plan_gpu
NO_PLAN_TASKS: Final = 223_965

ONE_INSTANCE_TASKS: Final = 963_703
MOST_INSTANCES: Final = 6_330
FAILED_END_KNOWN: Final = 0.1
WORKLOAD_TAGGED: Final = 0.09

MEAN_RUNTIME_S: Final = {
    # in the order of GPU_TYPES, then no GPU; close to the published means
    "success": (5_200, 2_900, 7_700, 9_700, 11_900, 4_000),
    "failure": (6_000, 5_100, 7_100, 11_300, 6_900, 4_000),
}

START_LOST: Final = 0.01
_LOST_AS_ZERO: Final = 0.05


def lose(
    rng: np.random.Generator, values: NDArray[np.float64], lost: NDArray[np.bool_]
) -> pl.Series:
    """Leave lost values empty, and a few of them 0."""
    zero = rng.random(len(values)) < _LOST_AS_ZERO
    return pl.Series(np.where(lost, np.where(zero, 0.0, np.nan), values)).fill_nan(None)
