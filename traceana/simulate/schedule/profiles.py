"""Throughput of a training job by number of GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.simulate.frames import read_columns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_RATES: Final[dict[str, type[pl.DataType]]] = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "gpus": pl.Int64,
    "iterations_per_s": pl.Float64,
}
_SIZE: Final = "global_batch_size"


@dataclass(frozen=True)
class Profile:
    """Iterations per second of one model and batch size on increasing numbers of GPUs.

    Attributes
    ----------
    gpus, rates
        Profiled numbers of GPUs, and iterations per second on them.
    """

    gpus: tuple[int, ...]
    rates: tuple[float, ...]

    def rate(self, gpus: int, /) -> float:
        """Return the iterations per second on a profiled number of GPUs."""
        try:
            return self.rates[self.gpus.index(gpus)]
        except ValueError:
            counts = ", ".join(map(str, self.gpus))
            raise DataError(
                f"a policy gave {gpus:g} GPUs to a job; its profile has {counts}"
            ) from None

    def below(self, most: int, /) -> Profile:
        """Return the part of the profile up to a number of GPUs."""
        n = sum(gpus <= most for gpus in self.gpus)
        return Profile(self.gpus[:n], self.rates[:n])

    def rising(self) -> Profile:
        """Return the part of the profile on which each further step makes the job faster."""
        n = 1
        while n < len(self.rates) and self.rates[n] > self.rates[n - 1]:
            n += 1
        return Profile(self.gpus[:n], self.rates[:n])


Profiles = dict[tuple[str, int], Profile]


def read_profiles(profiles: IntoFrame | Path | str, /) -> Profiles:
    """Return the profiles by model and batch size.

    A folder has a CSV file per model, named after it, with the columns global_batch_size, 1, 2, 4
    and so on: iterations per second by number of GPUs. A frame has the columns model, batch_size,
    gpus and iterations_per_s. Rates that are missing or 0 are left out, and so are more GPUs than
    samples in a batch.
    """
    frame = _read_folder(Path(profiles)) if isinstance(profiles, (str, Path)) else profiles
    rows = read_columns(frame, _RATES, "profiles").drop_nulls()
    rows = rows.filter(pl.col("iterations_per_s") > 0, pl.col("gpus") <= pl.col("batch_size"))
    if rows.select("model", "batch_size", "gpus").is_duplicated().any():
        raise DataError("profiles: (model, batch_size, gpus) must be unique, and one occurs twice")
    if rows.is_empty():
        raise DataError("profiles: no row has a model, a batch size, GPUs and a rate above 0")
    table = rows.sort("gpus").group_by("model", "batch_size", maintain_order=True)
    return {
        (str(model), int(str(batch))): Profile(
            tuple(of_pair["gpus"]), tuple(of_pair["iterations_per_s"])
        )
        for (model, batch), of_pair in table
    }


def _read_folder(folder: Path) -> pl.DataFrame:
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise DataError(
            f"{folder}: there is no CSV file; --profiles names a folder with one per model"
        )
    tables = []
    for file in files:
        table = pl.read_csv(file, infer_schema=False)
        counts = [name for name in table.columns if name.isdecimal()]
        if _SIZE not in table.columns or not counts:
            raise DataError(f"{file}: the columns must be {_SIZE} and numbers of GPUs")
        rates = table.unpivot(counts, index=_SIZE, variable_name="gpus", value_name="rate")
        tables.append(
            rates.select(
                pl.lit(file.stem).alias("model"),
                pl.col(_SIZE).cast(pl.Int64, strict=False).alias("batch_size"),
                pl.col("gpus").cast(pl.Int64),
                pl.col("rate").cast(pl.Float64, strict=False).alias("iterations_per_s"),
            )
        )
    return pl.concat(tables).with_columns(pl.col("iterations_per_s").fill_nan(None))


def implied_rates(plans: pl.DataFrame, /) -> pl.DataFrame:
    """Return the rates that plans imply: iterations = floor(rate * runtime) for each job.

    A rate is the middle of the bounds that all jobs of a model, batch size and number of GPUs
    allow, or the median of iterations / runtime where no rate fits all.
    """
    low = (pl.col("iterations") / pl.col("runtime_s")).max()
    high = ((pl.col("iterations") + 1) / pl.col("runtime_s")).min()
    return (
        plans.drop_nulls(["model", "batch_size", "iterations"])
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .group_by("model", "batch_size", "gpus")
        .agg(
            pl.when(low < high)
            .then((low + high) / 2)
            .otherwise((pl.col("iterations") / pl.col("runtime_s")).median())
            .alias("iterations_per_s")
        )
        .sort("model", "batch_size", "gpus")
    )
