"""Devices and clusters of the paper, with throughput estimates from data sheets."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.errors import DataError

DEVICES: Final = pl.DataFrame(
    [
        ("t4", 2560, 8.1, "NVIDIA T4 data sheet: 2,560 CUDA cores, 8.1 TFLOPS single precision"),
        ("p4", 2560, 5.5, "NVIDIA Tesla P4 data sheet: 2,560 CUDA cores, 5.5 TFLOPS"),
        ("p100", 3584, 9.3, "NVIDIA Tesla P100 PCIe data sheet: 3,584 CUDA cores, 9.3 TFLOPS"),
        ("v100", 5120, 14.0, "NVIDIA Tesla V100 PCIe data sheet: 5,120 CUDA cores, 14 TFLOPS"),
        (
            "xeon-48",
            48,
            48 * 2.0e9 * 32 / 1e12,
            "48 cores, assumed at 2.0 GHz and 32 operations a cycle; the paper names no model",
        ),
    ],
    schema={"device": pl.String, "cores": pl.Int64, "tflops": pl.Float64, "source": pl.String},
    orient="row",
)
"""Cores and peak single-precision TFLOPS of a device, with their source."""

LEVELS: Final = {
    name: tuple(map(int, name.split("/")))
    for name in (
        *("12/12/12/12", "12/12/8/16", "9/9/6/24", "6/6/4/32"),
        *("16/16/16", "12/16/20", "8/16/24", "6/12/30"),
    )
}
"""CPU cores of a job's workers, 48 in all: the authors' code for four; our splits for three."""


def find_tflops(device: str, /) -> float:
    """Return the peak TFLOPS of a device of the table, or of one given as name=TFLOPS."""
    name, equals, stated = device.partition("=")
    if equals:
        try:
            return float(stated)
        except ValueError:
            raise DataError(
                f"device {name!r}: {stated!r} is no number of TFLOPS; write {name}=19.5"
            ) from None
    found = DEVICES.filter(device=device)
    if found.is_empty():
        raise DataError(
            f"no device is called {device!r}; the devices are {', '.join(DEVICES['device'])}, "
            f"or give its TFLOPS: {device}=19.5"
        )
    tflops: float = found["tflops"].item()
    return tflops
