"""Change one operator or constant of a copy of the package, and see whether a test fails.

``python -m tests.mutants --sample 200 --rng 1`` draws mutants of traceana's stats, analysis,
ingesters and simulate, and runs those tests in the folder of the same name that call the changed
function, the quickest first. ``--only traceana/stats/`` draws from one package. A mutant is noticed
if a test fails that passes without the change, or if the tests exceed their time. A mutant that
pytest cannot load is not counted. ``mutants_equivalent.txt`` lists changes that no result shows.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
import scipy.stats
import statsmodels.discrete.discrete_model

import traceana.ingesters

LOADED = (hypothesis, scipy.stats, statsmodels, traceana)  # what child processes need not load
ROOT = Path(__file__).parents[1]
AREAS = ("stats", "cohorts", "questions", "ingesters", "simulate")
EQUIVALENT = ROOT / "tests" / "mutants_equivalent.txt"
CHANGES = """Add + -,Sub - +,Mult * /,Div / *,FloorDiv // /,Mod % *,Pow ** *,BitAnd & |,BitOr | &,
And and or,Or or and,Lt < <=,LtE <= <,Gt > >=,GtE >= >,Eq == !=,NotEq != ==,In in not_in,
NotIn not_in in,Is is is_not,IsNot is_not is"""
OPERATORS = {
    name: (old.replace("_", " "), new.replace("_", " "))
    for name, old, new in (change.split() for change in CHANGES.split(","))
}


class Mutant(NamedTuple):
    """One change: characters ``start`` to ``end`` of the file become ``new``."""

    path: str
    line: int
    function: str
    start: int
    end: int
    new: str
    text: str  # the changed lines, before and after


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of one file, but for annotations, types, messages and docstrings."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)

    def at(line: int | None, column: int | None) -> int:  # the tree counts columns in bytes
        text = lines[(line or 1) - 1].encode()[:column].decode()
        return sum(map(len, lines[: (line or 1) - 1])) + len(text)

    def change(node: ast.AST) -> tuple[int, int, str] | None:
        match node:
            case ast.BinOp(left=left, right=right, op=op):
                pass
            case ast.AugAssign(target=left, value=right, op=op):
                pass
            case ast.BoolOp(values=[left, right, *_], op=op):
                pass
            case ast.Compare(left=left, comparators=[right, *_], ops=[op, *_]):
                pass
            case ast.UnaryOp(op=ast.Not()):
                start = at(node.lineno, node.col_offset)
                return start, start + len("not "), ""
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                start, end = (
                    at(node.lineno, node.col_offset),
                    at(node.end_lineno, node.end_col_offset),
                )
                return start, end, repr(value + 1 if value + 1 != value else 2 * value)
            case ast.If(test=ast.Call() | ast.Name() | ast.Attribute() as test):
                start, end = (
                    at(test.lineno, test.col_offset),
                    at(test.end_lineno, test.end_col_offset),
                )
                return start, end, f"not {source[start:end]}"
            case _:
                return None
        old, new = OPERATORS.get(type(op).__name__, ("\0", ""))
        low, high = at(left.end_lineno, left.end_col_offset), at(right.lineno, right.col_offset)
        start = source.find(old, low, high)
        return (start, start + len(old), new) if start >= 0 else None

    def visit(node: ast.AST, function: str) -> Iterator[Mutant]:
        if isinstance(node, ast.Raise | ast.JoinedStr):
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if here := change(node):
            start, end, new = here
            low, high = source.rfind("\n", 0, start) + 1, source.find("\n", end)
            before, after = source[low:high], source[low:start] + new + source[end:high]
            text = f"{' '.join(before.split())}  =>  {' '.join(after.split())}"
            line = source.count("\n", 0, start) + 1
            yield Mutant(str(path.relative_to(ROOT)), line, function, start, end, new, text)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".removeprefix(".")
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and field not in ("annotation", "returns"):
                    yield from visit(child, function)

    yield from visit(ast.parse(source), "")


class Watch:
    """Plugin: record the CPU time of each test and the functions it calls, fixtures included."""

    def __init__(self, root: Path) -> None:
        self.root = f"{root}{os.sep}"
        self.called: set[str] = set()
        self.fixtures: dict[Any, set[str]] = {}
        self.tests: dict[str, tuple[float, list[str]]] = {}
        self.failed: set[str] = set()

    def _call(self, frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        # a test that happens to import a module first does not call its body
        called = event == "call" and code.co_flags & inspect.CO_OPTIMIZED
        if called and code.co_filename.startswith(self.root):
            name = ".".join(n for n in code.co_qualname.split(".") if not n.startswith("<"))
            self.called.add(f"{code.co_filename.removeprefix(self.root)}:{name}")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        outer, self.called = self.called, set()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef] = self.called
            self.called = outer | self.called

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, object, object]:
        self.called, began = set(), time.process_time()
        sys.setprofile(self._call)
        threading.setprofile(self._call)  # of the threads that it starts
        yield
        sys.setprofile(None)
        threading.setprofile(None)
        used = [each for of in item._fixtureinfo.name2fixturedefs.values() for each in of]
        called = self.called.union(*(self.fixtures.get(each, set()) for each in used))
        if item.nodeid not in self.failed:
            self.tests[item.nodeid] = (time.process_time() - began, sorted(called))
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:  # such as one that depends on speed
            self.failed.add(report.nodeid)


class Choose:
    """Plugin: run the named tests alone, in their order, and write down which one fails."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: n for n, test in enumerate(tests)}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            Path("failed.txt").write_text(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        chosen = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])


