"""The page's own controller, run as it stands."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from traceana import sweep_batching

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "batching.md"


def test_the_page_adds_a_controller(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, output = re.findall(r"```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # a dataclass looks its module up
    exec(compile(code, "batching.md", "exec"), page.__dict__)  # noqa: S102
    assert capsys.readouterr().out == output
    controllers = ["proportional", page.HalfWay()]
    sweep = sweep_batching(controllers=controllers, overheads_s=[0], seeds=[1], steps=20)
    assert set(sweep["controller"]) == {"proportional", "half-way"}
    assert (sweep["samples"] == 192 * 20).all()
