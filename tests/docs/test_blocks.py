"""Every code block of the documentation runs, page by page, in a folder of its own."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import traceana
from traceana.cli import app
from traceana.drawing import registry
from traceana.figures import figures

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "index.md"] + [
    page
    for part in ("tutorials", "how-to", "explanation")
    for page in sorted((DOCS / part).glob("*.md"))
    if page.name != "add-an-analysis.md"
]
"""The page left out has a test that adds its files to a copy of the package."""
NOT_RUN = {
    "pip install": "network",
    "traceana fetch": "network",
    "traceana ingest files": "files that fetch downloads",
    "traceana report --store real": "files that fetch downloads",
    "traceana claims --paper zeus --store real": "files that fetch downloads",
    "traceana figures energy-front --store real": "files that fetch downloads",
    "java -version": "an optional program",
    "duckdb -c": "an optional program",
    "jq '": "an optional program",
    "kubectl get": "a cluster",
    "sacctmgr show": "a cluster",
    "traceana ingest events.txt": "its output",
    "TZ=UTC SLURM_TIME_FORMAT": "a cluster",
    "traceana report --engine spark": "Java; tests/spark/test_session.py",
    "PYSPARK_SUBMIT_ARGS": "Java; tests/spark/test_session.py",
    "export PYSPARK_SUBMIT_ARGS": "Java; tests/spark/test_session.py",
    "spark=$(python": "Java; tests/spark/test_cluster.py",
    "$spark/bin": "Java; tests/spark/test_cluster.py",
    "from pyspark.sql": "Java; tests/spark/test_session.py",
    "spark = (": "an object store",
    "import ibis": "a database; tests/store/test_frames.py",
    "import csv, time, socket": "a training loop on several hosts",
}
"""Beginnings of the commands and Python blocks that do not run here, and what they need."""


def is_listed(text: str) -> bool:
    return text.startswith(tuple(NOT_RUN))


def read_blocks(text: str) -> list[tuple[str, str, str]]:
    """Return the blocks: the comment before each, language (sh where none is named) and text.

    Not shown by the page: ``run: COMMAND``, and ``store: sample``, which fills the store ``data``.
    """
    blocks, note = [], ""
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block"):
            blocks.append((note, token.info or "sh", token.content))
            note = ""
        elif token.type == "html_block":
            note = token.content.strip(" \n<!->")
            if note.startswith("run: "):
                blocks.append(("", "sh", note.removeprefix("run: ")))
            elif note == "store: sample":
                blocks.append((note, "text", ""))
                note = ""
    return blocks


def run_command(line: str) -> str:
    """Run a command; of a report, one section."""
    words = shlex.split(line, comments=True)
    if words[0] != "traceana":
        return subprocess.run(line, shell=True, check=True, capture_output=True, text=True).stdout  # noqa: S602
    if words[1] == "report":
        words += ["--only", "data-quality"]
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.stdout


def run_python(code: str, names: dict[str, object]) -> str:
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, "page", "exec"), names)  # noqa: S102
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_blocks_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_ENTRIES", figures())  # a page adds a figure
    blocks, printed = read_blocks(page.read_text(encoding="utf-8")), ""
    names: dict[str, object] = {}
    for note, _, body in blocks:
        what, _, name = note.partition(": ")
        if what in ("file", "mapping"):
            Path(name).write_text(body)
        elif note == "store: sample":
            shutil.copytree(traceana.open_sample().path, "data")
    for note, kind, body in blocks:
        if note == "output":
            assert printed == body
        elif kind == "python" and not is_listed(body):
            printed = run_python(body, names)
        elif kind == "sh":
            lines = re.sub(r"\\\n\s*", "", body).splitlines()
            printed = "".join(run_command(line) for line in lines if not is_listed(line))
        elif kind == "toml":
            assert tomllib.loads(body)


def test_the_list_names_what_pages_have() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {start for start in NOT_RUN if start not in text} == set()
