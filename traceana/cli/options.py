"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

TYPED: Final = "traceana.command"
"""Key under which a command's context has its words."""
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON.")]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the result as a table: .csv, .json or .parquet.",
    ),
]
