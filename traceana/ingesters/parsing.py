"""Times, durations and sizes as text or numbers become seconds, bytes or GiB."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Final

import polars as pl

SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

BYTES: Final = {"B": 1.0} | {
    f"{prefix}{binary}B": float((1024 if binary else 1000) ** power)
    for power, prefix in enumerate("KMGTP", 1)
    for binary in ("i", "")
}

_ZONE: Final = re.compile(r"%(?:[:#]*z|\+)")
_ISO: Final = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_HAS_OFFSET: Final = r"[+-]\d{2}:?\d{2}$"
_DURATION: Final = (
    r"^(?:(?:(?<days>[0-9]+)(?:-| days?,? *))?(?<hours>[0-9]+):)?(?<minutes>[0-9]+):"
    r"(?<seconds>[0-9]+(?:\.[0-9]+)?)$"
)
_SIZE: Final = (
    r"^(?<number>[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?)\s*(?<prefix>[KMGTPkmgtp]?)(?<binary>i?)[Bb]?$"
)


@cache
def own_table(name: str, /) -> dict[str, Any]:
    """Return a TOML file of this package, such as the synonyms of columns."""
    text = files("traceana.ingesters").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def read_time(text: pl.Expr, /, *, layout: str | None, timezone: str) -> pl.Expr:
    """Read Unix seconds from text; what is no time is null."""
    if layout is not None and _ZONE.search(layout):
        return _epoch(_to_datetime(text, layout, "UTC"))
    if layout is not None:
        return _epoch(_localize(_to_datetime(text, layout, None), timezone))

    def read(values: pl.Series) -> pl.Series:
        """Read all in the first way that can, else in the last: most columns are alike."""
        frame = values.alias("text").to_frame()
        for form in ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"):
            local = _to_datetime(pl.col("text"), form, None)
            parsed = frame.select(_epoch(_localize(local, timezone))).to_series()
            if parsed.null_count() == values.null_count():
                return parsed
        return frame.select(_read_iso(pl.col("text"), timezone)).to_series()

    return text.map_batches(read, return_dtype=pl.Float64(), is_elementwise=True)


def _read_iso(text: pl.Expr, timezone: str) -> pl.Expr:
    plain = text.str.replace("T", " ", literal=True).str.replace(r"Z$", "+00:00")
    local = pl.coalesce(_to_datetime(plain, form, None) for form in _ISO)
    offset = _to_datetime(plain.str.replace(r"\s*([+-]\d{2}:?\d{2})$", "$1"), f"{_ISO[0]}%z", "UTC")
    has_offset = plain.str.contains(_HAS_OFFSET) & plain.str.contains(":", literal=True)
    return pl.when(has_offset).then(_epoch(offset)).otherwise(_epoch(_localize(local, timezone)))


def read_datetime(value: pl.Expr, dtype: pl.DataType, /, *, timezone: str) -> pl.Expr:
    """Return Unix seconds of a date or datetime."""
    moment = value.cast(pl.Datetime("us", getattr(dtype, "time_zone", None)))
    return _epoch(moment if getattr(dtype, "time_zone", None) else _localize(moment, timezone))


def read_duration(text: pl.Expr, /) -> pl.Expr:
    """Read seconds from ``[dd-]hh:mm:ss`` or ``mm:ss``; what is neither is null."""
    parts = text.str.extract_groups(_DURATION)
    units = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
    seconds = (
        parts.struct.field(name).cast(pl.Float64).fill_null(0) * unit
        for name, unit in units.items()
    )
    return pl.when(text.str.contains(_DURATION)).then(pl.sum_horizontal(seconds))


def read_size(text: pl.Expr, /, *, unit: str, base: int) -> pl.Expr:
    """Read bytes from a number with K, M, G, T or P; what is none is null."""
    parts = text.str.extract_groups(_SIZE)
    prefix = parts.struct.field("prefix").str.to_uppercase()
    power = prefix.replace_strict(list("KMGTP"), range(1, 6), default=0, return_dtype=pl.Float64)
    factor = pl.when(parts.struct.field("binary") == "i").then(1024.0).otherwise(float(base))
    plain = (prefix == "") & ~text.str.contains("[Bb]$")
    scale = pl.when(plain).then(BYTES[unit]).otherwise(factor.pow(power))
    return parts.struct.field("number").cast(pl.Float64) * scale


def _to_datetime(text: pl.Expr, layout: str, zone: str | None) -> pl.Expr:
    return text.str.to_datetime(layout, time_unit="us", time_zone=zone, strict=False)


def _localize(moment: pl.Expr, timezone: str) -> pl.Expr:
    return moment.dt.replace_time_zone(timezone, ambiguous="earliest", non_existent="null")


def _epoch(moment: pl.Expr) -> pl.Expr:
    return moment.dt.epoch("us") / 1e6
