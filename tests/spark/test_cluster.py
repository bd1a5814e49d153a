"""A report by a standalone cluster: a master, a worker and two executors, each a process."""

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

from tests.spark.questions import own_samples
from tests.spark.test_session import ABSENT
from traceana.ingesters import add_table
from traceana.report import build_report

SECTION = "variation"
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
    "--conf spark.executor.cores=1 "
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


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Address of a master whose worker runs an executor on each of two cores."""
    options = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as parts:
        address = parts.enter_context(
            running(
                tmp_path / "master",
                r"spark://127\.0\.0\.1:\d+",
                *("org.apache.spark.deploy.master.Master", *options, "--port", "0"),
            )
        )
        parts.enter_context(
            running(
                tmp_path / "worker",
                "Successfully registered with master",
                *("org.apache.spark.deploy.worker.Worker", *options, "--cores", "2"),
                *("--memory", "2g", "--work-dir", str(tmp_path / "work"), address),
            )
        )
        yield address


def test_two_executors_give_the_report_that_polars_gives(master: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    add_table(own_samples(), trace="own", table="worker_samples", store=store)
    # a machine that has much to do starts an executor slowly
    patient = "from traceana.store import spark; spark._WORKER_S = 900"
    code = f"{patient}; from traceana.cli import main; main()"
    command = [sys.executable, "-c", code, "report", "--store", str(store)]
    only = ["--only", SECTION, "--format", "md"]
    by_spark = ["--engine", "spark", "--master", master, "--out", str(tmp_path / "spark")]
    done = subprocess.run(
        [*command, *only, *by_spark],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stderr
    assert "log4j" not in done.stderr
    polars = build_report(store, only=SECTION, formats="md", out=tmp_path / "polars")
    assert (tmp_path / "spark" / "index.md").read_text() == polars.read_text()
    assert len(list(tmp_path.glob("work/app-*/*"))) == 2
