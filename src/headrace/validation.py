"""What can be wrong with an app before any data is read and before Spark starts.

Checks of one definition run when it is made, so that the error names the line just typed; checks between definitions run
when the app is whole. What needs the plan of a function (purity, keys that are no columns) is the planner's.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import types as T

from headrace.definitions import AppDef, ReferenceDef, TableDef, TopicDef
from headrace.durations import parse_duration
from headrace.errors import DefinitionError
from headrace.origin import Origin

RESERVED_COLUMNS = frozenset(
    [
        "_source",
        "_partition",
        "_offset",
        "_time",
        "_appended",
        "_extra",
        "_from",
        "_to",
        "_key",
        "_epoch",
        "_pane",
        "_timing",
        "_last",
    ]
)
_TABLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_APP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Definition = TopicDef | ReferenceDef | TableDef


def kind_of(definition: Definition) -> str:
    """What a definition is called in messages."""
    return {TopicDef: "topic", ReferenceDef: "reference", TableDef: "table"}[type(definition)]


def check_app_name(name: str, origin: Origin) -> None:
    """An app's name is a folder's name."""
    if not isinstance(name, str) or not _APP_NAME.fullmatch(name):
        raise DefinitionError(f'an app cannot be called "{name}"', details=["a name has letters, digits, _ and -"], origin=origin)


def check_timezone(zone: str, origin: Origin) -> None:
    """Spark takes names of the time zone database; an unknown one would surface in the first epoch only."""
    try:
        ZoneInfo(zone)
    except Exception:  # zoneinfo raises four unrelated classes for bad names
        raise DefinitionError(f'there is no time zone "{zone}"', origin=origin, hint="UTC, Europe/Berlin, ...") from None


def check_name(kind: str, name: str, origin: Origin) -> None:
    """Names of topics, references and tables are names of SQL tables and of folders."""
    reason = None
    if not isinstance(name, str) or not _TABLE_NAME.fullmatch(name):
        reason = "a name starts with a letter and has letters, digits and _"
    elif "__" in name:
        reason = "two underscores in a row are ours, as in NAME__history"
    elif name.lower().startswith("sqlite_"):
        reason = "names that start with sqlite_ belong to SQLite"
    if reason:
        raise DefinitionError(f'a {kind} cannot be called "{name}"', details=[reason], origin=origin)


def check_columns(kind: str, name: str, columns: Iterable[str], origin: Origin) -> None:
    """No column of the user's may have a name of ours."""
    for column in columns:
        if column.lower().startswith("_hr_") or column.lower() in RESERVED_COLUMNS:
            raise DefinitionError(
                f'{kind} "{name}" cannot have a column "{column}"',
                details=["Headrace keeps that name for a column of its own"],
                origin=origin,
                hint=f"another name, such as {column.strip('_') or 'value'}",
            )


def check_duration(kind: str, name: str, option: str, text: str | None, origin: Origin) -> None:
    """A duration that cannot be read is the definition's fault."""
    if text is None:
        return
    try:
        parse_duration(text)
    except DefinitionError as problem:
        raise DefinitionError(f'{kind} "{name}": {option}: {problem.message}', origin=origin, hint=problem.hint) from None


def check_one_of(kind: str, name: str, option: str, value: Any, allowed: Sequence[str], origin: Origin) -> None:
    """An option with a few named values."""
    if value not in allowed:
        raise DefinitionError(
            f'{kind} "{name}": {option} cannot be {value!r}', origin=origin, hint=" or ".join(f'"{a}"' for a in allowed)
        )


def check_topic(topic: TopicDef) -> None:
    """Columns that the topic's options name exist, and event time is a time."""
    check_columns("topic", topic.name, topic.schema.names, topic.origin)
    if not isinstance(topic.partitions, int) or isinstance(topic.partitions, bool) or not 1 <= topic.partitions <= 1024:
        raise DefinitionError(
            f'topic "{topic.name}": partitions cannot be {topic.partitions!r}', origin=topic.origin, hint="1 to 1024"
        )
    for option, columns in (
        ("partition_by", topic.partition_by),
        ("event_time", (topic.event_time,) if topic.event_time else ()),
    ):
        for column in columns:
            if column not in topic.schema.names:
                raise _no_column(f'topic "{topic.name}": {option}', column, topic.schema.names, topic.origin)
    kind = topic.schema[topic.event_time].dataType if topic.event_time else None
    if kind and not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        raise DefinitionError(
            f'topic "{topic.name}": event_time "{topic.event_time}" is {kind.simpleString().upper()}',
            origin=topic.origin,
            hint="a column of type TIMESTAMP or DATE",
        )
    if topic.lateness and not topic.event_time:
        raise DefinitionError(
            f'topic "{topic.name}" has a lateness, but no event_time',
            origin=topic.origin,
            hint='event_time="<a TIMESTAMP column>"',
        )
    check_duration("topic", topic.name, "lateness", topic.lateness, topic.origin)


