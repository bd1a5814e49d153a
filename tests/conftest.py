"""What tests share: quick tests, the place of the publishers' files, and their store."""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from hypothesis import settings

if TYPE_CHECKING:
    from traceana.store import Store

# no test depends on how fast a machine is
settings.register_profile("unhurried", deadline=None, max_examples=50)
settings.load_profile("unhurried")


NO_FILES = "the publishers' files are absent (TRACEANA_TEST_DATA names their folder)"
QUICK = (
    "schema",
    "tables",
    "catalog",
    "exchange",
    "store",
    "stats",
    "test_architecture.py",
    "docs/test_vocabulary.py",
)
"""Tests that need little time, and find most mistakes: ``pytest -m quick``."""
LONG = (
    "spark/test_session.py",
    "report/test_batching.py",  # makes the page that others read
    "claims/test_by_hand.py",
    "claims/test_data.py",
    "docs/test_findings.py",
    "docs/test_blocks.py",
    "spark/test_cluster.py",
    "store/test_frames.py",
    "questions/test_bad_input.py",
    "questions/stragglers/test_robust.py",
    "report/test_run.py",
    "questions/test_threads.py",
)
"""Files that take longest, in this order before all others: what comes last is short."""
HERE = Path(__file__).parent
assert all((HERE / name).exists() for name in (*QUICK, *LONG))


def _is_quick(path: Path) -> bool:
    return path.relative_to(HERE).as_posix().startswith(QUICK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no other tests if only the quick ones are run."""
    only_quick = config.option.markexpr == "quick" and collection_path.is_file()
    return True if only_quick and not _is_quick(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tests, and begin with the long ones."""
    for item in items:
        if _is_quick(item.path):
            item.add_marker(pytest.mark.quick)
    place = {HERE / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


gc.disable()  # what is collected stays


def pytest_collection_finish() -> None:
    """Spare the garbage collector the modules and tests."""
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)  # what is young, all but always
    gc.enable()


def pytest_unconfigure() -> None:
    """Let them be collected at the end."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line per reason of skipped tests."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, tests in reasons.most_common():
        terminalreporter.line(f"{tests} skipped: {reason}")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that all processes of a run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def make_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Let the first process that needs a folder make what is in it, while the others wait."""
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            make(folder.with_name(f"{folder.name}-part"))
            folder.with_name(f"{folder.name}-part").rename(folder)
    return folder


@pytest.fixture(scope="session")
def kept_store(real_data: Path, real_store: Store, shared_folder: Path) -> Store:
    """The store of the kept reproduction and appendix: with two traces of `../published` more."""
    from traceana.ingesters import ingest  # noqa: PLC0415  slow to import
    from traceana.store import open_store  # noqa: PLC0415

    published = real_data.parent / "published"
    files = [published / "faults/fault_trace.json", published / "elasticflow/philly_103959.csv"]
    if not all(file.is_file() for file in files):
        pytest.skip(NO_FILES)

    def make(folder: Path) -> None:
        shutil.copytree(real_store.path, folder)
        for file in files:
            ingest(file, store=folder)

    return open_store(make_once(shared_folder / "kept-store", make))


@pytest.fixture(scope="session", autouse=True)
def own_cache(shared_folder: Path) -> Iterator[None]:
    """A cache folder of the tests' own, so that none finds what an earlier run left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared_folder / "cache"))
        # fonts are listed once, and not in each cache that a test empties
        patch.setenv("MPLCONFIGDIR", str(shared_folder / "matplotlib"))
        # schedules of tests are short: those of test_compiled.py alone are worth machine code
        patch.setattr("traceana.simulate.schedule.compiled._machine_code", lambda python: python)
        # what tests write need not outlive a power cut
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the publishers' files, one folder a trace; tests that need it are else skipped."""
    beside_the_repository = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TRACEANA_TEST_DATA") or beside_the_repository)
    if not folder.is_dir():
        pytest.skip(NO_FILES)
    return folder


@pytest.fixture(scope="session")
def published_faults(real_data: Path) -> Path:
    """Folder of a published fault log, beside the publishers' files."""
    folder = real_data.parent / "published" / "faults"
    if not folder.is_dir():
        pytest.skip(NO_FILES)
    return folder


@pytest.fixture(scope="session")
def real_store(real_data: Path, shared_folder: Path) -> Store:
    """Every trace that is at hand, ingested once."""
    # slow to import, and the process that shares the tests out runs none
    from traceana.ingesters import ingest  # noqa: PLC0415
    from traceana.store import open_store  # noqa: PLC0415

    return open_store(
        make_once(shared_folder / "real-store", lambda folder: ingest(real_data, store=folder))
    )
