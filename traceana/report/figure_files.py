"""Figures as files: the report's own pictures, from the same sections, in three formats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.report.blocks import Absent
from traceana.report.build import cannot_write, choose, open_context
from traceana.report.origin import find_origin
from traceana.report.page import Built
from traceana.report.run import build_sections
from traceana.report.section import sections
from traceana.store.writer import write_bytes_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from traceana.report.blocks import Picture


@dataclass(frozen=True)
class WrittenFigures:
    """What was written, and what could not be.

    Attributes
    ----------
    paths
        Every file.
    absent
        A line on each figure for which the store has no data: what is missing and the remedy.
    """

    paths: tuple[Path, ...]
    absent: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.paths), *self.absent])


def write_figures(
    figures: str | Sequence[str] = (),
    /,
    *,
    store: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "figures",
    workers: int = 1,
    on_step: Callable[[int, int, str], None] | None = None,
) -> WrittenFigures:
    """Write every picture that the report has of a figure, as SVG, PDF and PNG.

    The same data and versions give the same bytes. Each figure's captions stand in
    ``<figure>.captions.md``; pictures of synthetic data say so in both.

    Parameters
    ----------
    figures
        Ids of figures; none stands for all.
    store, workers, on_step
        As for :func:`build_report`.
    out
        Folder for the files; made where it does not exist.

    Raises
    ------
    DataError
        If no figure has such an id, or the store has data for none of them.
    TraceanaError
        If the store cannot be read or the folder cannot be written.
    """
    from traceana.figures import figures as all_figures  # noqa: PLC0415  a report that was kept draws nothing

    ids = check_figures(figures)
    chosen = [section for section in sections() if set(section.figures) & set(ids)]
    tell = on_step or (lambda _done, _steps, _what: None)
    context = replace(
        open_context(find_origin(store)), figures=frozenset(ids), formats=("pdf", "png")
    )
    contents = build_sections(
        chosen,
        context,
        workers=workers,
        on_done=lambda done, section: tell(done, len(chosen), section.title),
    )
    built = [Built(*pair) for pair in zip(chosen, contents, strict=True)]
    paths: list[Path] = []
    absent = []
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        for name in ids:
            drawn = [p for part in built for p in part.pictures if p.figure == name]
            if drawn:
                paths += _write(Path(out), name, drawn)
            else:
                absent.append(f"{name}: {_tell_absent(name, all_figures()[name].result, built)}")
    except OSError as error:
        raise cannot_write(Path(out), "figures", error) from error
    if not paths:
        raise DataError("; ".join(absent))
    return WrittenFigures(tuple(paths), tuple(absent))


def check_figures(figures: str | Sequence[str], /) -> list[str]:
    """Return the ids of figures; none stands for all.

    Raises
    ------
    DataError
        If no figure has such an id; the message lists the ids.
    """
    from traceana.figures import figures as all_figures  # noqa: PLC0415  as above

    return choose(figures, list(all_figures()), what="figure")


def _write(folder: Path, name: str, drawn: list[Picture]) -> list[Path]:
    captions = [f"# {name}", drawn[0].reading]
    paths = []
    for picture in drawn:
        for suffix, content in (("svg", f"{picture.svg}\n".encode()), *picture.files):
            paths.append(folder / f"{picture.key}.{suffix}")
            write_bytes_whole(paths[-1], content)
        captions.append(f"**{picture.key}**: {picture.caption}")
    paths.append(folder / f"{name}.captions.md")
    write_bytes_whole(paths[-1], ("\n\n".join(captions) + "\n").encode())
    return paths


def _tell_absent(name: str, result: str, built: list[Built]) -> str:
    """Say what brings the data of a figure that its sections could not draw."""
    commands = [
        " && ".join(block.commands)
        for part in built
        if name in part.section.figures
        for block in part.blocks
        if isinstance(block, Absent)
    ]
    remedy = f"; to get it: {' or '.join(dict.fromkeys(commands))}" if commands else ""
    return f"the store has nothing to draw it from ({result}){remedy}"