def check_table(table: TableDef) -> None:
    """The options of a table, as far as they can be judged without its plan."""
    check_one_of("table", table.name, "on_error", table.on_error, ("stop", "reject"), table.origin)
    check_one_of("table", table.name, "on_tie", table.on_tie, ("warn", "stop"), table.origin)
    check_duration("table", table.name, "history", table.history, table.origin)
    for column in table.key or ():
        if not isinstance(column, str) or not column:
            raise DefinitionError(
                f'table "{table.name}": a key holds names of columns, not {column!r}',
                origin=table.origin,
                hint='key=["action", "hour"]',
            )
    check_columns("table", table.name, table.key or (), table.origin)
    lowered = [column.lower() for column in table.key or ()]
    for column in table.key or ():
        if lowered.count(column.lower()) > 1:
            raise DefinitionError(f'table "{table.name}" has "{column}" twice in its key', origin=table.origin)
    if not table.inputs:
        raise DefinitionError(
            f'table "{table.name}" reads nothing',
            details=["a table is a function of topics, references and other tables"],
            origin=table.origin,
            hint="def opens(events): ..., where the parameter names what it reads",
        )


def inputs_of_function(
    name: str, function: Callable[..., Any], renamed: Mapping[str, str], origin: Origin
) -> tuple[tuple[str, str], ...]:
    """What a function reads: the names of its parameters without defaults."""
    inputs = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise DefinitionError(
                f'table "{name}" cannot tell what it reads',
                details=[f"{stars}{parameter.name} names no input"],
                origin=origin,
                hint="one parameter per input, such as def " + name + "(events, people): ...",
            )
        if parameter.default is inspect.Parameter.empty or parameter.name in renamed:
            inputs.append((parameter.name, renamed.get(parameter.name, parameter.name)))
    for given in renamed:
        if given not in dict(inputs):
            raise _unknown(f'table "{name}" has no parameter "{given}", which inputs= renames', given, dict(inputs), origin)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(
            f'table "{name}" must return a DataFrame', details=["its function is async or a generator"], origin=origin
        )
    return tuple(inputs)


def check_new(definition: Definition, known: Mapping[str, Definition], *, replaces: bool) -> None:
    """Names are unique ignoring case, over topics, references and tables; in a notebook a cell run again replaces its own."""
    for other in known.values():
        if other.name.lower() != definition.name.lower():
            continue
        if replaces and type(other) is type(definition) and other.name == definition.name:
            continue
        spelled = "" if other.name == definition.name else f', and "{other.name}" differs only in case'
        raise DefinitionError(
            f'{kind_of(definition)} "{definition.name}" has a name that is taken',
            details=[f"{other.origin} defines the {kind_of(other)} of that name{spelled}"],
            origin=definition.origin,
            hint="another name for one of them",
        )


def validate(app: AppDef) -> None:
    """Everything between definitions: names that are read exist, and no table reads itself through others."""
    known: dict[str, Definition] = {**app.topics, **app.references, **app.tables}
    for table in app.tables.values():
        for name in table.reads:
            if name not in known:
                others = [other for other in known if other != table.name]
                raise _unknown(f'table "{table.name}" reads "{name}", which is not defined', name, others, table.origin)
        if table.on_error == "reject" and any(name in app.tables for name in table.reads):
            raise DefinitionError(
                f'table "{table.name}" cannot reject rows',
                details=["it reads a table, and a row of a table has no source row to set aside"],
                origin=table.origin,
                hint='on_error="reject" on the table that reads the topic, or try_divide, try_cast and the like here',
            )
    _check_cycles(app)


def _check_cycles(app: AppDef) -> None:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            raise DefinitionError(
                f'table "{name}" reads itself',
                details=[f"each reads the next: {circle}"],
                origin=app.tables[name].origin,
                hint="a table may read topics, references, and tables that do not depend on it",
            )
        if name in done or name not in app.tables:
            return
        for read in app.tables[name].reads:
            visit(read, [*path, name])
        done.add(name)

    for name in app.tables:
        visit(name, [])


def _unknown(message: str, name: str, known: Iterable[str], origin: Origin) -> DefinitionError:
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f'"{near[0]}"' if near else (f"one of {', '.join(names)}" if names else None)
    return DefinitionError(message, origin=origin, hint=hint)


def _no_column(what: str, column: str, columns: Sequence[str], origin: Origin) -> DefinitionError:
    return _unknown(f'{what} names "{column}", which is no column', column, columns, origin)
