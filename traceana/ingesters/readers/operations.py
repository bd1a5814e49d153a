"""Operation traces of pipeline-parallel training, summed by worker and step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.readers.frames import FrameBlock
from traceana.ingesters.readers.parquet import open_parquet, read_frames
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_KEY: Final = ("rank", "dp_rank", "stage", "step")
_USED: Final = (*_KEY, "optype", "start_ts", "duration")
_COMPUTE: Final = ("forward-compute", "backward-compute")
_TYPES: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(_KEY, pl.Int64()),
    **dict.fromkeys(("compute_s", "step_s"), pl.Float64()),
    "operations": pl.Int64(),
}


def _open(file: CsvFile, _timezone: str) -> Rows:
    columns = open_parquet(file).columns
    if missing := [name for name in _USED if name not in columns]:
        raise SourceError(f"{file.where}: no operation trace; it lacks {', '.join(missing)}")
    return Rows(tuple(_TYPES), partial(_blocks, file), _TYPES)


def _blocks(file: CsvFile, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    """Yield one row per worker and step; a sum of which an operation is unknown is null."""
    start, duration = (pl.col(name).cast(pl.Float64) for name in ("start_ts", "duration"))
    compute = pl.col("optype").cast(pl.String).is_in(_COMPUTE)
    unknown = (compute & duration.is_null()).any() | ~compute.any()
    parts = [*read_frames(file, _USED)]
    if not parts:
        return
    totals = (
        pl.concat(parts)
        .group_by(_KEY, maintain_order=True)
        .agg(
            compute_s=pl.when(~unknown).then(duration.filter(compute).sum()),
            step_s=(start + duration).max() - start.min(),
            operations=pl.len(),
        )
        .cast(pl.Schema(_TYPES))
    )
    others = int(totals["operations"].sum()) - totals.height
    rows = totals.select(*kinds) if kinds else totals
    yield FrameBlock(rows, kinds, 1, not_applicable=others)


READER: Final = Reader("operations", lambda _file: False, _open)
"""Reader of operation traces; it is used where a mapping names it."""