def run(root: Path, files: list[str], plugin: Watch | Choose, cpu_s: int) -> int:
    """Run pytest on the copy in a child process; 0 where all tests pass."""
    child = os.fork()
    if not child:
        code: int = 3
        try:
            with (root / "log.txt").open("w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            os.chdir(root)
            os.environ["PYTHONPATH"] = sys.path[0] = str(root)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
            signal.alarm(20 * cpu_s)  # ends tests that wait forever
            for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "traceana")]:
                del sys.modules[name]
            first = "--maxfail=0" if isinstance(plugin, Watch) else "-x"
            options = ["-n0", first, "-q", "-pno:cacheprovider", "--tb=line", f"--rootdir={root}"]
            loaded = "-Wignore::pytest.PytestAssertRewriteWarning"
            code = pytest.main([*options, loaded, *files], plugins=[plugin])
            if isinstance(plugin, Watch):
                (root / "calls.json").write_text(json.dumps(plugin.tests))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def folder_of(mutant: Mutant) -> str:
    """Return the folder of the tests of a module: the nearest of its package's name."""
    folder = Path("tests", *Path(mutant.path).parts[1:-1])
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return folder.as_posix()


@cache
def _text_of(file: str) -> str:
    return (ROOT / file).read_text()


def covering(tests: dict[str, Any], mutant: Mutant, cpu_s: int) -> list[str]:
    """Tests that call the changed function (or any of its module), the most likely ones first."""
    name, stem = f"{mutant.path}:{mutant.function}", Path(mutant.path).stem
    constant = "" if mutant.function else re.split(r"\W", mutant.text)[0]
    known = any(name in called for _, called in tests.values())
    found, total = [], 0.0
    for test, (seconds, called) in tests.items():
        file = test.partition("::")[0]
        named = stem in file or bool(constant and constant in _text_of(file))
        # a table of the module may be read without a call
        of_module = named or any(c.startswith(f"{mutant.path}:") for c in called)
        if name in called if known else of_module:
            found.append((not named, seconds, test))
    found.sort()
    return [test for _, seconds, test in found if (total := total + seconds) < cpu_s]


def judge(root: Path, mutant: Mutant, calls: dict[str, Any], sound: set[str], cpu_s: int) -> str:
    """Run the tests of one mutant; those that fail without the change too are left out."""
    path = root / mutant.path
    source = path.read_text()
    while tests := covering(calls, mutant, cpu_s):
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        path.write_text(source[: mutant.start] + mutant.new + source[mutant.end :])
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        code = run(root, files, Choose(tests), cpu_s=3 * cpu_s)
        path.write_text(source)
        if code < 0:  # ended by a limit
            return "noticed"
        if code != 1:
            return "CANNOT RUN" if code else f"NOT NOTICED by {len(tests)} tests"
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        failed = (root / "failed.txt").read_text()
        alone = failed in sound or not run(
            root, [failed.partition("::")[0]], Choose([failed]), cpu_s=3 * cpu_s
        )
        if alone:
            sound.add(failed)
            return "noticed"
        del calls[failed]
    return "NOT NOTICED by 0 tests"


def main() -> None:
    """Draw mutants, run their tests and print which are noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--rng", type=int, default=1)
    parser.add_argument("--only", default="", help="draw from 'path:line: change' with this text")
    parser.add_argument("--cpu", type=int, default=60, help="seconds of tests per mutant")
    parser.add_argument(
        "--calls",
        type=Path,
        help="file that keeps which test calls what; delete it after a change of tests",
    )
    options = parser.parse_args()
    paths = [path for area in AREAS for path in sorted((ROOT / "traceana" / area).rglob("*.py"))]
    every = [mutant for path in paths for mutant in mutants(path)]
    every = [m for m in every if options.only in f"{m.path}:{m.line}: {m.text}"]
    drawn = random.Random(options.rng).sample(every, min(options.sample, len(every)))
    listed = {line.partition("  # ")[0] for line in EQUIVALENT.read_text().splitlines()}
    tried = [m for m in drawn if f"{m.path}: {m.text}" not in listed]
    calls: dict[str, dict[str, Any]] = {}
    if options.calls and options.calls.exists():
        calls = json.loads(options.calls.read_text())
    counts, sound = Counter[str](), set[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        root = Path(name) / "copy"
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".git", "__pycache__", "_build"))
        os.environ.setdefault("TRACEANA_TEST_DATA", str(ROOT.parent / "shared" / "data"))
        for mutant in sorted(tried, key=folder_of):
            if (folder := folder_of(mutant)) not in calls:
                files = [str(path) for path in sorted((root / folder).glob("test_*.py"))]
                if run(root, files, Watch(root), cpu_s=3600) not in (0, 1):
                    raise SystemExit((root / "log.txt").read_text())
                calls[folder] = json.loads((root / "calls.json").read_text())
                if options.calls:
                    options.calls.write_text(json.dumps(calls))
            verdict = judge(root, mutant, calls[folder], sound, options.cpu)
            counts[verdict.partition(" by ")[0]] += 1
            print(f"{verdict}: {mutant.path}:{mutant.line}: {mutant.text}", flush=True)  # noqa: T201
    cannot, equivalent = counts.pop("CANNOT RUN", 0), len(drawn) - len(tried)
    found = f"{counts['noticed']} of {counts.total()} noticed"
    print(f"{found}; {equivalent} equivalent, {cannot} cannot run")  # noqa: T201


if __name__ == "__main__":
    main()
