"""What Spark says, in the user's words: its table, file and line, the reason on one line, and what to try."""

from __future__ import annotations

import contextlib
import inspect
import re
import subprocess
import traceback
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkAttributeError, PySparkException

from headrace.definitions import TableDef
from headrace.errors import Bug, DefinitionError, FunctionFailed, HeadraceError, WorldError
from headrace.origin import Origin

_HINTS = {
    "DIVIDE_BY_ZERO": "try_divide(a, b), which gives NULL",
    "REMAINDER_BY_ZERO": "try_mod(a, b), which gives NULL",
    "CAST_INVALID_INPUT": "try_cast, which gives NULL",
    "CAST_OVERFLOW": "try_cast, which gives NULL, or a wider type",
    "ARITHMETIC_OVERFLOW": "try_add, try_sum and the like, which give NULL, or a wider type",
    "NUMERIC_VALUE_OUT_OF_RANGE": "a wider DECIMAL",
    "UNRESOLVED_COLUMN": "a column that the input has",
    "ATTRIBUTE_NOT_SUPPORTED": "a column that the input has, or a method of Spark's",
    "TABLE_OR_VIEW_NOT_FOUND": "a source, a reference or a table of the app",
    "INVALID_ARRAY_INDEX": "get(array, index), which gives NULL",
}


class SparkDied(WorldError):
    """The JVM is gone."""

    code = "spark_died"


def condition(error: BaseException) -> str:
    """Spark's name for what went wrong: DIVIDE_BY_ZERO."""
    name = error.getCondition() if isinstance(error, PySparkException) else None
    if not name:
        found = re.search(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]", _text(error))
        name = found.group(1) if found else ""
    return str(name)


def one_line(error: BaseException) -> str:
    """The reason without Spark's advice about its own settings, its SQLSTATE and its traces."""
    text = _text(error)
    # The last line of a traceback; not every class of an error is called one (pyarrow.lib.ArrowInvalid).
    python = re.findall(r"^(?:\w+\.)*([A-Z]\w*: .*)$", text, re.M)
    if "PythonException" in text or "Traceback (most recent call last)" in text:
        return python[-1] if python else "the Python function failed"
    text = text.split("\n\n")[0].splitlines()[0] if text.strip() else type(error).__name__
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+.*$", "", text)
    text = re.sub(r" Use `[^`]+` to .*$", "", text)
    text = re.sub(r" If necessary set \S+ to .*$", "", text)
    return text.strip().rstrip(";")


def _text(error: BaseException) -> str:
    if isinstance(error, Py4JJavaError):
        # Spark wraps what a task raised in exceptions of its own: the innermost one says what went wrong.
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getMessage() or cause.toString())
    message = error.getMessage() if isinstance(error, PySparkException) else None
    return str(message or error)


def is_dead(error: BaseException) -> bool:
    """Whether the JVM itself is gone."""
    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        return True
    text = str(error)
    if isinstance(error, Py4JError) and ("Answer from Java side is empty" in text or "trying to connect" in text):
        return True
    if "SparkContext was shut down" in text or "stopped SparkContext" in text:
        return True
    # Rows that break off in the middle may be the first that we hear of it, a moment before the process is really gone.
    return _jvm_ended(_MOMENT_S if isinstance(error, (EOFError, OSError, pa.ArrowException)) else 0)


_MOMENT_S = 2.0


def _jvm_ended(within_s: float) -> bool:
    """Whether the JVM that this process started has ended; of one that was borrowed we know nothing."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.poll() is not None


class WorkerDied(WorldError):
    """A Python worker of Spark's is gone; the epoch is computed again."""

    code = "worker_died"


class SparkFailed(FunctionFailed):
    """Spark could not compute a table over some rows; which row or key it was is not known yet."""


def _reason(error: PySparkException) -> str:
    """What is not understood; `frame.name` may be meant as a column or as a method, which Spark does not say."""
    if isinstance(error, PySparkAttributeError):
        return f"there is no column or method {(error.getMessageParameters() or {}).get('attr_name', 'of that name')}"
    return one_line(error)


def _line(error: BaseException, table: TableDef) -> Origin:
    """The line of the user's function that raised the error; where there is none, the table's own."""
    code = getattr(inspect.unwrap(table.function), "__code__", None) if table.function else None
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    return replace(table.origin, line=lines[-1]) if lines and lines[-1] else table.origin


@contextlib.contextmanager
def spark_errors(table: TableDef) -> Iterator[None]:
    """Whatever Spark or the user's function raises inside, as an error of ours about this table."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        if is_dead(error):
            raise SparkDied("Spark's JVM died", details=[f'while table "{table.name}" was computed']) from error
        if condition(error).startswith("INTERNAL_ERROR"):
            raise Bug(f'table "{table.name}" could not be computed', details=[one_line(error)], origin=table.origin) from error
        hint = next((h for name, h in _HINTS.items() if condition(error).startswith(name)), None)
        if not isinstance(error, (PySparkException, Py4JError)):
            raise
        if isinstance(error, (AnalysisException, PySparkAttributeError)):
            raise DefinitionError(
                f'table "{table.name}" is not understood by Spark',
                details=[_reason(error)],
                origin=_line(error, table),
                hint=hint,
            ) from error
        if "Python worker exited unexpectedly" in str(error) or "Python worker failed to connect back" in str(error):
            raise WorkerDied("a Python worker died", details=[f'while table "{table.name}" was computed']) from error
        raise SparkFailed(
            f'table "{table.name}": its function fails', details=[one_line(error)], origin=table.origin, hint=hint
        ) from error
