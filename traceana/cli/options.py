"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from typer.models import ArgumentInfo, OptionInfo

from traceana.cli.output import check_out

TYPED: Final = "traceana.command"
"""Key under which a command's context has its words."""


def option(text: str, metavar: str | None = None, /) -> OptionInfo:
    """Describe an option; its name is that of the parameter."""
    info: OptionInfo = typer.Option(metavar=metavar, help=text)
    return info


def argument(text: str, metavar: str, /) -> ArgumentInfo:
    """Describe an argument."""
    info: ArgumentInfo = typer.Argument(metavar=metavar, help=text)
    return info


StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Folder of the store.  [default: TRACEANA_STORE, else ./data]",
    ),
]
MappingOption = Annotated[
    Path | None,
    typer.Option(
        "--mapping", metavar="FILE", help="Mapping (TOML) from the files' columns to tables."
    ),
]
ReaderOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        metavar="NAME",
        help="Format, such as csv, json, parquet, sacct, nvidia-smi or kineto; an unknown "
        "name lists all.  [default: detected]",
    ),
]
TimezoneOption = Annotated[
    str | None,
    typer.Option(
        "--timezone",
        metavar="ZONE",
        help="Time zone of times without an offset.  [default: the mapping's, else UTC]",
    ),
]
TraceArgument = Annotated[
    str | None, argument("Trace of the store.  [default: the first that qualifies]", "TRACE")
]
EtaOption = Annotated[float, option("Weight of energy versus time, 0 to 1.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        callback=check_out,
        help="Write the result as a table: .csv, .json or .parquet.",
    ),
]
