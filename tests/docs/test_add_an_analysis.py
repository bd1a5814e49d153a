"""The pages on adding an analysis: their files are added to a copy of the package, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import traceana
from tests.report.reader import read_page, read_table, section

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
LOG = "id,seconds,user\n" + "".join(f"j{n},{3600 * n},u{n % 3}\n" for n in range(1, 8))
MAPPING = """
[trace]
title = "A log of seven jobs"
[jobs]
job_id = "id"
runtime_s = "seconds"
user = "user"
"""

COMMANDS = """
ingest log.csv --mapping log.toml --trace log --store store
report --only longest-jobs --store store --out page
figures longest-jobs --store store --out drawn
report --only longest-of-users --store store --out users
"""
RUN = f"""
import doctest, sys
import traceana.questions.longest.longest
from traceana.cli import main
for command in {COMMANDS.strip().splitlines()}:
    sys.argv = ["traceana", *command.split()]
    try:
        main()
    except SystemExit as done:
        assert not done.code, command
print(traceana.longest_jobs.__doc__, doctest.testmod(traceana.questions.longest.longest))
"""


def test_five_files_add_an_analysis_and_one_a_section(tmp_path: Path) -> None:
    package = tmp_path / "code" / "traceana"
    shutil.copytree(Path(traceana.__file__).parent, package)
    page = (HOW_TO / "add-an-analysis.md").read_text(encoding="utf-8")
    paths = re.findall(r"^## \d\..*`traceana/(.*)`", page, flags=re.MULTILINE)
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(paths) == len(blocks) == 5
    for path, block in zip(paths, blocks, strict=True):
        (package / path).parent.mkdir(exist_ok=True)
        with (package / path).open("a", encoding="utf-8") as file:
            file.write(block)
    page = (HOW_TO / "add-a-section.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (package / "questions" / "runtimes" / "section_longest.py").write_text(block)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "log.toml").write_text(MAPPING)
    # lines of the copy are not counted as the package's
    counted = {name: one for name, one in os.environ.items() if not name.startswith("COVERAGE")}
    environment = counted | {
        "PYTHONPATH": str(package.parent),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    told = subprocess.run(
        [sys.executable, "-c", RUN],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    ).stdout
    html = read_page((tmp_path / "page" / "index.html").read_text(encoding="utf-8"))
    part = section(html, "longest-jobs")
    rows = read_table(part, "A log of seven jobs")
    # 1 + 2 + ... + 7 = 28 hours, of which the longest job ran 7
    assert rows[0] == {"Job": "j7", "Runtime (s)": "25,200", "Of all runtime": "25 %"}
    assert "The longest of 7 jobs ran 7 h, 25 % of all runtime" in section(html, "summary").text
    assert "5 of 7 jobs." in part.text
    assert (tmp_path / "drawn" / "longest-log.pdf").is_file()
    assert "`fraction`: runtime over the sum over all jobs" in told
    assert "failed=0, attempted=3" in told
    html = read_page((tmp_path / "users" / "index.html").read_text(encoding="utf-8"))
    part = section(html, "longest-of-users")
    # u1 ran 1, 4 and 7 hours, u2 2 and 5, u0 3 and 6
    assert "Half of the users ran no job longer than 6 h" in part.text
    assert "n = 3 values" in part.text
    rows = read_table(part, "Users with the longest jobs")
    assert rows[0] == {"User": "u1", "Longest job": "7 h", "Jobs": "3"}
