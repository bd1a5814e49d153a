"""Every public function and class has an example, and every example prints what it shows."""

from __future__ import annotations

import doctest
import runpy
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
