"""GPU samples of ``nvidia-smi --query-gpu``, ``dcgmi dmon`` and Prometheus (``query_range``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile, beginning, first_lines
from traceana.ingesters.parsing import own_table
from traceana.ingesters.readers.json import read_items
from traceana.ingesters.readers.reader import (
    FrameBlock,
    Parsed,
    Reader,
    Rows,
    item_blocks,
    line_blocks,
    own_mapping,
    scaled,
)

_MAPPING: Final = own_mapping("gpu_samples")
_COLUMNS: Final = ("machine", "gpu", "time", "utilization", "memory_gib", "power_w", "job")
_SMI_NEEDS: Final = ("timestamp", "utilization.gpu")
_EPOCH: Final = re.compile(r"\d{9,11}(?:\.\d+)?")
_SMI_FIELDS: Final[dict[str, list[str]]] = {
    column: fields.split() for column, fields in own_table("formats")["nvidia_smi"].items()
}
"""Fields of a heading, without their unit, that each column is taken from: the first one there."""
_SCALE: Final = {"%": 0.01, "MiB": 1 / 1024, "GiB": 1.0, "KiB": 1 / 1024**2, "W": 1.0, "mW": 1e-3}
_NO_VALUE: Final = re.compile(r"\[.*\]|N/A|ERR!|Unknown Error", re.IGNORECASE)
_VALUE: Final = re.compile(r"(\S+?)\s*(%|[KMG]iB|m?W)?")


def _smi_heading(line: bytes) -> list[tuple[str, str]]:
    cells = line.decode(errors="replace").removeprefix("\ufeff").split(",")
    matches = (re.fullmatch(r"\s*([\w.]+)(?:\s+\[(.*)\])?\s*", cell) for cell in cells)
    return [(match[1].lower(), match[2] or "") if match else ("", "") for match in matches]


def _open_smi(file: CsvFile, _timezone: str) -> Rows:
    heading = _smi_heading(file.head)
    names = [name for name, _ in heading]
    if missing := [field for field in _SMI_NEEDS if field not in names]:
        raise SourceError(
            f"{file.where}: its heading lacks {', '.join(missing)}; make it with nvidia-smi "
            "--query-gpu=timestamp,index,utilization.gpu,memory.used,power.draw --format=csv -l 30"
        )
    places = {
        column: names.index(next(field for field in fields if field in names))
        for column, fields in _SMI_FIELDS.items()
        if not set(fields).isdisjoint(names)
    }
    header = file.head.decode(errors="backslashreplace")

    def parse(line: str) -> Parsed:
        if not line or line.isspace() or line.rstrip("\r") == header:  # again, of a later run
            return True
        cells = line.split(",", maxsplit=len(names))
        if len(cells) != len(names):
            return "short_row" if len(cells) < len(names) else "long_row"
        row: dict[str, str | None] = {"gpu": "0"}
        for column, place in places.items():
            value = cells[place].strip()
            if not value or _NO_VALUE.fullmatch(value):
                row[column] = None
            elif column in ("utilization", "memory_gib", "power_w"):
                row[column] = _in_unit(value, heading[place][1])
            else:
                row[column] = value.replace("/", "-") if column == "time" else value
        return row

    rows = (line.split(",") for line in first_lines(file))
    times = [cells[places["time"]].strip() for cells in rows if len(cells) == len(names)]
    numeric = any(_EPOCH.fullmatch(time) for time in times[:2])  # a heading may come first
    return Rows(
        _COLUMNS, partial(line_blocks, file, parse), {"time": pl.Float64()} if numeric else {}
    )


def _in_unit(value: str, unit: str) -> str:
    match = _VALUE.fullmatch(value)
    try:
        return repr(float(match[1]) * _SCALE[match[2] or unit]) if match else value
    except (KeyError, ValueError):
        return value


NVIDIA_SMI: Final = Reader(
    "nvidia-smi",
    lambda file: {*_SMI_NEEDS} <= {name for name, _ in _smi_heading(file.head)},
    _open_smi,
    (".csv", ".log"),
    _MAPPING,
)

_DCGM_FIELDS: Final[dict[str, dict[str, float]]] = own_table("formats")["dcgmi"]
"""Short names of DCGM's fields that each column is taken from, the first one there, with factor."""
_HEADING: Final = re.compile(r"(.*?)#\s*Entity\s+(.+)", re.IGNORECASE)
_ROW: Final = re.compile(r"(.*?)\b(?:GPU|GPU-I)\s+(\d+)\s+(\S.*)")


def _dcgm_heading(file: CsvFile) -> list[str]:
    lines = file.head.decode(errors="replace").splitlines() or [""]
    match = _HEADING.fullmatch(lines[0].rstrip())
    return match[2].split() if match else []


