"""GPU samples in the answers of Prometheus to range queries (``/api/v1/query_range``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import beginning
from traceana.ingesters.readers.frames import item_blocks
from traceana.ingesters.readers.json import read_items
from traceana.ingesters.readers.nvidia_smi import COLUMNS, MAPPING
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.frames import Parsed

_METRICS: Final[dict[str, tuple[str, float]]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilization", 0.01),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("utilization", 1.0),
    "nvidia_smi_utilization_gpu_ratio": ("utilization", 1.0),
    "nvidia_gpu_duty_cycle": ("utilization", 0.01),
    "gpu_gfx_activity": ("utilization", 0.01),
    "DCGM_FI_DEV_FB_USED": ("memory_gib", 1 / 1024),
    "nvidia_smi_memory_used_bytes": ("memory_gib", 1 / 1024**3),
    "nvidia_gpu_memory_used_bytes": ("memory_gib", 1 / 1024**3),
    "gpu_used_vram": ("memory_gib", 1 / 1024),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1.0),
    "nvidia_smi_power_draw_watts": ("power_w", 1.0),
    "nvidia_gpu_power_usage_milliwatts": ("power_w", 1e-3),
    "gpu_package_power": ("power_w", 1.0),
    "nvidia_gpu_jobId": ("job", 1.0),
}
"""By metric of DCGM, NVIDIA exporters or AMD, the column and the factor to its unit."""
_MACHINE: Final = ("Hostname", "hostname", "host", "node", "kubernetes_node", "nodename")
_GPU: Final = ("gpu", "minor_number", "gpu_id", "device", "UUID", "uuid")
_JOB: Final = ("hpc_job", "jobid", "slurm_job_id", "job_id")
_BEGINNING: Final = 1 << 16
_OPENING: Final = re.compile(r'"result"\s*:\s*\[')


def _points(file: CsvFile) -> Iterator[tuple[str, Parsed]]:
    """Read a series after the other, and yield its points: text, and row or rule."""
    for text, series in read_items(file, opening=_OPENING):
        found = series if isinstance(series, dict) else {}
        labels, values = found.get("metric"), _values(found)
        if not isinstance(labels, dict) or values is None:
            yield text, "not_a_series"
            continue
        column, factor = _METRICS.get(str(labels.get("__name__")), ("", 0.0))
        named = {
            "machine": _first(labels, _MACHINE) or _instance(labels),
            "gpu": _first(labels, _GPU) or "0",
            "job": _first(labels, _JOB) or _pod(labels),
        }
        about = text[:200].partition("}")[0]
        for point in values:
            if not (isinstance(point, list) and len(point) == 2):
                yield f"{about} {point}", "not_a_point"
            elif not column:
                yield about, False
            else:
                time, value = map(str, point)
                row = named | {"time": time, column: _scaled(value, column, factor)}
                yield f"{about} [{time}, {value}]", row


def _values(series: dict[str, Any]) -> list[Any] | None:
    """Return the points of a series; an instant query has one."""
    values = [series["value"]] if "value" in series else series.get("values")
    return values if isinstance(values, list) else None


def _first(labels: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((str(labels[name]) for name in names if labels.get(name)), None)


def _pod(labels: dict[str, Any]) -> str | None:
    """Return the pod on a GPU as kubectl's reader names it; ``pod`` may be the exporter itself."""
    for outer in ("exported_", ""):
        pod, space = (str(labels.get(f"{outer}{name}") or "") for name in ("pod", "namespace"))
        if pod and "exporter" not in pod:
            return f"{space or 'default'}/{pod}"
    return None


def _instance(labels: dict[str, Any]) -> str | None:
    """Return the machine that was scraped, without its port."""
    instance = labels.get("instance")
    return re.sub(r":\d+$", "", str(instance)) if instance else None


def _scaled(value: str, column: str, factor: float) -> str | None:
    if column == "job":
        return None if value == "0" else value  # no job on the GPU
    try:
        number = float(value)
    except ValueError:
        return value
    return None if number != number else repr(number * factor)  # noqa: PLR0124  NaN is no value


def _open(file: CsvFile, _timezone: str) -> Rows:
    if not _detect(file):
        raise SourceError(
            f"{file.where}: no answer of Prometheus to a query; save that of "
            "/api/v1/query_range?query={__name__=~'DCGM_FI_DEV_(GPU_UTIL|FB_USED|POWER_USAGE)'}"
        )
    return Rows(
        COLUMNS,
        lambda kinds: item_blocks(_points(file), lambda row: row, kinds),
        {"time": pl.Float64()},
    )


def _detect(file: CsvFile) -> bool:
    if not file.head.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
        return False
    return (
        re.search(rb'"resultType"\s*:\s*"(matrix|vector)"', beginning(file, _BEGINNING)) is not None
    )


READER: Final = Reader("prometheus", _detect, _open, (".json",), MAPPING)
"""Reader of answers of Prometheus."""
