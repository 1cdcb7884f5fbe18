"""Sessions: one Spark context per process, and a session of its own for each gear.

*small* plans without shuffles and without adaptive execution, for epochs of some thousand rows; *large* uses all cores,
for catching up, `batch` and `verify`. Both are children of one context and share the time zone and ANSI mode, without which
the two gears could give different rows.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction

from headrace.errors import DefinitionError
from headrace.spark.java import java_home
from headrace.store import process

_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.cleaner.periodicGC.interval": "10min",
    # Python workers over TCP wait 40 ms per task for nothing but delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:+IgnoreUnrecognizedVMOptions",
}

_BOTH = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # What is a parameter for people is part of our answers: fixed here, whatever the machine's spark-defaults say.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
}

_SMALL = {
    **_BOTH,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

_LARGE = {
    **_BOTH,
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Segments hold the proleptic calendar, as Arrow does: dates before 1582 are what they say.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass(frozen=True)
class Sessions:
    """The two gears of one app."""

    small: SparkSession
    large: SparkSession

    @property
    def context(self) -> SparkSession:
        """The session whose context both share."""
        return self.small


def start_sessions(
    *, master: str = "local[*]", memory: str = "4g", timezone: str = "UTC", scratch: Path | None = None, name: str = "headrace"
) -> Sessions:
    """Start Spark, or borrow the session that this process already has."""
    active = SparkSession.getActiveSession()
    if active is not None and not hasattr(active, "_jsparkSession"):
        raise DefinitionError(
            "Spark Connect sessions cannot be borrowed",
            details=["the planner needs the analysed plan, which only a classic session shows"],
            hint="run the app in a process without a Connect session",
        )
    base = SparkSession._instantiatedSession
    if base is None or base._jsc.sc().isStopped():
        base = _start(master, memory, scratch, name)
    return Sessions(small=_child(base, _SMALL, timezone), large=_child(base, _large_settings(base), timezone))


def _large_settings(base: SparkSession) -> dict[str, str]:
    cores = base.sparkContext.defaultParallelism
    return {**_LARGE, "spark.sql.shuffle.partitions": str(max(cores, 2))}


def _child(base: SparkSession, settings: dict[str, str], timezone: str) -> SparkSession:
    session = base.newSession()
    for key, value in {**settings, "spark.sql.session.timeZone": timezone}.items():
        session.conf.set(key, value)
    return session


def _start(master: str, memory: str, scratch: Path | None, name: str) -> SparkSession:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([p for p in sys.path if p and not p.endswith(".zip")]))
    builder = SparkSession.builder.master(master).appName(name).config("spark.driver.memory", memory)
    for key, value in _STATIC.items():
        builder = builder.config(key, value)
    if scratch is not None:
        own = _own_folder(scratch)
        builder = builder.config("spark.local.dir", str(own)).config("spark.sql.warehouse.dir", str(own / "warehouse"))
    builder = builder.config("spark.driver.extraJavaOptions", f"{_STATIC['spark.driver.extraJavaOptions']} {_log_options()}")
    with _stderr_into((scratch or Path(tempfile.gettempdir())) / "jvm.log"):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    # When the JVM dies, whoever asked it for something hears of it; a trace of the server for accumulators tells nobody more.
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None
    # PySpark logs every analysis error with its JVM trace; ours is the place that tells people.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    return session


def _own_folder(scratch: Path) -> Path:
    """A folder for what Spark spills; those of processes that are gone go: a JVM that is killed leaves all that it wrote."""
    scratch.mkdir(parents=True, exist_ok=True)
    for there in scratch.glob("process-*-*"):
        _, pid, began = there.name.split("-", 2)
        if process.started(int(pid)) != began:
            shutil.rmtree(there, ignore_errors=True)
    me = process.Process.mine()
    own = scratch / f"process-{me.pid}-{me.started}"
    own.mkdir(exist_ok=True)
    return own


@contextlib.contextmanager
def _stderr_into(file: Path) -> Iterator[None]:
    """What the JVM itself prints goes into a file: the JVM inherits our stderr at the moment at which it is started."""
    sys.stderr.flush()
    kept, opened = os.dup(2), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(opened, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(opened)


def _log_options() -> str:
    return f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"


def stop_sessions() -> None:
    """Stop this process's Spark, if there is one."""
    base = SparkSession._instantiatedSession
    if base is not None:
        base.stop()


def forget_dead_sessions() -> None:
    """After the JVM died: let this Python process start another one."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):
        if SparkContext._gateway is not None:
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    # Functions of the user's module remember what they were in the JVM that is gone; nothing else than a search finds them all.
    for thing in gc.get_objects():
        if type(thing) is UserDefinedFunction:
            thing._judf_placeholder = None
