"""App: the object that users hold. It collects definitions, and hands them downwards when asked to run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace import validation
from headrace.apps import Apps
from headrace.definitions import AppDef, OnError, OnTie, ReferenceDef, TableDef, TopicDef
from headrace.errors import DefinitionError, NotAvailable, UsageError
from headrace.live import Run
from headrace.log.position import Position
from headrace.log.producer import Producer
from headrace.origin import Origin
from headrace.place import Place
from headrace.reading import After, Rows, changes, read
from headrace.schema import parse_schema
from headrace.settings import Settings
from headrace.statement import inputs_of
from headrace.store.reader import AsOf, RowChange
from headrace.topics import open_topic

if TYPE_CHECKING:
    from headrace.runtime.runner import Runner

# Whether a command is importing the app's file: then `app.run()` at its end, without a guard, must not run it.
importing: ContextVar[bool] = ContextVar("importing", default=False)

_LATER_METHODS = frozenset(
    ["files", "socket", "stdin", "tail", "sink", "keyed", "pattern", "absence", "stream", "model", "chart", "alert", "endpoint"]
).union(["search", "command", "kafka", "http", "mqtt", "amqp", "cdc"])
_LATER_PARAMETERS = frozenset(
    [
        "final",
        "every",
        "kept_in",
        "partition_by",
        "check",
        "on_violation",
        "panes",
        "expires",
        "models",
        "refresh",
        "table",
        "query",
    ]
)
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class App:
    """A named set of definitions: topics, references and tables.

    >>> app = App("clicks")
    >>> events = app.topic("events", schema="page STRING, time TIMESTAMP")
    >>> @app.table(key=["page"])
    ... def visits(events):
    ...     return events.groupBy("page").count()
    >>> app.definition().tables["visits"].reads
    ('events',)
    """

    def __init__(self, name: str, *, timezone: str = "UTC", store: str | None = None, data: str | Path | None = None) -> None:
        self._origin = Origin.of_caller()
        validation.check_app_name(name, self._origin)
        validation.check_timezone(timezone, self._origin)
        self.name = name
        self.timezone = timezone
        self.file = None if _interactive(self._origin) else str(Path(self._origin.file).absolute())
        self._given = {"store": store, "data": str(data) if data is not None else None}
        self._definitions: dict[str, validation.Definition] = {}

    def __repr__(self) -> str:
        return f"App({self.name!r})"

    def __getattr__(self, name: str) -> Any:
        if name in _LATER_METHODS:

            def refuse(*_: Any, **__: Any) -> None:
                raise NotAvailable(f"app.{name} is not available in this version", origin=Origin.of_caller())

            return refuse
        raise AttributeError(f"App has no {name!r}")

    # --- definitions ---------------------------------------------------------------------------------------------------

    def topic(
        self,
        name: str,
        schema: str | StructType,
        *,
        event_time: str | None = None,
        lateness: str | None = None,
        partitions: int = 1,
        partition_by: str | Sequence[str] = (),
    ) -> Topic:
        """A topic of the embedded log: rows that are appended, kept in order per partition, and never change.

        >>> App("a").topic("events", schema="id BIGINT NOT NULL, action STRING", partitions=4, partition_by="id").name
        'events'
        """
        origin = Origin.of_caller()
        validation.check_name("topic", name, origin)
        columns = _schema(f'topic "{name}"', schema, origin)
        definition = TopicDef(name, columns, partitions, _names(partition_by), event_time, lateness, origin)
        validation.check_topic(definition)
        self._add(definition)
        return Topic(self, name)

    def reference(
        self, name: str, path: str | Path, *, format: str | None = None, schema: str | StructType | None = None, **later: Any
    ) -> Reference:
        """A Parquet, CSV or JSON file that is read whole at every start, and is a constant until the next.

        >>> App("a").reference("campaigns", "campaigns.parquet").name
        'campaigns'
        """
        origin = Origin.of_caller()
        _refuse_later(f'reference "{name}"', later, origin)
        validation.check_name("reference", name, origin)
        if not isinstance(path, (str, Path)) or "://" in str(path):
            raise NotAvailable("a reference that is no local file is not available in this version", origin=origin)
        chosen = format or _FORMATS.get(Path(path).suffix.lower())
        if chosen not in ("parquet", "csv", "json"):
            raise DefinitionError(
                f'reference "{name}": cannot tell the format of {path}', origin=origin, hint='format="parquet", "csv" or "json"'
            )
        columns = _schema(f'reference "{name}"', schema, origin) if schema is not None else None
        validation.check_columns("reference", name, columns.names if columns else (), origin)
        self._add(ReferenceDef(name, str(self.folder / path), chosen, columns, origin))
        return Reference(name)

    @overload
    def table(self, function: Callable[..., Any], /) -> Table: ...
    @overload
    def table(
        self,
        function: Callable[..., Any],
        /,
        *,
        key: str | Sequence[str] | None = ...,
        inputs: Mapping[str, str | Topic | Reference | Table] | None = ...,
        name: str | None = ...,
        on_error: OnError = ...,
        on_tie: OnTie = ...,
        history: str | None = ...,
        **later: Any,
    ) -> Table: ...
    @overload
    def table(
        self,
        function: None = None,
        /,
        *,
        key: str | Sequence[str] | None = ...,
        inputs: Mapping[str, str | Topic | Reference | Table] | None = ...,
        name: str | None = ...,
        on_error: OnError = ...,
        on_tie: OnTie = ...,
        history: str | None = ...,
        **later: Any,
    ) -> Callable[[Callable[..., Any]], Table]: ...
    def table(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        key: str | Sequence[str] | None = None,
        inputs: Mapping[str, str | Topic | Reference | Table] | None = None,
        name: str | None = None,
        on_error: OnError = "stop",
        on_tie: OnTie = "warn",
        history: str | None = None,
        **later: Any,
    ) -> Table | Callable[[Callable[..., Any]], Table]:
        """A function of topics, references and other tables, kept up to date. A decorator, with and without options,
        or a call on a function that exists. Parameters name what it reads; `inputs` renames them.

        >>> app = App("a")
        >>> def opens(events):
        ...     return events.where("action = 'open'")
        >>> app.table(opens, inputs={"events": "clicks"}, name="all_opens").definition.inputs
        (('events', 'clicks'),)
        """
        if function is None:
            return functools.partial(
                self.table, key=key, inputs=inputs, name=name, on_error=on_error, on_tie=on_tie, history=history, **later
            )
        origin = Origin.of_caller()
        if not callable(function):
            raise DefinitionError("app.table takes a function", origin=origin, hint='app.sql("name", "SELECT ...") for SQL')
        called = str(name or getattr(function, "__name__", ""))
        _refuse_later(f'table "{called}"', later, origin)
        validation.check_name("table", called, origin)
        renamed = {parameter: read if isinstance(read, str) else read.name for parameter, read in (inputs or {}).items()}
        reads = validation.inputs_of_function(called, function, renamed, origin)
        return self._table(TableDef(called, _key(key), reads, function, None, on_error, on_tie, history, origin))

    def sql(
        self,
        name: str,
        query: str,
        *,
        key: str | Sequence[str] | None = None,
        on_error: OnError = "stop",
        on_tie: OnTie = "warn",
        history: str | None = None,
        **later: Any,
    ) -> Table:
        """A table written in Spark SQL, which names what it reads in FROM.

        >>> App("a").sql("opens", "SELECT phone_id, count(*) AS n FROM events GROUP BY phone_id", key="phone_id").definition.reads
        ('events',)
        """
        origin = Origin.of_caller()
        _refuse_later(f'table "{name}"', later, origin)
        validation.check_name("table", name, origin)
        reads = tuple((read, read) for read in inputs_of(query, table=name, origin=origin))
        return self._table(TableDef(name, _key(key), reads, None, query, on_error, on_tie, history, origin))

    def _table(self, definition: TableDef) -> Table:
        validation.check_table(definition)
        self._add(definition)
        return Table(self, definition)

    def _add(self, definition: validation.Definition) -> None:
        validation.check_new(definition, self._definitions, replaces=_interactive(definition.origin))
        self._definitions[definition.name] = definition

    def definition(self) -> AppDef:
        """The app as frozen data, checked as far as this goes without reading data."""
        spelled = {name.lower(): name for name in self._definitions}
        tables = {name: _resolved(table, spelled) for name, table in self._definitions.items() if isinstance(table, TableDef)}
        app = AppDef(
            name=self.name,
            timezone=self.timezone,
            file=self.file,
            topics={name: topic for name, topic in self._definitions.items() if isinstance(topic, TopicDef)},
            references={name: ref for name, ref in self._definitions.items() if isinstance(ref, ReferenceDef)},
            tables=tables,
            settings={name: value for name, value in self._given.items() if value is not None},
        )
        validation.validate(app)
        return app

    # --- where it lives ------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The folder of the app's file; in a notebook the current one."""
        return Path(self.file).parent if self.file else Path.cwd()

    def settings(self, **options: Any) -> Settings:
        """Settings for this app; `options` win over everything else."""
        return Settings.load(options, project=self.folder, app=self._given)

    def place(self, settings: Settings | None = None) -> Place:
        """Where the app's topics and tables are."""
        settings = settings or self.settings()
        return place_of(self.name, self.folder, settings)

    # --- running -------------------------------------------------------------------------------------------------------

    def start(
        self, *, once: bool = False, restored: bool = False, report: Callable[[Any], None] | None = None, **options: Any
    ) -> Run:
        """Keep the tables up to date in a background thread, until the `with` block ends or `stop()` is called.

        `options` are settings, such as `data=` or `spark_master=`; `report` is called with the runner's events.
        """
        return self._run(once, restored, report, options).begin()

    def run(
        self, *, once: bool = False, restored: bool = False, report: Callable[[Any], None] | None = None, **options: Any
    ) -> None:
        """Keep the tables up to date until interrupted; with `once`, until what is there now has been taken."""
        with self._run(once, restored, report, options).begin() as run:
            run.join()

    def _run(self, once: bool, restored: bool, report: Callable[[Any], None] | None, options: dict[str, Any]) -> Run:
        runner, place = self._runner(report, options)
        return Run(runner, place, once=once, restored=restored)

    def _runner(self, report: Callable[[Any], None] | None, options: dict[str, Any]) -> tuple[Runner, Place]:
        definition, place, settings = self._ready(options)
        from headrace.runtime.runner import Runner  # the whole of the runtime, which defining an app need not wait for

        return Runner(definition, place, settings, report=report or (lambda event: None)), place

    def _ready(self, options: dict[str, Any]) -> tuple[AppDef, Place, Settings]:
        """Definition, place and settings of work that calls functions; noted, so that commands find the data."""
        if importing.get():
            raise DefinitionError(
                f"{self} is run while its file is imported",
                origin=Origin.of_caller(),
                hint='if __name__ == "__main__": before it',
            )
        definition, settings = self.definition(), self.settings(**options)
        place = self.place(settings)
        if self.file:
            Apps(self.folder).remember(Path(self.file).name, place)
        return definition, place, settings

    def batch(self, **options: Any) -> Any:
        """Run the same functions once over all rows, into batch.db; returns the report."""
        definition, place, settings = self._ready(options)
        from headrace.batch import run_batch

        return run_batch(definition, place, settings, progress=_silent)

    def verify(self, **options: Any) -> Any:
        """Compare the live tables with the batch answer over their prefix; returns the report, whose `ok` tells."""
        definition, place, settings = self._ready(options)
        from headrace.verify import verify

        return verify(definition, place, settings, progress=_silent)

    def plan(self, **options: Any) -> Any:
        """How each table is kept, and why; prints as `headrace plan` does."""
        definition, place, settings = self._ready(options)
        from headrace.runtime.planning import plan_app

        return plan_app(definition, place, settings)

    # --- reading -------------------------------------------------------------------------------------------------------

    def read(
        self, table: str, *, as_of: AsOf = None, after: After | None = None, where: str | None = None, timeout: float = 30.0
    ) -> Rows:
        """Rows of a table, all of one epoch: the newest, that of `as_of` (an epoch or a time), or the first one that has
        taken the rows up to `after` (what `append` returned). `where` is a condition in Spark SQL.
        """
        return read(self.place(), table, as_of=as_of, after=after, where=where, timeout=timeout)

    def changes(self, table: str, *, after: int | None = None, follow: bool = False) -> Iterator[RowChange]:
        """What each epoch did to a table: epoch, key, row before, row after; those after an epoch, or all that are kept.
        With `follow`, for ever.
        """
        return changes(self.place(), table, after=after, follow=follow)


