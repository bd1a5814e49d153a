"""Medians as a table on the terminal, and all tables of a run as one figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from traceana.drawing.style import use_style

Medians: TypeAlias = Mapping[str, Sequence[float]]
"""Seconds, processor seconds and peak MiB by contender."""

_shown: list[tuple[str, Medians, str]] = []


def show(title: str, medians: Medians, *, unit: str) -> None:
    """Print a table with the ratios to one of the contenders."""
    _shown.append((title, medians, unit))
    table = Table(title=title, title_justify="left")
    table.add_column()
    for column in ("seconds", f"to {unit}", "CPU seconds", f"to {unit}", "peak MiB"):
        table.add_column(column, justify="right")
    for name, (seconds, processor, peak) in medians.items():
        ratios = (seconds / medians[unit][0], processor / medians[unit][1])
        figures = (seconds, ratios[0], processor, ratios[1])
        table.add_row(name, *(f"{figure:.2f}" for figure in figures), f"{peak:.0f}")
    Console(width=100).print(table)


def draw(path: Path) -> None:
    """Draw what was shown: a panel a table, seconds and the ratio to the unit beside each bar."""
    bars = sum(len(medians) for _, medians, _ in _shown)
    with use_style():
        figure = Figure(figsize=(6.3, 0.6 * len(_shown) + 0.25 * bars), layout="constrained")
        heights = [len(medians) + 1 for _, medians, _ in _shown]
        panels = figure.subplots(len(_shown), 1, squeeze=False, height_ratios=heights)[:, 0]
        for ax, (title, medians, unit) in zip(panels, _shown, strict=True):
            seconds = [figures[0] for figures in medians.values()]
            drawn = ax.barh(list(medians), seconds, height=0.7)
            ratios = [f"{one:.2f} s, {one / medians[unit][0]:.2f}" for one in seconds]
            ax.bar_label(drawn, ratios, padding=3, fontsize="small")
            ax.set_xlim(0, max(seconds) * 1.25)
            ax.invert_yaxis()
            ax.set_title(f"{title}; ratio to {unit}", loc="left")
            ax.set_xlabel("Time (s)")
        figure.savefig(path)
