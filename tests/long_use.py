"""The example of each public name, hundreds of times in one process, then in threads at once.

``python -m tests.long_use [NAME ...] [--calls N] [--threads N]`` prints one line per name, and
ends with status 1 if memory grows, if something is left open or behind, or if threads differ.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import gc
import os
import re
import runpy
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType
from typing import Any
from unittest.mock import patch

import polars as pl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from traceana.drawing.style import figure_of
from traceana.drawing.svg import render_svg

DOCS = Path(__file__).parents[1] / "docs"
WARM_UP, LEAST, GROWTH_MIB = 12, 50, 10.0


def compile_example(name: str, documented: object) -> CodeType:
    """Return the example in the docstring; the value of each line is given to ``seen``."""
    text = getattr(documented, "__doc__", None) or ""
    examples = doctest.DocTestParser().get_examples(text)
    kept = [one for one in examples if not one.options.get(doctest.SKIP)]
    tree = ast.parse("".join(one.source for one in kept))
    body = tree.body
    for node in body:
        if isinstance(node, ast.Expr):
            node.value = ast.Call(ast.Name("seen", ast.Load()), [node.value], [])
    if any(one.exc_msg for one in kept):  # the last line, in all of them
        shown = ast.parse("seen(str(error))").body
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), "error", shown)
        body = [ast.Try(body, [handler], [], [])]
    tree.body = body
    return compile(ast.fix_missing_locations(tree), name, "exec")


def describe(value: object) -> object:
    """Return what two equal results have in common, with every digit."""
    if isinstance(value, pl.LazyFrame):
        value = value.collect()
    if isinstance(value, pl.DataFrame):
        return repr((value.schema, value.rows()))
    if isinstance(value, Axes):  # a figure that an example makes is matplotlib's
        return render_svg(figure_of(value), prefix="f")
    if is_dataclass(value) and not isinstance(value, type):
        return [describe(getattr(value, one.name)) for one in fields(value) if one.repr]
    if isinstance(value, list | tuple):
        return [describe(one) for one in value]
    return re.sub(r" at 0x\w+|(given|left)/[\w/-]+|size \w+", "", repr(value))


def run_example(code: CodeType) -> list[object]:
    """Run an example, and describe what it shows and what its variables are."""
    shown: list[object] = []

    def show(*values: object, **_: object) -> None:
        shown.append([describe(value) for value in values])

    scope: dict[str, Any] = {"__name__": "example", "seen": show, "print": show}
    exec(code, scope)  # noqa: S102  the example
    known = {name: one for name, one in scope.items() if not name.startswith("_")}
    return [*shown, {name: describe(one) for name, one in known.items() if not callable(one)}]


@contextlib.contextmanager
def own_folders() -> Iterator[Path]:
    """Work in an empty folder; those that examples make are not what the library leaves."""
    make = tempfile.mkdtemp
    with tempfile.TemporaryDirectory() as name:
        for part in ("cwd", "given", "left", "cache"):
            Path(name, part).mkdir()

        def of_example(suffix: Any = None, prefix: Any = None, dir: Any = None) -> str:  # noqa: A002
            mine = sys._getframe(1).f_globals.get("__name__") == "example"
            return make(suffix, prefix, f"{name}/given" if mine else dir)

        with (
            patch.dict(os.environ, {"XDG_CACHE_HOME": f"{name}/cache", "TMPDIR": f"{name}/left"}),
            patch.object(tempfile, "tempdir", f"{name}/left"),
            patch.object(tempfile, "mkdtemp", of_example),
            contextlib.chdir(f"{name}/cwd"),
        ):
            yield Path(name)


def resident_mib() -> float:
    """Return the memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def count_open(folder: Path) -> dict[str, int]:
    """Count what a call may leave."""
    task = Path("/proc/self/task")
    return {
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "processes": sum(len((one / "children").read_text().split()) for one in task.iterdir()),
        "temporary files": sum(  # read() keeps what it ingested until Python ends
            not one.name.startswith("traceana-read-") for one in (folder / "left").iterdir()
        ),
        "figures": len(plt.get_fignums()),
    }


def repeat(code: CodeType, calls: int, seconds: float, folder: Path) -> tuple[float, int]:
    """Run an example so often, at least 50 times until the time is over; return both."""
    begin = time.perf_counter()
    for done in range(1, calls + 1):
        run_example(code)
        shutil.rmtree(folder / "given")
        (folder / "given").mkdir()
        if done >= LEAST and time.perf_counter() - begin > seconds:
            break
    return time.perf_counter() - begin, done


def check_calls(code: CodeType, calls: int, limit: float, folder: Path) -> tuple[str, bool]:
    """Return one line on what many calls leave, and whether it is nothing."""
    repeat(code, WARM_UP, limit, folder)
    memory, before = resident_mib(), count_open(folder)
    seconds, done = repeat(code, calls, limit, folder)
    grown = [resident_mib() - memory]
    if grown[0] >= GROWTH_MIB:  # a cache that fills, or a leak: that grows on
        repeat(code, calls, limit, folder)
        grown.append(resident_mib() - memory - grown[0])
    after = count_open(folder)
    left = {what: after[what] - before[what] for what in after if after[what] > before[what]}
    memory_text = ", then ".join(f"{mib:+.1f} MiB" for mib in grown)
    text = f"{done} calls, {1000 * seconds / done:.0f} ms each, {memory_text}"
    text += "".join(f", {number} {what} left" for what, number in left.items())
    return text, grown[-1] < GROWTH_MIB and not left


def check_threads(codes: dict[str, CodeType], threads: int, rounds: int) -> list[str]:
    """Return the names whose results differ between one thread and several at once."""
    alone = {name: run_example(code) for name, code in codes.items()}
    told: dict[str, str] = {}
    with ThreadPoolExecutor(threads) as pool:
        asked = [name for _ in range(rounds) for name in codes]
        futures = [(name, pool.submit(run_example, codes[name])) for name in asked]
        for name, future in futures:
            try:
                if (found := future.result()) != alone[name]:
                    told.setdefault(name, _first_difference(alone[name], found))
            except Exception as error:  # noqa: BLE001  any, which one thread did not raise
                told.setdefault(name, f"{type(error).__name__}: {error}")
    return [f"{name}: {text}" for name, text in told.items()]


def _first_difference(one: object, other: object) -> str:
    a, b = str(one), str(other)
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0)
    return f"{a[max(at - 40, 0) : at + 60]!r} is {b[max(at - 40, 0) : at + 60]!r}"


def main() -> None:
    """Check the names of the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=250, help="of calls of one name")
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    known: dict[str, Callable[[], dict[str, tuple[str, object]]]] = runpy.run_path(
        str(DOCS / "api.py")
    )
    public = {name: thing for name, (_, thing) in known["public_names"]().items()}
    codes = {name: compile_example(name, public[name]) for name in options.names or public}
    plt.switch_backend("agg")
    warnings.simplefilter("ignore")
    sound, differ = True, []
    with own_folders() as folder:
        for name, code in codes.items() if options.calls else ():
            text, good = check_calls(code, options.calls, options.seconds, folder)
            sound &= good
            sys.stdout.write(f"{'' if good else 'GROWS '}{name}: {text}\n")
            sys.stdout.flush()
        if options.threads:
            for name, code in codes.items():  # each beside itself, then all beside each other
                differ += check_threads({name: code}, options.threads, options.threads)
            differ += check_threads(codes, options.threads, 2)
    sys.stdout.writelines(f"DIFFERS {one}\n" for one in differ)
    sys.exit(not sound or bool(differ))


if __name__ == "__main__":
    main()
