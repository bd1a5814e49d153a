"""The house's rules: which room may import which, what stays out, and that names are explained."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import traceana
from traceana.catalog import load_catalog
from traceana.modules import import_named
from traceana.tables.result import Result

ROOT = Path(traceana.__file__).parent
# room -> rooms it may import; errors.py, modules.py and processes.py are open to all, as
# docs/explanation/architecture.md describes
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "modules": set(),
    "processes": set(),
    "guesses": set(),
    "schema": set(),
    "catalog": set(),
    "stats": set(),
    "tables": set(),
    "drawing": {"tables"},
    "store": {"schema"},
    "ingesters": {"schema", "catalog", "store"},
    "samples": set(),
    "page": {"catalog", "store", "tables"},
    "exchange": {"schema", "store", "ingesters", "tables", "cohorts"},
    "cohorts": {"schema", "store", "stats", "tables"},
    "simulate": {"schema", "store", "stats", "tables"},
    "questions": {"schema", "store", "stats", "tables", "drawing", "page", "cohorts", "simulate"},
    "figures": {"drawing", "guesses"},
    "claims": {"catalog", "store", "stats", "tables", "page", "cohorts", "simulate", "questions"},
}
MAY_IMPORT["report"] = {*MAY_IMPORT} - {"exchange"}
MAY_IMPORT["opening"] = {*MAY_IMPORT} - {"claims", "figures"}
MAY_IMPORT["cli"] = {*MAY_IMPORT}
OPEN = {"errors", "modules", "processes"}
HEAVY = ("scipy", "statsmodels", "matplotlib", "narwhals", "dataframely", "pyspark", "pandas")
MODULES = sorted(path for path in ROOT.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMED = {module_name(path): path for path in MODULES}


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module that a file imports, anywhere in it, by its full name."""
    return frozenset(_imported(path))


