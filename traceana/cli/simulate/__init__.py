"""``traceana simulate``: one function and one line here for each what-if."""

from __future__ import annotations

import typer

from traceana.cli.options import Command, described
from traceana.cli.simulate import batching, energy, schedule

app = typer.Typer(
    help="Simulate schedules, placement, batching, deadlines and energy.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    pass


for _name, _command, _options in (
    ("schedule", schedule.schedule, "TRACE --policy fifo,easy --gpus +10%"),
    ("place", schedule.place, "TRACE --policy fgd,random"),
    ("deadlines", schedule.deadlines, "TRACE --policies fifo,edf"),
    ("operations", batching.operations, "TRACE --ideal stage=3"),
    ("batching", batching.batching, "--throughputs 100,200,300"),
    ("energy", energy.energy, "TRACE --gpu v100 --dataset librispeech"),
    ("recurring", energy.recurring, "TRACE --gpu v100 --dataset cifar100"),
):
    _example = f"Example: traceana simulate {_name} {_options}"
    app.command(_name, cls=Command, epilog=_example)(described(_command, _name))
