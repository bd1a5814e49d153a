"""Sample of two months of a production GPU cluster: `alibaba-pai-2020`, seven headerless tables.

Jobs are drawn in chunks, each from a generator of its own, so that memory stays bounded.
"""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import PAI_KEY, generator
from tests.generator.files import MARK, pack
from tests.generator.pai_groups import draw_groups, draw_machines
from tests.generator.pai_instances import (
    draw_instances,
    draw_instances_of_tasks,
    draw_machine_metrics,
    draw_sensors,
    draw_tags,
)
from tests.generator.pai_jobs import draw_jobs
from tests.generator.pai_shares import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from tests.generator.pai_groups import Groups, Machines

COLUMNS: Final = {
    table: tuple(names.split())
    for table, names in {
        "pai_job_table": "job_name inst_id user status start_time end_time",
        "pai_task_table": (
            "job_name task_name inst_num status start_time end_time plan_cpu plan_mem plan_gpu "
            "gpu_type"
        ),
        "pai_instance_table": (
            "job_name task_name inst_name worker_name inst_id status start_time end_time machine"
        ),
        "pai_sensor_table": (
            "job_name task_name worker_name inst_id machine gpu_name cpu_usage gpu_wrk_util "
            "avg_mem max_mem avg_gpu_wrk_mem max_gpu_wrk_mem read write read_count write_count"
        ),
        "pai_group_tag_table": "inst_id user gpu_type_spec group workload",
        "pai_machine_metric": (
            "worker_name machine start_time end_time machine_cpu_iowait machine_cpu_kernel "
            "machine_cpu_usr machine_gpu machine_load_1 machine_net_receive machine_num_worker "
            "machine_cpu"
        ),
        "pai_machine_spec": "machine gpu_type cap_cpu cap_mem cap_gpu",
    }.items()
}

_FEWEST_JOBS: Final = 60
_JOBS_A_CHUNK: Final = 20_000
_DRAWN_AT_ONCE: Final = 2
_SHARE_OF_DRAWING: Final = 0.7
_MACHINES_KEY, _GROUPS_KEY, _CHUNK_KEY = 0, 1, 2


def write_pai(
    folder: Path, *, scale: float, seed: int, progress: Callable[[float], None] | None = None
) -> dict[str, int]:
    """Write the tables, each as `<table>.tar.gz` and `<table>.header`; return the rows by CSV.

    `progress` is called with the fraction of the work that is done.
    """
    scale = max(scale, _FEWEST_JOBS / ROWS["pai_job_table"])
    machines = draw_machines(generator(seed, PAI_KEY, _MACHINES_KEY), scale)
    jobs = round(ROWS["pai_job_table"] * scale)
    groups = draw_groups(generator(seed, PAI_KEY, _GROUPS_KEY), jobs)
    rows = dict.fromkeys(COLUMNS, 0)
    paths = {table: folder / f"{MARK}{table}.csv" for table in COLUMNS}
    with ExitStack() as open_files:
        files = {t: open_files.enter_context(path.open("wb")) for t, path in paths.items()}
        chunks = math.ceil(jobs / _JOBS_A_CHUNK)

        def draw(chunk: int) -> dict[str, pl.DataFrame]:
            rng = generator(seed, PAI_KEY, _CHUNK_KEY, chunk)
            sizes = {
                table: round(n * scale * (chunk + 1) / chunks) - round(n * scale * chunk / chunks)
                for table, n in ROWS.items()
            }
            return _draw_chunk(rng, sizes, groups=groups, machines=machines)

        for chunk, tables in enumerate(_in_turn(draw, chunks)):
            if chunk == 0:
                tables["pai_machine_spec"] = machines.table
            for table, frame in tables.items():
                frame.select(COLUMNS[table]).write_csv(files[table], include_header=False)
                rows[table] += frame.height
            if progress:
                progress(_SHARE_OF_DRAWING * (chunk + 1) / chunks)
    written = sum(path.stat().st_size for path in paths.values())
    packed = 0
    for table, path in paths.items():
        packed += path.stat().st_size
        pack(folder / f"{MARK}{table}.tar.gz", [path])
        header = ",".join(COLUMNS[table]) + "\n"
        (folder / f"{MARK}{table}.header").write_text(header)
        if progress:
            progress(_SHARE_OF_DRAWING + (1 - _SHARE_OF_DRAWING) * packed / written)
    return {paths[table].name: n for table, n in rows.items()}


def _in_turn(
    draw: Callable[[int], dict[str, pl.DataFrame]], chunks: int
) -> Iterator[dict[str, pl.DataFrame]]:
    """Draw chunks in threads, few at once, and return them in their order."""
    with ThreadPoolExecutor(_DRAWN_AT_ONCE) as threads:
        ahead: deque[Future[dict[str, pl.DataFrame]]] = deque()
        for chunk in range(chunks):
            ahead.append(threads.submit(draw, chunk))
            if len(ahead) == _DRAWN_AT_ONCE:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _draw_chunk(
    rng: np.random.Generator, n: dict[str, int], *, groups: Groups, machines: Machines
) -> dict[str, pl.DataFrame]:
    """Draw so many rows of the six tables that grow; no chunk depends on another."""
    jobs, tasks, course = draw_jobs(rng, n["pai_job_table"], n["pai_task_table"], groups=groups)
    sizes = draw_instances_of_tasks(rng, tasks.height, n["pai_instance_table"])
    tasks = tasks.with_columns(inst_num=pl.Series(sizes.astype(np.float64)))
    instances = draw_instances(rng, tasks, course, machines=machines)
    return {
        "pai_job_table": jobs,
        "pai_task_table": tasks,
        "pai_instance_table": instances,
        "pai_group_tag_table": draw_tags(rng, jobs, n["pai_group_tag_table"]),
        "pai_sensor_table": draw_sensors(rng, instances, n["pai_sensor_table"]),
        "pai_machine_metric": draw_machine_metrics(rng, instances, n["pai_machine_metric"]),
    }
