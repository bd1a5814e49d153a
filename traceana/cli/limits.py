"""What a report is limited to, and whether it names anyone: a store made for one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from traceana.cli.options import option

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
    bool, typer.Option("--anonymize", help="Replace names of users, jobs and machines by digests.")
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
    from traceana.exchange import anonymize as anonymize_trace
    from traceana.exchange import select_jobs
    from traceana.store import open_store

    limits: dict[str, Any] = {"since": since, "until": until, "where": where, "window": window}
    is_limited = any(value is not None for value in limits.values())
    if not (is_limited or anonymize or compare or gpus):
        yield store
        return
    with TemporaryDirectory(prefix="traceana-") as scratch:
        source = open_store(store)
        for step, wanted in (("limited", is_limited), ("anonymized", anonymize)):
            target = Path(scratch) / step
            for trace in source.traces() if wanted else ():
                manifest = source.manifest(trace)
                if step == "limited" and manifest.has("jobs"):
                    select_jobs(trace, store=source.path, out=target, **limits)
                elif step == "anonymized" and manifest.source != "catalog":
                    anonymize_trace(trace, store=source.path, out=target)
                else:
                    _link(source.path / trace, target)
            source = open_store(target) if wanted else source
        if compare:
            target = Path(scratch) / "compared"
            beside = {name: _find(name) for name in compare if name not in source.traces()}
            for folder in (*(source.path / trace for trace in source.traces()), *beside.values()):
                _link(folder, target)
            source = open_store(target)
        if gpus is not None:
            target = Path(scratch) / "sized"
            for trace in source.traces():
                _with_gpus(source.path / trace, target / trace, gpus)
            source = open_store(target)
        yield source.path


def _with_gpus(folder: Path, target: Path, gpus: int) -> None:
    """Link the files of a trace, and state the GPUs of its cluster in a manifest of its own."""
    from traceana.store import Capacity
    from traceana.store.manifest import MANIFEST, manifest_json, parse_manifest

    target.mkdir(parents=True)
    for path in folder.iterdir():
        if path.name != MANIFEST:
            (target / path.name).symlink_to(path.resolve())
    manifest = parse_manifest((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest.has("jobs"):
        manifest = replace(manifest, capacity={"all": Capacity(nodes=1, gpus_per_node=gpus)})
    (target / MANIFEST).write_text(manifest_json(manifest), encoding="utf-8")


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
