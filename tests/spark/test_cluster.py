"""A report by a standalone cluster: a master and two workers, as processes of this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.generator import write_sample
from tests.spark.questions import write_own
from tests.spark.test_session import ABSENT
from traceana.ingesters import ingest
from traceana.report import build_report

SECTIONS = "task-runtimes,requested-used,variation"
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_JAVA_OPTS": JAVA,
    "SPARK_DAEMON_MEMORY": "256m",
    # as in test_session.py: for a few small queries
    "PYSPARK_SUBMIT_ARGS": "--conf spark.executor.memory=512m "
    "--conf spark.sql.shuffle.partitions=2 "
    "--conf spark.sql.adaptive.enabled=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN "
    "--conf spark.sql.codegen.wholeStage=false "
    f"--conf 'spark.executor.extraJavaOptions={JAVA}' --driver-java-options '{JAVA}' pyspark-shell",
}


@contextmanager
def running(log: Path, told: str, *command: str) -> Iterator[str]:
    """Start a part of the cluster, wait for what its log tells, and end it and all it started."""
    pyspark = pytest.importorskip("pyspark", reason=f"PySpark {ABSENT}")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip(f"Java {ABSENT}")
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [spark_class, *command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | ENVIRONMENT,
            start_new_session=True,
        )
    try:
        found = None
        while found is None:
            found = re.search(told, log.read_text())
            if process.poll() is not None:
                pytest.fail(log.read_text())
            time.sleep(0.1)
        yield found[0]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a master that has no worker yet."""
    with running(
        tmp_path_factory.mktemp("master") / "log",
        r"spark://127\.0\.0\.1:\d+",
        *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"),
        *("--webui-port", "0"),
    ) as address:
        yield address


@pytest.fixture(scope="module")
def workers(master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """The folders in which the master's two workers keep what they ran."""
    folders = [tmp_path_factory.mktemp("worker") for _ in range(2)]
    with ExitStack() as parts:
        for folder in folders:
            parts.enter_context(
                running(
                    folder / "log",
                    "Successfully registered with master",
                    *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
                    *("--cores", "1", "--memory", "1g", "--webui-port", "0"),
                    *("--work-dir", str(folder), master),
                )
            )
        yield folders


def test_a_master_without_workers_is_told(master: str) -> None:
    soon = "from traceana.store import spark; spark._WORKER_S = 1"
    done = run(sys.executable, "-c", f"{soon}; spark.open_spark({master!r})")
    *_, last = done.stderr.splitlines()
    assert last == (
        f"traceana.errors.TraceanaError: no worker of {master} is free: start one, or wait for "
        "another's"
    )


def test_two_workers_give_the_report_that_polars_gives(
    master: str, workers: list[Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    files = write_sample(tmp_path / "files", scale=0.001, seed=5, traces="alibaba-pai-2020")
    ingest(files, store=store)
    write_own(store)
    # a machine that has much to do starts an executor slowly
    patient = "from traceana.store import spark; spark._WORKER_S = 900"
    code = f"{patient}; from traceana.cli import main; main()"
    command = [sys.executable, "-c", code, "report", "--store", str(store)]
    only = ["--only", SECTIONS, "--format", "md"]
    by_spark = ["--engine", "spark", "--master", master, "--out", str(tmp_path / "spark")]
    done = run(*command, *only, *by_spark)
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stderr
    assert "log4j" not in done.stderr
    polars = build_report(store, only=SECTIONS, formats="md", out=tmp_path / "polars")
    assert (tmp_path / "spark" / "index.md").read_text() == polars.read_text()
    assert all(list(folder.glob("app-*")) for folder in workers)