@cache
def imported_at_run_time(path: Path) -> frozenset[str]:
    """Modules that a file imports when it runs, without those for type checks alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return frozenset(_imports_of(tree, path))


def _imported(path: Path) -> Iterator[str]:
    yield from _imports_of(parsed(path), path)


def _imports_of(tree: ast.Module, path: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return (
        parts[1] if parts[0] == "traceana" and len(parts) > 1 and parts[1] in MAY_IMPORT else None
    )


def test_every_module_lives_in_a_room_of_the_design() -> None:
    rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert rooms - {"__init__", "__main__"} <= set(MAY_IMPORT)


def test_the_page_on_architecture_states_what_each_room_may_import() -> None:
    page = (ROOT.parent / "docs" / "explanation" / "architecture.md").read_text()
    stated: dict[str, set[str]] = {}
    for names, imports in re.findall(r"^\| (`.*?) \| .* \| (.*) \|$", page, re.MULTILINE):
        every, _, but = imports.partition("all above")
        rooms = {*stated} if every != imports else set(re.findall(r"\w+", imports))
        rooms -= {*OPEN, *re.findall(r"\w+", but.removeprefix(" but"))}
        stated |= dict.fromkeys(re.findall(r"`(\w+)(?:\.py`|/)", names), rooms)
    allowed = {room: rooms - OPEN - {room} for room, rooms in MAY_IMPORT.items()}
    # what is below a room that may import all above it is the page's order, not a rule
    whole = {"report", "opening", "cli"}
    assert stated.keys() == MAY_IMPORT.keys()
    for room in MAY_IMPORT:
        assert stated[room] <= allowed[room] if room in whole else stated[room] == allowed[room]


def test_no_import_runs_against_the_arrows() -> None:
    against = {
        (module, name)
        for module, path in NAMED.items()
        # traceana/__init__.py names every room and loads none
        if (room := room_of(module)) is not None
        for name in imported(path)
        if (room_of(name) or room) not in MAY_IMPORT[room] | {room} | OPEN
    }
    assert not against


def test_there_is_no_cycle_between_rooms() -> None:
    done: set[str] = set()
    waiting = dict(MAY_IMPORT)
    while waiting:
        free = {room for room, needs in waiting.items() if needs <= done}
        assert free, f"a cycle among {sorted(waiting)}"
        done |= free
        waiting = {room: needs for room, needs in waiting.items() if room not in free}


def test_there_is_no_cycle_between_modules() -> None:
    graph = {name: imported_at_run_time(path) & set(NAMED) - {name} for name, path in NAMED.items()}
    # a package's __init__ gathers its modules: the arrows between these are what counts
    graph = {name: needs for name, needs in graph.items() if NAMED[name].name != "__init__.py"}
    graph = {name: needs & set(graph) for name, needs in graph.items()}
    while graph:
        leaves = {name for name, needs in graph.items() if not needs}
        assert leaves, f"a cycle among {sorted(graph)}"
        graph = {name: needs - leaves for name, needs in graph.items() if name not in leaves}


def test_matplotlib_stays_in_figures_and_pandas_outside() -> None:
    importers: dict[str, set[str]] = {"pandas": set(), "matplotlib": set()}
    for module, path in NAMED.items():
        tops = {name.split(".")[0] for name in imported_at_run_time(path)}
        for top in tops & set(importers):
            importers[top].add(module)
    assert not importers["pandas"]
    assert {kind_of(module) for module in importers["matplotlib"]} <= {
        "drawing",
        "figures",
        "tables",
    }


def kind_of(module: str) -> str:
    """Return the room of a module; in an idea, what its file name states it to be."""
    room, file = str(room_of(module)), module.rpartition(".")[2]
    if room == "questions":
        return next(
            (kind for kind in ("tables", "figures", "section") if file.startswith(kind)), ""
        )
    return room


def test_numbers_import_no_figure_and_figures_compute_nothing() -> None:
    """Walls inside an idea: tables, computation, figures and sections by file name."""
    wrong = []
    for module, path in NAMED.items():
        if room_of(module) != "questions":
            continue
        kinds = {kind_of(name) for name in imported(path) & set(NAMED) if name != module}
        kind = kind_of(module)
        if kind == "tables":
            allowed = kinds <= {"tables", "errors"}
        elif kind == "figures":
            allowed = kinds <= {"tables", "figures", "drawing", "errors", "simulate"}
        elif kind == "section":
            allowed = "figures" not in kinds
        else:
            allowed = not kinds & {"figures", "section", "drawing", "page"}
        if not allowed:
            wrong.append((module, kinds))
    assert not wrong


def test_ideas_form_no_circle() -> None:
    ideas = {
        module.split(".")[2]
        for module in NAMED
        if module.count(".") > 2 and ".questions." in module
    }
    arrows = {idea: set[str]() for idea in ideas}
    for module, path in NAMED.items():
        if room_of(module) == "questions" and module.count(".") > 2:
            found = {
                name.split(".")[2]
                for name in imported(path)
                if name.startswith("traceana.questions.")
            }
            arrows[module.split(".")[2]] |= found & ideas - {module.split(".")[2]}
    while arrows:
        free = {idea for idea, needs in arrows.items() if not needs}
        assert free, f"a circle among {arrows}"
        arrows = {idea: needs - free for idea, needs in arrows.items() if idea not in free}


def test_every_public_name_is_explained() -> None:
    silent = [module for module, path in NAMED.items() if not ast.get_docstring(parsed(path))]
    for module, path in NAMED.items():
        tree = parsed(path)
        methods = {
            id(node)
            for parent in ast.walk(tree)
            if isinstance(parent, ast.ClassDef) and not parent.name.startswith("_")
            for node in parent.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                inner = isinstance(node, ast.FunctionDef) and node not in tree.body
                if (not inner or id(node) in methods) and not ast.get_docstring(node):
                    silent.append(f"{module}.{node.name}")
    assert not silent


def test_files_can_be_read_at_a_sitting() -> None:
    lines = {module: len(path.read_text().splitlines()) for module, path in NAMED.items()}
    assert not {module: n for module, n in lines.items() if n > 600}


def test_public_names_resolve_and_are_listed() -> None:
    for name in vars(traceana)["__all__"]:
        assert "{columns}" not in getattr(traceana, name).__doc__
    assert set(vars(traceana)["__all__"]) <= set(dir(traceana))
    nothing = "nothing"
    with pytest.raises(AttributeError, match="traceana has no 'nothing'"):
        getattr(traceana, nothing)


def test_code_names_no_trace() -> None:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    traces = re.compile("|".join(map(re.escape, load_catalog())))
    named = []
    for module, path in NAMED.items():
        if room_of(module) in ("catalog", "ingesters", "claims", "samples"):
            continue
        tree = parsed(path)
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        }
        named += [
            (module, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if id(node) not in docstrings and traces.search(node.value)
        ]
    assert not named


def test_numbers_of_a_paper_are_in_its_toml() -> None:
    # throughputs, splits and FLOPS of the paper on dynamic batching
    numbers = {0.813, 0.187, 18.7, 65.0}
    splits = {(11, 4, 24), (9, 12, 18), (2, 17, 20), (3, 5, 12)}
    typed: list[tuple[str, object]] = []
    for module, path in NAMED.items():
        if room_of(module) not in ("simulate", "questions", "claims"):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                typed += [(module, node.value)] if node.value in numbers else []
            elif isinstance(node, ast.Tuple | ast.List):
                values = tuple(getattr(each, "value", None) for each in node.elts)
                typed += [(module, values)] if values in splits else []
    assert not typed


def test_options_are_given_by_keyword() -> None:
    for name in vars(traceana)["__all__"]:
        function = getattr(traceana, name)
        if inspect.isfunction(function):
            for parameter in list(inspect.signature(function).parameters.values())[1:]:
                optional = parameter.default is not parameter.empty and parameter.name != "by"
                assert not optional or parameter.kind is inspect.Parameter.KEYWORD_ONLY, name


def test_groups_are_given_by_position_or_keyword() -> None:
    for name in vars(traceana)["__all__"]:
        function = getattr(traceana, name)
        if inspect.isfunction(function):
            by = inspect.signature(function).parameters.get("by")
            assert by is None or by.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, name


def test_every_result_is_public() -> None:
    for module in import_named("*/tables*.py", "questions/*/tables*.py", "simulate/*/tables*.py"):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Result) and name[0] != "_":
                homes = (traceana, traceana.simulate)
                assert value is Result or any(getattr(home, name, None) is value for home in homes)


@pytest.mark.parametrize("statement", ["import traceana", "import traceana.cli"])
def test_an_import_loads_nothing_heavy(statement: str) -> None:
    code = f"{statement}, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_every_room_is_a_package_with_a_docstring() -> None:
    for path in ROOT.iterdir():
        if (path / "__init__.py").exists():
            assert importlib.import_module(f"traceana.{path.name}").__doc__
