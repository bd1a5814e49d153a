"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Folder of the store.  [default: TRACEANA_STORE, else ./data]",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON alone.")]
