"""README's Python, run as it stands; only the files come from at hand."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

import traceana
from traceana.catalog import load_catalog

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(
    real_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(traceana, "fetch", partial(traceana.fetch, mirror=real_data), raising=False)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "microsoft-itp-2021/jobs: 69,351 rows read = 69,351 kept + 0 rejected" in printed
    assert "cluster10" in printed


def test_every_trace_and_command_is_named() -> None:
    for trace in load_catalog():
        assert f"`{trace}`" in README
    from traceana.cli import app  # noqa: PLC0415

    for command in app.registered_commands:
        assert command.callback
        assert f"`traceana {command.name or command.callback.__name__}" in README


def test_the_first_two_commands_set_everything_up() -> None:
    commands = re.findall(r"```sh\n(.*?)\n```", README)
    assert commands == ["pip install . && traceana report", "pip install -e '.[test]' && pytest"]
