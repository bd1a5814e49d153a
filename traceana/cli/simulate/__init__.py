"""``traceana simulate``: one file and one line here for each what-if."""

from __future__ import annotations

import typer

from traceana.cli.simulate import (
    batching,
    deadlines,
    energy,
    operations,
    place,
    recurring,
    schedule,
)

app = typer.Typer(
    help="Simulate dynamic batching, recurring jobs, deadlines, energy, operations, placement and "
    "schedules.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    pass


for _name, _command, _options in (
    ("deadlines", deadlines.deadlines, ""),
    ("recurring", recurring.recurring, ""),
    ("batching", batching.batching, ""),
    ("energy", energy.energy, ""),
    ("place", place.place, " --policy fgd,random"),
    ("operations", operations.operations, " --ideal stage=3"),
    ("schedule", schedule.schedule, " --policy fifo,easy --gpus +10%"),
):
    app.command(_name, epilog=f"Example: traceana simulate {_name} TRACE{_options}")(_command)
