"""Propose how each column of a table is read, from the names and values of a source's columns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from traceana.ingesters.parsing import (
    BYTES,
    SECONDS,
    own_table,
    read_datetime,
    read_duration,
    read_size,
    read_time,
)

_NAMES: Final = own_table("synonyms")
JOBS: Final[dict[str, str]] = _NAMES["jobs"]
WORKER_SAMPLES: Final[dict[str, str]] = _NAMES["worker_samples"]
OPERATIONS: Final[dict[str, str]] = _NAMES["operations"]
FAULTS: Final[dict[str, str]] = _NAMES["faults"]
GPU_SAMPLES: Final[dict[str, str]] = _NAMES["gpu_samples"]
MACHINES: Final = {"machine_id": FAULTS["machine_id"]} | {
    name: JOBS[name] for name in ("gpu_type", "gpus", "cpus", "memory_gib")
}
STATUSES: Final[dict[str, str]] = _NAMES["statuses"]
TIME_UNITS: Final[dict[str, str]] = _NAMES["time_units"]
SIZE_UNITS: Final[dict[str, str]] = _NAMES["size_units"]
PERCENT: Final = {"percent": "percent pct perc"}
UNITS: Final = (TIME_UNITS, SIZE_UNITS, PERCENT)

GPU_COUNT: Final = r"^\s*(?:(\d+)\s*[x\u00d7*]\s*(\S.*)|(\S.*?)\s*[x\u00d7*:]\s*(\d+))\s*$"
"""A type of GPU and their number in one cell: 4x A100, A100-80G x4, a100:4."""

HOSTS: Final[list[str]] = _NAMES["hosts"].split()
"""Names of the machines of a job, which are kept as ``node``."""

NOT_ALWAYS_TIMES: Final = frozenset(
    ("queued", "queued_time", "queue_time", "enqueued", "scheduled", "completed")
)
"""Names of a time that may also be those of a wait or a number."""

FAILING: Final = r"fail|fault|down_?time|repair|fixed|root_cause|outage"
"""Part of the name of a column that only a fault log has."""

MOST: Final = 0.9  # of the values have to fit
CLOCKS: Final = ("submit_s", "start_s", "end_s", "time_s")
_DURATIONS: Final = (
    "runtime_s",
    "duration_s",
    "downtime_s",
    "time_limit_s",
    "cpu_time_s",
    "batch_time",
)
_SIZES: Final = ("memory_gib", "memory_gib_used")
_COUNTS: Final = ("gpus", "cpus", "nodes", "priority", "restarts", "energy_j", "step")
_LARGEST_GIB: Final = 16_384.0  # more memory than any machine of such a cluster has
_MOST_STATUSES: Final = 40
SAMPLE: Final = 20_000
_OF_SLURM: Final = ("COMPLETED", "FAILED", "CANCELLED", "RUNNING", "PENDING")
"""States that later rows of a log may have if the first ones have two of them."""
YEAR_2000: Final = 946_684_800.0
_YEAR_S: Final = 31_557_600
_MOST_YEARS: Final = 20


@dataclass
class Proposal:
    """Lines of a mapping, and what is read of the sample by them."""

    cells: pl.DataFrame
    lines: list[str] = field(default_factory=list)
    seconds: dict[str, pl.Series] = field(default_factory=dict)

    def add(self, target: str, value: str, *doubts: str) -> None:
        """Add a line, and before it what is doubtful."""
        self.lines += [f"# unsure: {doubt}" for doubt in doubts]
        self.lines.append(f"{target} = {value}")

    def doubt(self, doubt: str) -> None:
        """Add what is doubtful alone."""
        self.lines.append(f"# unsure: {doubt}")

    def read(self, value: pl.Expr) -> pl.Series:
        """Return an expression over the sample."""
        return self.cells.select(value.alias("value")).to_series()

    def fits(self, value: pl.Expr, column: str) -> bool:
        """Return whether an expression reads most values of a column."""
        return fraction_read(self.read(value), self.cells[column]) >= MOST

    def texts(self, column: str) -> pl.Series:
        """Return a column as text."""
        cells = self.cells[column]
        return cells.dt.to_string() if cells.dtype == pl.Duration else cells.cast(pl.String)

    def numbers(self, column: str) -> pl.Series | None:
        """Return a column as numbers, or None where most of it is none."""
        text = self.texts(column)
        number = text.cast(pl.Float64, strict=False)
        return number if fraction_read(number, text) >= MOST else None


_NO_GPU: Final = ("none", "no", "cpu", "cpu only", "-", "0")


def split_gpus(matched: dict[str, str], proposal: Proposal) -> None:
    """Propose number and type of GPUs from a column that has both, such as ``A100-80G x4``."""
    column = matched.get("gpus")
    if column is None or proposal.cells[column].dtype.is_temporal():
        return
    if proposal.numbers(column) is not None:
        return
    texts = proposal.texts(column).drop_nulls()
    without = texts.str.to_lowercase().is_in(_NO_GPU)
    texts = texts.filter(~without)
    parts = texts.str.extract_groups(GPU_COUNT).struct.unnest()
    if fraction_read(parts.select(pl.coalesce("1", "4")).to_series(), texts) < MOST:
        return
    first = parts["1"].null_count() < parts.height / 2
    signs = ("x ", "x") if first else (" x", "x")
    sign = max(
        (*signs, "\u00d7", "*", ":"), key=lambda mark: texts.str.contains(mark, literal=True).sum()
    )
    cells, quoted = _sql(column), sign.replace("'", "''")
    number, name = (1, 2) if first else (2, 1)
    part = "TRIM(SPLIT_PART({}, '{}', {}))"
    doubt = f"{column} has type and number of GPUs, such as {texts.first()!r}"
    reason = f'"{column}" has the name of gpus'
    proposal.lines = [line for line in proposal.lines if reason not in line]
    value = f"CAST({part.format(cells, quoted, number)} AS DOUBLE)"
    kind = part.format(cells, quoted, name)
    if without.any():
        listed = ", ".join(f"'{word}'" for word in _NO_GPU)
        value = f"CASE WHEN LOWER({cells}) IN ({listed}) THEN 0 ELSE {value} END"
        kind = f"CASE WHEN LOWER({cells}) NOT IN ({listed}) THEN {kind} END"
    proposal.add("gpus", json.dumps(value), doubt)
    if "gpu_type" not in matched:
        proposal.add("gpu_type", json.dumps(kind))


def propose_column(target: str, column: str, proposal: Proposal) -> None:
    """Add the line of a column of the table, from a column of the source."""
    name, dtype = json.dumps(column), proposal.cells[column].dtype
    if dtype.is_temporal() and target not in (_DURATIONS if dtype == pl.Duration else CLOCKS):
        proposal.doubt(f"{name} has the name of {target}, but type {dtype}")
    elif target in _COUNTS and proposal.numbers(column) is None:
        proposal.doubt(f"{name} has the name of {target}, but few numbers")
    elif target == "status":
        _propose_status(column, proposal)
    elif target in _FORMS:
        _FORMS[target](target, column, proposal)
    elif target == "cpus" and re.search(r"milli", column, re.IGNORECASE):
        proposal.add(target, json.dumps(f"{_sql(column)} / 1000"))
    else:
        proposal.add(target, name)


def _propose_utilization(target: str, column: str, proposal: Proposal) -> None:
    numbers = proposal.numbers(column)
    stated = split_unit(column, PERCENT)[1]
    if stated or (numbers is not None and float(numbers.max() or 0.0) > 1):  # type: ignore[arg-type]
        doubts = [] if stated else [f"{column} is taken as a percentage: it is above 1"]
        proposal.add(target, json.dumps(f"{_sql(column)} / 100"), *doubts)
    else:
        proposal.add(target, json.dumps(column))


def _propose_status(column: str, proposal: Proposal) -> None:
    words = (
        proposal.texts(column)
        .drop_nulls()
        .str.replace(r"^(\S+) by .*", "$1*")
        .value_counts(sort=True)
    )
    if words.height > _MOST_STATUSES:
        proposal.doubt(f"{column} has {words.height} values, too many for a status")
        return
    seen = words[column].to_list()
    if proposal.texts(column).len() >= SAMPLE and len({*seen} & {*_OF_SLURM}) > 1:
        seen += [word for word in _OF_SLURM if word not in seen]
    lines, strange = [], []
    for word in seen:
        status = _status_of(word)
        strange += [] if status else [word]
        lines.append(f"{json.dumps(word)} = {json.dumps(status or 'unknown')}")
    doubts = [f"the meaning of {', '.join(map(repr, strange))}"] if strange else []
    proposal.add(
        "status", f"{{ column = {json.dumps(column)}, values = {{ {', '.join(lines)} }} }}", *doubts
    )


def _status_of(word: str) -> str | None:
    return next((s for s, form in STATUSES.items() if re.search(form, word.lower())), None)


def propose_reason(matched: dict[str, str], proposal: Proposal) -> None:
    """Keep the words of a status as end reasons where several of them are one status."""
    column = matched.get("status")
    if column is None or "end_reason" in matched:
        return
    words = proposal.texts(column).drop_nulls().unique()
    statuses = {_status_of(word) for word in words}
    if len(statuses) < words.len() <= _MOST_STATUSES:
        proposal.add("end_reason", json.dumps(column))


def _propose_time(target: str, column: str, proposal: Proposal) -> None:
    dtype, numbers = proposal.cells[column].dtype, proposal.numbers(column)
    if dtype.is_temporal():
        value = read_datetime(pl.col(column), dtype, timezone="UTC")
        proposal.seconds[target] = proposal.cells.select(value).to_series()
        proposal.add(target, f"{{ time = {json.dumps(column)} }}")
    elif numbers is not None:
        _propose_clock(target, column, numbers, proposal)
    else:
        _propose_layout(target, column, proposal)


def _propose_clock(target: str, column: str, numbers: pl.Series, proposal: Proposal) -> None:
    """Propose the unit of times that are numbers; since 1970 where that makes them recent."""
    typical = median(numbers)
    recent = [
        unit
        for unit in ("s", "ms", "us", "ns")
        if YEAR_2000 < typical * SECONDS[unit] < 4 * YEAR_2000
    ]
    stated = split_unit(column, TIME_UNITS)[1]
    unit = next(iter(recent), stated) or "s"
    span = float((numbers - numbers.min()).max() or 0.0)  # type: ignore[arg-type]
    years = span * SECONDS[unit] / _YEAR_S
    doubts = []
    if recent and not stated and years > _MOST_YEARS:
        doubts = [f"as {unit} the values of {column} span {years:,.0f} years"]
    elif not (recent or stated):
        doubts = [f"{column} is taken as seconds on the log's own clock"]
    proposal.seconds[target] = numbers * SECONDS[unit]
    proposal.add(target, f'{{ time = {json.dumps(column)}, unit = "{unit}" }}', *doubts)


def _propose_layout(target: str, column: str, proposal: Proposal) -> None:
    name, cells, text = json.dumps(column), proposal.cells, pl.col(column)
    times = {
        layout: proposal.read(read_time(text, layout=layout, timezone="UTC"))
        for layout in (None, *own_table("formats")["times"]["formats"])
    }
    fits = [layout for layout in times if fraction_read(times[layout], cells[column]) >= MOST]
    if not fits:
        proposal.doubt(f"the format of {name} for {target}: {cells[column].drop_nulls().first()!r}")
        return
    layout = fits[0]
    proposal.seconds[target] = times[layout]
    option = "" if layout is None else f", format = {json.dumps(layout)}"
    doubts = [f"{fits[1]} fits as well"] if layout and len(fits) > 1 else []
    proposal.add(target, f"{{ time = {name}{option} }}", *doubts)


def _propose_duration(target: str, column: str, proposal: Proposal) -> None:
    name, numbers = json.dumps(column), proposal.numbers(column)
    if proposal.cells[column].dtype == pl.Duration:
        proposal.add(target, f"{{ duration = {name} }}")
    elif numbers is not None:
        unit = split_unit(column, TIME_UNITS)[1]
        doubts: list[str] = []
        begin, end = proposal.seconds.get("start_s"), proposal.seconds.get("end_s")
        if target in ("runtime_s", "downtime_s") and begin is not None and end is not None:
            doubts, unit = _compare_runtime(column, numbers, end - begin, unit)
            proposal.seconds[target] = numbers * SECONDS[unit]
        elif unit is None and column.lower() not in TIME_UNITS["s"].split():
            doubts = [f"{column} is taken as seconds: its median is {median(numbers):,.6g}"]
        unit = unit or "s"
        value = name if unit == "s" else json.dumps(f"{_sql(column)} * {SECONDS[unit]:g}")
        form = target != "batch_time" and unit != "s"
        proposal.add(
            target, f'{{ duration = {name}, unit = "{unit}" }}' if form else value, *doubts
        )
    elif proposal.fits(read_duration(pl.col(column)), column):
        proposal.seconds[target] = proposal.read(read_duration(pl.col(column)))
        proposal.add(target, f"{{ duration = {name} }}")
    else:
        proposal.doubt(f"the format of {name} for {target}")


def _compare_runtime(
    column: str, numbers: pl.Series, between: pl.Series, stated: str | None
) -> tuple[list[str], str]:
    """Return the unit in which a runtime fits end minus start, and what is doubtful in that."""
    both = pl.DataFrame({"n": numbers, "b": between}).filter((pl.col("n") > 0) & (pl.col("b") > 0))
    if not both.height:
        return [], stated or "s"
    ratio = median(both["n"] / both["b"])
    unit = min(SECONDS, key=lambda row: abs(ratio * SECONDS[row] - 1))
    evidence = f"{column} is {ratio:.3g} times end minus start (median of {both.height:,} rows)"
    if abs(ratio * SECONDS[unit] - 1) > 1 - MOST:
        return [evidence], stated or "s"
    if unit == (stated or "s"):
        return [], unit
    return [f"{evidence}, so its unit is {unit}, not {stated or 's'}"], unit


def _propose_size(target: str, column: str, proposal: Proposal) -> None:
    name, numbers = json.dumps(column), proposal.numbers(column)
    if numbers is None:
        if proposal.fits(read_size(pl.col(column), unit="B", base=1024), column):
            proposal.add(target, f"{{ size = {name} }}")
        else:
            proposal.doubt(f"the format of {name} for {target}")
        return
    largest = float(numbers.max() or 0.0)  # type: ignore[arg-type]
    stated = split_unit(column, SIZE_UNITS)[1]
    unit = stated or "GiB"
    doubts = []
    if largest * BYTES[unit] / BYTES["GiB"] > _LARGEST_GIB:
        gib = {unit: largest * BYTES[unit] / BYTES["GiB"] for unit in ("MiB", "KiB")}
        fitting = next((unit for unit in gib if gib[unit] <= _LARGEST_GIB), "B")
        doubts = [f"the largest {column} is {largest:,.0f}, too much in {unit}; {fitting} is taken"]
        unit = fitting
    elif stated is None:
        doubts = [f"{column} is taken as GiB: its median is {median(numbers):,.6g}"]
        whole = numbers.drop_nulls().filter(numbers.drop_nulls() > 0)
        if len(whole) and whole.min() >= 256 and (whole % 256 == 0).mean() > MOST:  # type: ignore[operator]
            doubts, unit = [f"every {column} is a multiple of 256, which suggests MiB"], "MiB"
    proposal.add(target, f'{{ size = {name}, unit = "{unit}" }}', *doubts)


_FORMS: Final = {
    **dict.fromkeys(CLOCKS, _propose_time),
    **dict.fromkeys(_DURATIONS, _propose_duration),
    **dict.fromkeys(_SIZES, _propose_size),
    **dict.fromkeys(("gpu_utilization", "utilization"), _propose_utilization),
}


def median(numbers: pl.Series, /) -> float:
    """Return the median of numbers, 0 where there are none."""
    return float(numbers.median() or 0.0)  # type: ignore[arg-type]


def fraction_read(read: pl.Series, given: pl.Series, /) -> float:
    """Return which fraction of the given values could be read."""
    n_read = len(given) - given.null_count()
    return (len(read) - read.null_count()) / n_read if n_read else 0.0


def _sql(column: str) -> str:
    return (
        column if re.fullmatch(r"[A-Za-z_]\w*", column) else '"' + column.replace('"', '""') + '"'
    )


def split_unit(name: str, units: dict[str, str], /) -> tuple[str, str | None]:
    """Return a column's name in snake case without its unit, and the unit."""
    plain = re.sub(r"([KMGT])iB\b", r"_\1ib", name.rpartition(".")[2])
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    plain = re.sub(r"[^a-z0-9]+", "_", plain.lower().replace("(s)", "")).strip("_")
    plain = re.sub(r"_(?:in|epoch|unix|utc|local)(?=_|$)", "", plain)
    base, _, last = plain.rpartition("_")
    for unit, words in units.items():
        if base and last in words.split():
            return base, unit
    return plain, None


def nested_names(name: str, /) -> dict[str, int]:
    """Return what a column may be called, each with a rank: its name, that with the outer one."""
    *outer, last = name.split(".")
    if not outer:
        return {name: 0}
    generic = last in ("count", "id", "login", "model", "name", "type", "uid", "uuid", "value")
    names = {name: 50 if generic else 0, f"{outer[-1]}_{last}": 0}
    of_outer = ("id", "login", "name", "uid", "uuid", "value")
    return names | ({outer[-1]: 1} if last in of_outer else {})