def _open_dcgmi(file: CsvFile, _timezone: str) -> Rows:
    names = _dcgm_heading(file)
    fields = {
        column: next(((names.index(name), by) for name, by in units.items() if name in names), None)
        for column, units in _DCGM_FIELDS.items()
    }
    if not any(fields.values()):
        raise SourceError(
            f"{file.where}: no field of its heading is known; make it with dcgmi dmon "
            "-e 203,252,155 | ts '%.s'"
        )
    begins = (_ROW.fullmatch(line) for line in first_lines(file))
    stamp = next((begin[1].strip() for begin in begins if begin), "")
    numeric = not stamp or _EPOCH.fullmatch(stamp)

    def blocks(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
        seen: dict[str, int] = {}  # without times each sample is a second after the one before

        def parse(line: str) -> Parsed:
            match = _ROW.fullmatch(line)
            if match is None:  # the heading is repeated
                return True
            time, gpu, values = match[1].strip(" \t[]"), match[2], match[3].split(None, len(names))
            if len(values) != len(names):
                return "short_row" if len(values) < len(names) else "long_row"
            seen[gpu] = seen.get(gpu, -1) + 1
            row: dict[str, str | None] = {"gpu": gpu, "time": time if stamp else str(seen[gpu])}
            for column, field in fields.items():
                if field is not None and values[field[0]] not in ("N/A", "-"):
                    row[column] = scaled(values[field[0]], field[1])
            return row

        return line_blocks(file, parse, kinds)

    return Rows(_COLUMNS, blocks, {"time": pl.Float64()} if numeric else {})


DCGMI: Final = Reader(
    "dcgmi",
    lambda file: bool(_dcgm_heading(file)),
    _open_dcgmi,
    (".txt", ".log", ".dmon"),
    _MAPPING,
)

_METRICS: Final[dict[str, tuple[str, float]]] = own_table("formats")["prometheus"]
"""By metric of DCGM, NVIDIA exporters or AMD, the column and the divisor to its unit."""
_LABELS: Final[dict[str, str]] = own_table("formats")["prometheus_labels"]
"""Labels of a series that name the machine, the GPU and the job; the first one there."""
_BEGINNING: Final = 1 << 16
_OPENING: Final = re.compile(r'"result"\s*:\s*\[')


def _points(file: CsvFile) -> Iterator[tuple[str, Parsed]]:
    """Read a series after the other, and yield its points: text, and row or rule."""
    for text, series in read_items(file, opening=_OPENING):
        members = series if isinstance(series, dict) else {}
        labels = members.get("metric")
        # an instant query has one point
        values = [members["value"]] if "value" in members else members.get("values")
        if not isinstance(labels, dict) or not isinstance(values, list):
            yield text, "not_a_series"
            continue
        column, divisor = _METRICS.get(str(labels.get("__name__")), ("", 1.0))
        named = {
            "machine": _first(labels, "machine")
            or re.sub(r":\d+$", "", str(labels.get("instance") or ""))
            or None,
            "gpu": _first(labels, "gpu") or "0",
            "job": _first(labels, "job") or _pod(labels),
        }
        about = text[:200].partition("}")[0]
        for point in values:
            if not (isinstance(point, list) and len(point) == 2):
                yield f"{about} {point}", "not_a_point"
            elif not column:
                yield about, False
            else:
                time, value = map(str, point)
                row = named | {"time": time, column: _value(value, column, divisor)}
                yield f"{about} [{time}, {value}]", row


def _first(labels: dict[str, Any], what: str) -> str | None:
    names = _LABELS[what].split()
    return next((str(labels[name]) for name in names if labels.get(name)), None)


def _pod(labels: dict[str, Any]) -> str | None:
    """Return the pod on a GPU as kubectl's reader names it; ``pod`` may be the exporter itself."""
    for outer in ("exported_", ""):
        pod, space = (str(labels.get(f"{outer}{name}") or "") for name in ("pod", "namespace"))
        if pod and "exporter" not in pod:
            return f"{space or 'default'}/{pod}"
    return None


def _value(value: str, column: str, divisor: float) -> str | None:
    if column == "job":
        return None if value == "0" else value  # no job on the GPU
    try:
        number = float(value)
    except ValueError:
        return value
    return None if number != number else repr(number / divisor)  # noqa: PLR0124  NaN is no value


def _open_prometheus(file: CsvFile, _timezone: str) -> Rows:
    if not _detect_prometheus(file):
        raise SourceError(
            f"{file.where}: no answer of Prometheus to a query; save that of "
            "/api/v1/query_range?query={__name__=~'DCGM_FI_DEV_(GPU_UTIL|FB_USED|POWER_USAGE)'}"
        )
    return Rows(
        _COLUMNS,
        lambda kinds: item_blocks(_points(file), lambda row: row, kinds),
        {"time": pl.Float64()},
    )


def _detect_prometheus(file: CsvFile) -> bool:
    kind = re.compile(rb'"resultType"\s*:\s*"(matrix|vector)"')
    return file.opening == b"{" and kind.search(beginning(file, _BEGINNING)) is not None


PROMETHEUS: Final = Reader("prometheus", _detect_prometheus, _open_prometheus, (".json",), _MAPPING)
