"""The store that limits make for one command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from traceana.errors import DataError
from traceana.exchange import anonymize as anonymize_trace
from traceana.exchange import select_jobs
from traceana.exchange.selection import read_time
from traceana.opening import load
from traceana.report.build import find_data_source, open_data_source
from traceana.store import Manifest, Store, open_store
from traceana.store.manifest import MANIFEST, Capacity, manifest_json
from traceana.store.store import store_path

Given = TypeVar("Given", Store, Store | None)


def check_limits(since: str | None, until: str | None, window: tuple[str, str] | None) -> None:
    """Refuse limits that no log has, before a log is read."""
    for ends in ((since, until), window or (None, None)):
        times = [read_time(end) for end in ends if end is not None]
        zones = {getattr(time, "tzinfo", "seconds") for time in times}
        if len(times) == 2 and len(zones) == 1 and times[0] >= times[1]:  # type: ignore[operator]
            begin, end = ends
            raise DataError(f"the begin, {begin}, is not before the end, {end}; exchange them")


@contextmanager
def limited_store(
    store: Given,
    *,
    anonymize: bool = False,
    compare: list[str] | None = None,
    gpus: int | None = None,
    **limits: Any,  # noqa: ANN401  options of select_jobs()
) -> Iterator[Given]:
    """Yield the store, or one made for this command: some jobs, without names, with more traces."""
    given = {name: limit for name, limit in limits.items() if limit is not None}
    of_jobs = partial(_change, chosen=lambda trace: trace.has("jobs"))
    of_users = partial(_change, chosen=lambda trace: trace.source != "catalog")
    possible: list[tuple[object, Callable[[Store, Path], None]]] = [
        (given, partial(of_jobs, change=partial(select_jobs, **given))),
        (anonymize, partial(of_users, change=anonymize_trace)),
        (compare, partial(_add_traces, names=compare or [])),
        (gpus, partial(of_jobs, change=partial(_state_gpus, gpus=gpus or 0))),
    ]
    steps = [step for is_wanted, step in possible if is_wanted]
    if not steps:
        yield store
        return
    with TemporaryDirectory(prefix="traceana-") as scratch:
        source = store or open_data_source(find_data_source())
        if given and not source.traces(table="jobs"):
            named = " and ".join(f"--{name}" for name in given)
            raise DataError(f"{named}: a limit chooses jobs, and there is no table of jobs here")
        for number, step in enumerate(steps):
            target = Path(scratch) / str(number)
            step(source, target)
            source = replace(open_store(target), left_out=source.left_out)
        yield source


def _change(
    source: Store, target: Path, chosen: Callable[[Manifest], bool], change: Callable[..., object]
) -> None:
    """Write changed copies of the chosen traces, without those of which nothing is left."""
    changed, refused = [], []
    for trace in source.traces():
        if not chosen(source.manifest(trace)):
            _link(source.path / trace, target)
            continue
        try:
            changed.append(change(trace, store=source.path, out=target))
        except DataError as error:
            refused.append(error)
    if refused and not changed:
        raise refused[0]
    sys.stderr.write("".join(f"traceana: note: left out: {error}\n" for error in refused))


def _add_traces(source: Store, target: Path, names: list[str]) -> None:
    default = Store(store_path(None))
    stored = default.traces()
    new = [name for name in names if name not in source.traces()]
    for trace in source.traces():
        _link(source.path / trace, target)
    for trace in new:
        _link((default if trace in stored else load(trace).store).path / trace, target)


def _state_gpus(trace: str, *, store: Path, out: Path, gpus: int) -> None:
    """Link the files of a trace, and state the GPUs of its cluster in a manifest of its own."""
    folder = out / trace
    folder.mkdir(parents=True)
    for path in (store / trace).iterdir():
        if path.name != MANIFEST:
            (folder / path.name).symlink_to(path.resolve())
    capacity = {"all": Capacity(nodes=1, gpus_per_node=gpus)}
    manifest = replace(Store(store).manifest(trace), capacity=capacity)
    (folder / MANIFEST).write_text(manifest_json(manifest), encoding="utf-8")


def _link(folder: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    (target / folder.name).symlink_to(folder.resolve())
