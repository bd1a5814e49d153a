"""README's commands and example run as they stand."""

from __future__ import annotations

import re
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(code: str, names: dict[str, object]) -> str:
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "page", "exec"), names)  # noqa: S102
    return printed.getvalue()


def test_readme_example_prints_what_readme_shows(tmp_path: Path) -> None:
    log, printed = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "sacct.txt").write_text(log)
    assert run(code, {}) == printed


def test_the_first_two_commands_set_everything_up() -> None:
    commands = re.findall(r"```sh\n(.*?)\n```", README)
    assert commands == ["pip install . && traceana report", "pip install -e '.[test]' && pytest"]


def test_links_are_absolute_and_lead_to_files() -> None:
    base = "https://github.com/traceana/traceana/blob/main/"
    raw = "https://raw.githubusercontent.com/traceana/traceana/main/"
    links = re.findall(r"\]\((.*?)\)", README)
    assert len(links) > 5
    for link in links:
        assert link.startswith((base, raw)), link
        assert (ROOT / link.removeprefix(base).removeprefix(raw)).exists(), link


def test_the_conda_recipe_has_the_dependencies_of_the_wheel() -> None:
    named = {"isal": "python-isal", "lazy_loader": "lazy-loader", "matplotlib": "matplotlib-base"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    split = re.compile(r"([\w-]+)\s*(.*)")
    wanted = {split.fullmatch(line).groups() for line in project["dependencies"]}  # type: ignore[union-attr]
    run_part = (ROOT / ".conda" / "recipe.yaml").read_text().split("  run:\n")[1].split("\n\n")[0]
    listed = re.findall(r"- ([\w-]+) (.*)", run_part)
    assert set(listed[1:]) == {(named.get(name, name), bound) for name, bound in wanted}
