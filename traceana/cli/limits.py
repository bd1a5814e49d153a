"""What a report is limited to, and whether it names anyone: a store made for one command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli.options import option

if TYPE_CHECKING:
    from traceana.store import Store

SinceOption = Annotated[
    str | None, option("Only jobs that waited or ran on or after this date or time.", "TIME")
]
UntilOption = Annotated[
    str | None, option("Only jobs and events before this date or time.", "TIME")
]
WindowOption = Annotated[
    tuple[str, str] | None,
    option("First and last date or time of the export, if the files do not state them.", "FROM TO"),
]
WhereOption = Annotated[
    str | None, option("Only jobs that meet this condition: \"queue = 'gpu'\".", "SQL")
]
GpusOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="GPUs of the cluster, for the allocated and idle fractions.  "
        "[default: those of the machines, else of the nodes seen]",
    ),
]
AnonymizeOption = Annotated[
    bool,
    typer.Option(
        "--anonymize",
        help="Replace names of users, queues, jobs and machines by digests.",
    ),
]

CompareOption = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="TRACE",
        help="Trace to compare with (repeatable): from the default store, else downloaded.",
    ),
]


@contextmanager
def limited_store(
    store: Path | None,
    *,
    since: str | None,
    until: str | None,
    where: str | None,
    window: tuple[str, str] | None = None,
    anonymize: bool = False,
    compare: list[str] | None = None,
    gpus: int | None = None,
) -> Iterator[Path | None]:
    """Yield the store, or one made for this command: some jobs, without names, with more traces.

    Tables of traces without jobs stay as they are; public traces are not anonymized.
    """
    from traceana.store import open_store

    limits = {"since": since, "until": until, "where": where, "window": window}
    given = {name: value for name, value in limits.items() if value is not None}
    steps: list[Callable[[Store, Path], None]] = []
    if given:
        steps.append(partial(_select_jobs, limits=given))
    if anonymize:
        steps.append(_anonymize)
    if compare:
        steps.append(partial(_add_traces, names=compare))
    if gpus:
        steps.append(partial(_state_gpus, gpus=gpus))
    if not steps:
        yield store
        return
    with TemporaryDirectory(prefix="traceana-") as scratch:
        source = open_store(store)
        for number, step in enumerate(steps):
            target = Path(scratch) / str(number)
            step(source, target)
            source = open_store(target)
        yield source.path


def _select_jobs(source: Store, target: Path, limits: dict[str, Any]) -> None:
    from traceana.exchange import select_jobs

    for trace in source.traces():
        if source.manifest(trace).has("jobs"):
            select_jobs(trace, store=source.path, out=target, **limits)
        else:
            _link(source.path / trace, target)


def _anonymize(source: Store, target: Path) -> None:
    from traceana.exchange import anonymize

    for trace in source.traces():
        if source.manifest(trace).source == "catalog":
            _link(source.path / trace, target)
        else:
            anonymize(trace, store=source.path, out=target)


def _add_traces(source: Store, target: Path, names: list[str]) -> None:
    beside = [_find(name) for name in names if name not in source.traces()]
    for folder in (*(source.path / trace for trace in source.traces()), *beside):
        _link(folder, target)


def _state_gpus(source: Store, target: Path, gpus: int) -> None:
    """Link the files of each trace, and state the GPUs of its cluster in a manifest of its own."""
    from traceana.store import Capacity
    from traceana.store.manifest import MANIFEST, manifest_json

    for trace in source.traces():
        folder = target / trace
        folder.mkdir(parents=True)
        for path in (source.path / trace).iterdir():
            if path.name != MANIFEST:
                (folder / path.name).symlink_to(path.resolve())
        manifest = source.manifest(trace)
        if manifest.has("jobs"):
            capacity = {"all": Capacity(nodes=1, gpus_per_node=gpus)}
            manifest = replace(manifest, capacity=capacity)
        (folder / MANIFEST).write_text(manifest_json(manifest), encoding="utf-8")


def _link(folder: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    (target / folder.name).symlink_to(folder.resolve())


def _find(trace: str) -> Path:
    """Return the folder of a trace in the default store, or of a public one that is downloaded."""
    from traceana.opening import load
    from traceana.store import Store, store_path

    default = Store(store_path(None))
    store = default if trace in default.traces() else load(trace).store
    return store.path / trace
