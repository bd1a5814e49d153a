"""Every public function has an example that prints what it shows, and describes its parameters."""

from __future__ import annotations

import doctest
import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NAMES: dict[str, tuple[str, object]] = runpy.run_path(str(DOCS / "api.py"))["public_names"]()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_example_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, documented = NAMES[name]
    test = doctest.DocTestParser().get_doctest(documented.__doc__ or "", {}, name, path, 0)
    assert any(not example.options.get(doctest.SKIP) for example in test.examples), (
        f"{path} has no example that runs; add a section Examples to its docstring"
    )
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=printed.append)
    assert not printed, "".join(printed)


FUNCTIONS = sorted(name for name, (_, value) in NAMES.items() if inspect.isfunction(value))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_site_describes_each_parameter_by_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jupyter_client", reason="the site is not built: no extra docs")
    monkeypatch.syspath_prepend(DOCS)
    path, function = NAMES[name]
    lines = [*(inspect.getdoc(function) or "").splitlines(), ""]
    import_module("conf").write_parameters(None, "function", path, function, None, lines)
    section = re.search(r"Parameters\n-+\n(.*?)\n(\n\w+\n--|$)", "\n".join(lines), re.DOTALL)
    described = re.findall(r"^\w+$", section[1] if section else "", re.MULTILINE)
    assert inspect.isfunction(function)
    missing = set(inspect.signature(function).parameters) - set(described)
    assert not missing, f"{path} does not describe {sorted(missing)}"
