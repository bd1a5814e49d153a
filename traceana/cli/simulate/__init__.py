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


app.command()(deadlines.deadlines)
app.command()(recurring.recurring)
app.command()(batching.batching)
app.command()(energy.energy)
app.command()(place.place)
app.command()(operations.operations)
app.command()(schedule.schedule)