def _silent(*_: Any, **__: Any) -> None:
    """Progress that nobody looks at."""


def place_of(name: str, folder: Path, settings: Settings) -> Place:
    """The place of an app whose file is in `folder`; what was typed here counts from here, what stands in files from there."""

    def start(setting: str) -> Path:
        typed = settings.origins.get(setting, "option")
        return Path.cwd() if typed == "option" or typed.startswith("HEADRACE_") else folder

    data = start("data") / settings.data if settings.data else folder / "headrace-data"
    return Place.of(name, data, settings.store, beside=start("store"))


class Topic:
    """A topic of an app, to append rows to."""

    def __init__(self, app: App, name: str) -> None:
        self._app = app
        self.name = name
        self._producers: dict[tuple[Path, str | None], Producer] = {}

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    def append(
        self,
        rows: Sequence[Mapping[str, Any]] | pa.Table | pa.RecordBatch,
        *,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> Position:
        """Append rows durably, all or none; a wrong row refuses the call and is named.

        With `producer` and `sequence` the call may be repeated: the rows are there once.
        """
        if (producer is None) != (sequence is None):
            raise UsageError("producer and sequence belong together", hint='append(rows, producer="loader", sequence=7)')
        definition = self._app._definitions[self.name]
        assert isinstance(definition, TopicDef)
        place = self._app.place()
        writer = self._producers.get((place.folder, producer))
        if writer is None:
            writer = open_topic(place, definition).producer(producer)
            self._producers[place.folder, producer] = writer
        return writer.append(rows, sequence=sequence)

    def lookup(self, *_: Any, **__: Any) -> None:
        """Columns of a reference attached as rows arrive: due in a later version."""
        raise NotAvailable("lookup is not available in this version", origin=Origin.of_caller())


class Reference:
    """A reference of an app."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Reference({self.name!r})"


class Table:
    """A table of an app. Calling it calls the plain function, so that it can be tested and used in batch jobs."""

    def __init__(self, app: App, definition: TableDef) -> None:
        self._app = app
        self.definition = definition
        if definition.function is not None:
            functools.update_wrapper(self, definition.function)

    @property
    def name(self) -> str:
        """The table's name."""
        return self.definition.name

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def __call__(self, *frames: Any, **named: Any) -> Any:
        """The plain function."""
        if self.definition.function is None:
            raise UsageError(f'table "{self.name}" is SQL and cannot be called', hint="spark.sql(table.definition.query)")
        return self.definition.function(*frames, **named)

    def read(self, *, as_of: AsOf = None, after: After | None = None, where: str | None = None, timeout: float = 30.0) -> Rows:
        """The table's rows; see `App.read`."""
        return self._app.read(self.name, as_of=as_of, after=after, where=where, timeout=timeout)

    def changes(self, *, after: int | None = None, follow: bool = False) -> Iterator[RowChange]:
        """The table's changes; see `App.changes`."""
        return self._app.changes(self.name, after=after, follow=follow)


def _interactive(origin: Origin) -> bool:
    """Whether the definition was typed in a notebook or at a prompt, where it may be typed again."""
    return origin.file.startswith("<") or "ipykernel_" in origin.file


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    # Whatever is neither is kept as it is, for the check of its definition to name it.
    return tuple(columns) if isinstance(columns, Sequence) and not isinstance(columns, str) else (columns,)


def _key(key: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if key is None else _names(key)


def _schema(what: str, schema: str | StructType, origin: Origin) -> StructType:
    try:
        return parse_schema(schema)
    except DefinitionError as problem:
        raise DefinitionError(f"{what}: {problem.message}", details=problem.details, origin=origin, hint=problem.hint) from None


def _resolved(table: TableDef, spelled: Mapping[str, str]) -> TableDef:
    """SQL ignores the case of names; the definition that is meant has one spelling."""
    if table.query is None:
        return table
    return replace(table, inputs=tuple((called, spelled.get(read.lower(), read)) for called, read in table.inputs))


def _refuse_later(what: str, options: Mapping[str, Any], origin: Origin) -> None:
    for option in options:
        if option in _LATER_PARAMETERS:
            raise NotAvailable(f"{what}: {option}= is not available in this version", origin=origin)
        raise DefinitionError(f"{what}: there is no option {option}=", origin=origin, hint="see docs/reference.md")
