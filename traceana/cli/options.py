"""Texts of the options, and the store that limits make for one command."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import typer
import typer.core

from traceana.cli.output import check_out
from traceana.errors import DataError, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceana.store import Manifest, Store, Trace

Given = TypeVar("Given", "Store", "Store | None")

TYPED: Final = "traceana.command"
"""Key under which a command's context has its words."""


_WORDS: Final = ("help", "metavar", "name")
TEXTS: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    files("traceana.cli").joinpath("options.toml").read_text(encoding="utf-8")
)


class Command(typer.core.TyperCommand):
    """A command whose help names arguments without the types of Python."""

    def __init__(self, *given: Any, **options: Any) -> None:  # noqa: ANN401  as its base
        super().__init__(*given, **options)
        for each in self.params:
            if each.param_type_name == "argument":
                each.display_type_rich = lambda **_: None  # type: ignore[attr-defined]


def described(command: Callable[..., None], name: str, /) -> Callable[..., None]:
    """Give the parameters of a command the texts and names that ``options.toml`` states."""
    texts = TEXTS["shared"] | TEXTS.get(name, {})
    for parameter, kind in get_type_hints(command).items():
        if parameter not in texts:
            continue  # the context
        text = texts[parameter]
        words = [text] if isinstance(text, str) else text
        stated = dict(words if isinstance(words, dict) else zip(_WORDS, words, strict=False))
        info = typer.Argument if "argument" in stated else typer.Option
        stated["metavar"] = stated.pop("argument", stated.get("metavar"))
        if text is TEXTS["shared"]["out"]:
            stated["callback"] = check_out
        if kind is bool:
            stated["name"] = f"--{parameter.replace('_', '-')}"
        names = [stated.pop("name")] if "name" in stated else []
        command.__annotations__[parameter] = Annotated[kind, info(*names, **stated)]
    return command


def check_limits(since: str | None, until: str | None, window: tuple[str, str] | None) -> None:
    """Refuse limits that no log has, before a log is read."""
    from traceana.exchange.selection import read_time

    for ends in ((since, until), window or (None, None)):
        times = [read_time(end) for end in ends if end is not None]
        zones = {getattr(time, "tzinfo", "seconds") for time in times}
        if len(times) == 2 and len(zones) == 1 and times[0] >= times[1]:  # type: ignore[operator]
            begin, end = ends
            raise DataError(f"the begin, {begin}, is not before the end, {end}; exchange them")


@contextmanager
def readable_traces(store: Store, /) -> Iterator[Store]:
    """Yield a store without traces that cannot be read; state these, and exit with 2 at the end."""
    readable, faults = [], {}
    for name in store.traces():
        try:
            _ = store.trace(name).manifest
        except StoreError as error:
            faults[name] = str(error)
        else:
            readable.append(name)
    if faults and not readable:
        raise StoreError(next(iter(faults.values())))
    sys.stderr.writelines(f"traceana: left out: {fault}\n" for fault in faults.values())
    yield replace(store, only=tuple(readable), left_out=tuple(faults))
    if faults:
        raise typer.Exit(2)


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
    from traceana.exchange import anonymize as anonymize_trace
    from traceana.exchange import select_jobs
    from traceana.report.build import find_data_source, open_data_source
    from traceana.store import open_store

    given = {name: limit for name, limit in limits.items() if limit is not None}

    def has_jobs(trace: Manifest) -> bool:
        return trace.has("jobs")

    steps: list[Callable[[Store, Path], None]] = []
    if given:
        steps.append(partial(_change, chosen=has_jobs, change=partial(select_jobs, **given)))
    if anonymize:
        private = partial(_change, chosen=lambda trace: trace.source != "catalog")
        steps.append(partial(private, change=anonymize_trace))
    if compare:
        steps.append(partial(_add_traces, names=compare))
    if gpus:
        steps.append(partial(_change, chosen=has_jobs, change=partial(_state_gpus, gpus=gpus)))
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
    from traceana.opening import load
    from traceana.store import Store
    from traceana.store.store import store_path

    default = Store(store_path(None))
    stored = default.traces()
    new = [name for name in names if name not in source.traces()]
    for trace in source.traces():
        _link(source.path / trace, target)
    for trace in new:
        _link((default if trace in stored else load(trace).store).path / trace, target)


def _state_gpus(trace: str, *, store: Path, out: Path, gpus: int) -> None:
    """Link the files of a trace, and state the GPUs of its cluster in a manifest of its own."""
    from traceana.store import Store
    from traceana.store.manifest import MANIFEST, Capacity, manifest_json

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


def open_simulated(path: Path | None, /) -> Store:
    """Open a store; without one, that of the synthetic sample, which standard error states."""
    from traceana.report.build import find_data_source, open_data_source

    source = find_data_source(path)
    if source.is_sample:
        sys.stderr.write(f"traceana: note: {source.notice}\n")
    return open_data_source(source)


def qualifying_trace(
    store: Store, trace: str | None, needs: Sequence[Mapping[str, tuple[str, ...]]], /
) -> Trace:
    """Return the named trace, or the first that has the needed tables and columns."""
    qualifying = [
        candidate
        for candidate in map(store.trace, store.traces())
        if any(all(candidate.has(*each) for each in tables.items()) for tables in needs)
    ]
    named = None if trace is None else store.trace(trace)
    for candidate in qualifying:
        if named is None or candidate.id == named.id:
            return candidate
    needed = " or ".join(_lacking(named, tables) for tables in needs)
    listed = ", ".join(candidate.id for candidate in qualifying)
    others = f"; traces with values are {listed}" if qualifying else ""
    lacking = f"{trace} has no" if trace else "no trace of the store has"
    raise DataError(f"{lacking} values in {needed}{others}")


def _lacking(trace: Trace | None, tables: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(
        f"{table} ({', '.join(lacking)})"
        for table, columns in tables.items()
        if (lacking := [c for c in columns if trace is None or not trace.has(table, (c,))])
    )


def load_objects(names: str, option: str, /) -> dict[str, Any]:
    """Return objects by package.module:name, separated by commas; other names are as they are."""
    objects: dict[str, Any] = {}
    for name in map(str.strip, names.split(",")):
        module, colon, attribute = name.partition(":")
        objects[name] = name
        if not colon:
            continue
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)
        try:
            loaded = getattr(import_module(module), attribute)
            objects[name] = loaded() if isinstance(loaded, type) else loaded
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise DataError(f"{option} {name}: {error}; pass package.module:name") from None
    return objects


def read_numbers(option: str, text: str, /) -> list[float]:
    """Return the numbers of an option, which commas separate."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DataError(
            f"{option} {text!r}: expected numbers separated by commas, such as 12,12,8,16"
        ) from None
