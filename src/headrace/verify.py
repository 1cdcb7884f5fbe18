"""`headrace verify`: proves that live tables are what the untouched functions give over the committed prefix.

It compares, as of one epoch N and while the app goes on: every row of every table with the batch answer over the prefix N;
the memory (parts, copies, indexes) with what a batch job says that it must be; the ledger with itself and the log; and the
law of rows. No lane and no stored value takes part in the batch side.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from headrace.batch import Answers, Prefix, Progress, open_workshop, silent
from headrace.definitions import AppDef
from headrace.errors import DefinitionError, WorldError
from headrace.lanes.base import Lane, LaneContext, NothingStored
from headrace.lanes.difference import exact_rows
from headrace.lanes.magnitudes import magnitudes_of
from headrace.lanes.merge import MergeLane
from headrace.lanes.recompute import RecomputeLane
from headrace.lanes.ties import TieCheck
from headrace.lanes.tolerance import close
from headrace.place import Place
from headrace.runtime.generation import LANES, Planned, Workshop
from headrace.runtime.rows import StoredRows, as_copies
from headrace.schema import encode_keys, python_values
from headrace.settings import Settings
from headrace.spark.errors import spark_errors
from headrace.spark.frames import POSITION_BITS
from headrace.store.base import Registration, physical
from headrace.store.reader import Reader, Snapshot, check_ledger
from headrace.store.tables import chunks

FIRST = 5
"""How many differing rows of a table are shown."""

Apart = tuple[bytes, Sequence[Any] | None, Sequence[Any] | None]
"""A key, its live row and its batch row; None where one side has none."""


@dataclass(frozen=True)
class Difference:
    """One row that differs."""

    key: str
    live: str | None
    batch: str | None


@dataclass(frozen=True)
class Bounds:
    """How far sums of doubles may be apart in one table: per row, and in any of its rows."""

    by_key: Mapping[bytes, float] = field(default_factory=dict)
    anywhere: float = 0.0

    def of(self, key: bytes) -> float:
        """For the row of a key."""
        return max(self.by_key.get(key, 0.0), self.anywhere)

    @property
    def largest(self) -> float:
        """What tables over this one must reckon with."""
        return max([self.anywhere, *self.by_key.values()])


@dataclass(frozen=True)
class TableReport:
    """One table against its batch answer. `tied` rows differ only by an order that the rows do not decide."""

    name: str
    rows: int
    different: int
    tied: int
    tolerance_used: int
    first: tuple[Difference, ...]


@dataclass(frozen=True)
class SourceReport:
    """The law of rows for one table and source: every offset is used or a reject."""

    source: str
    table: str
    rows: int
    used: int
    rejects: int


@dataclass(frozen=True)
class VerifyReport:
    """What `verify` found. `findings` are sentences about memory, ledger and the law of rows."""

    epoch: int
    tables: tuple[TableReport, ...]
    sources: tuple[SourceReport, ...]
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything is as it must be."""
        return not self.findings and not any(table.different for table in self.tables)

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        tables = [{**table.__dict__, "first": [d.__dict__ for d in table.first]} for table in self.tables]
        return {"ok": self.ok, "tables": tables, "sources": [s.__dict__ for s in self.sources], "findings": list(self.findings)}


@dataclass
class Memory:
    """The hidden tables as they stood at one epoch, read in one transaction."""

    epoch: int
    parts: dict[str, pa.Table] = field(default_factory=dict)
    copies: dict[str, pa.Table] = field(default_factory=dict)
    indexes: dict[str, Counter[tuple[bytes, Any]]] = field(default_factory=dict)
    rejects: Counter[tuple[str, str]] = field(default_factory=Counter)
    left_out: dict[tuple[str, str], set[int]] = field(default_factory=dict)


def verify(app: AppDef, place: Place, settings: Settings, progress: Progress = silent) -> VerifyReport:
    """Compare everything; see the module's text. The app may run meanwhile."""
    if not place.store.exists():
        raise WorldError(f"there is nothing to verify: {place.store} does not exist", hint="headrace run")
    workshop = open_workshop(app, place, settings)
    workshop.check_purity()
    return verify_workshop(workshop, progress)


def verify_workshop(workshop: Workshop, progress: Progress = silent) -> VerifyReport:
    """`verify` for an app whose functions are ready to be called."""
    place = workshop.place
    with Reader(place.store) as reader:
        progress("reading the memory")
        memory = _read_memory(reader, workshop)
        snapshot = reader.at(memory.epoch)
        prefix = reader.offsets(memory.epoch)
        workshop.set_clocks(lambda: reader.ledger(upto=memory.epoch))
        ends = {name: dict(enumerate(topic.ends())) for name, topic in workshop.topics.items()}
        findings = [f"ledger: {text}" for text in check_ledger(place.store, ends)]
        left_out = {key: frozenset(rows) for key, rows in memory.left_out.items()}
        with Answers(workshop, prefix, left_out, progress) as answers:
            bounds: dict[str, Bounds] = {}
            for done, table in enumerate(workshop.app.in_order()):
                progress(f'memory of "{table.name}"', done=done, total=len(workshop.tables))
                given = max((bounds[name].largest for name in table.reads if name in bounds), default=0.0)
                found, bounds[table.name] = _Memories(workshop, answers, memory, workshop.tables[table.name], given).check()
                findings += found
            tables = []
            for planned in workshop.tables.values():
                progress(f'comparing "{planned.table.name}"')
                tables.append(_compare(snapshot, answers, planned, bounds[planned.table.name]))
            findings += _check_copies(workshop, memory, prefix)
            sources, broken = _law_of_rows(reader, answers, memory, prefix)
        findings += broken
    return VerifyReport(memory.epoch, tuple(tables), tuple(sources), tuple(findings))


# --- reading -----------------------------------------------------------------------------------------------------------


def _read_memory(reader: Reader, workshop: Workshop) -> Memory:
    """Everything hidden, in one read transaction at the newest epoch."""
    from headrace.store.sqlite import head_of
    from headrace.store.tables import read_registrations

    with reader.transaction() as db:
        registrations = read_registrations(db)
        _refuse_edited(workshop, registrations)
        memory = Memory(head_of(db).epoch)
        for name, r in registrations.items():
            if r.state == "filling":
                continue
            if r.spec.kind == "parts":
                memory.parts[r.spec.name] = _concat(rows for _, rows in chunks(db, r.spec, name, 50_000, "_key"))
            elif r.spec.kind == "rows":
                memory.copies[r.spec.name] = _concat(rows for _, rows in chunks(db, r.spec, name, 50_000, '"_hr_row"'))
            elif r.spec.kind == "index":
                memory.indexes[r.spec.name] = Counter(db.execute(f'SELECT tuple, row FROM "{name}"').fetchall())
        for source, table, partition, offset in db.execute('SELECT source, "table", partition, offset FROM _rejects'):
            memory.rejects[source, table] += 1
            if table:
                memory.left_out.setdefault((table, source), set()).add((partition << POSITION_BITS) + offset)
    return memory


def _concat(tables: Iterator[pa.Table]) -> pa.Table:
    found = list(tables)
    return pa.concat_tables(found) if found else pa.table({})


def _refuse_edited(workshop: Workshop, registrations: Mapping[str, Registration]) -> None:
    """The functions in the files must be the ones that made the tables; else nothing can be compared."""
    edited = [
        name
        for name, planned in workshop.tables.items()
        if physical(name, "table") not in registrations or registrations[name].fingerprint != planned.fingerprint
    ]
    if edited:
        names = ", ".join(f'"{name}"' for name in edited)
        raise DefinitionError(
            f"the app is not the one that made its tables: {names} changed since the last run",
            details=["nothing was compared"],
            origin=workshop.tables[edited[0]].table.origin,
            hint="headrace run --once, which rebuilds them; then headrace verify",
        )


# --- tables ------------------------------------------------------------------------------------------------------------


def _compare(snapshot: Snapshot, answers: Answers, planned: Planned, bounds: Bounds) -> TableReport:
    """One table against its batch answer."""
    if planned.plan.key is None:
        return _compare_bags(snapshot, answers, planned, bounds)
    name, key = planned.table.name, planned.plan.key
    names = planned.columns.names
    approximate = [i for i, column in enumerate(names) if column in planned.plan.approximate]
    batch: dict[bytes, tuple[Any, ...]] = {}
    apart: list[Apart] = []
    tolerated = count = 0
    for rows in answers.rows(name):
        for k, row in zip(encode_keys(rows, key), _plain_rows(rows), strict=True):
            if k in batch:
                apart.append((k, row, batch[k]))
            batch[k] = row
    for rows in snapshot.read_arrow(name):
        keys = python_values(rows.column("_key"))
        for k, row in zip(keys, _plain_rows(rows.select(names)), strict=True):
            count += 1
            wanted = batch.pop(k, None)
            if wanted is None:
                apart.append((k, row, None))
            elif row != wanted:
                if _within(row, wanted, approximate, bounds.of(k)):
                    tolerated += 1
                else:
                    apart.append((k, row, wanted))
    apart += [(k, None, row) for k, row in batch.items()]
    different = _untied(apart, answers, planned)
    first = tuple(
        Difference(_shown_key(live or wanted or (), names, key), _shown(live, names), _shown(wanted, names))
        for _, live, wanted in different[:FIRST]
    )
    return TableReport(name, count, len(different), len(apart) - len(different), tolerated, first)


def _tie_tests(answers: Answers, planned: Planned) -> list[Callable[[Sequence[Any]], bool]]:
    """Tests of whether a row comes from a tie of an order that the rows do not decide, in the batch's own rows."""
    checks = [check for check in planned.plan.orders if not check.proved]
    door, names = answers.workshop.door, planned.columns.names
    with spark_errors(planned.table):
        found = [TieCheck(door, planned.table, check).find(answers.loaded(planned), "large") for check in checks]
    tests = [ties.test_of(names) for ties in found if ties is not None]
    return [test for test in tests if test is not None]


def _untied(apart: Sequence[Apart], answers: Answers, planned: Planned) -> list[Apart]:
    """The differences that are not between two right answers: rows that come from no tie."""
    tests = _tie_tests(answers, planned) if apart else []

    def tied(row: Sequence[Any]) -> bool:
        numbers = [_number(value) for value in row]
        return any(test(numbers) for test in tests)

    return [(key, live, wanted) for key, live, wanted in apart if not all(tied(row) for row in (live, wanted) if row is not None)]


def _plain_rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows that compare as Spark's do: -0.0 is 0.0 and NaN is NaN."""
    return [tuple(map(_plain, row)) for row in zip(*map(python_values, rows.columns), strict=True)] if rows.num_columns else []


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _within(row: Sequence[Any], wanted: Sequence[Any], approximate: Sequence[int], bound: float) -> bool:
    exact = all(a == b for i, (a, b) in enumerate(zip(row, wanted, strict=True)) if i not in approximate)
    return exact and all(close(_number(row[i]), _number(wanted[i]), 1.0, bound) for i in approximate)


def _number(value: Any) -> Any:
    return float("nan") if value == "NaN" else value


def _compare_bags(snapshot: Snapshot, answers: Answers, planned: Planned, bounds: Bounds) -> TableReport:
    """Tables keyed by position: the same rows, each as often."""
    name, names = planned.table.name, planned.columns.names
    left: Counter[Any] = Counter()
    for rows in answers.rows(name):
        left.update(exact_rows(rows))
    count = 0
    extra: Counter[Any] = Counter()
    for rows in snapshot.read_arrow(name):
        for row in exact_rows(rows.select(names)):
            count += 1
            if left.get(row, 0):
                left[row] -= 1
            else:
                extra[row] += 1
    left = +left
    approximate = [i for i, column in enumerate(names) if column in planned.plan.approximate]
    tolerated = _pair_off(left, extra, approximate, bounds.largest)
    doubles = [isinstance(f.dataType, (T.FloatType, T.DoubleType)) for f in planned.columns.fields]

    def shown(row: Sequence[Any]) -> str | None:
        return _shown([_double(v) if double else v for v, double in zip(row, doubles, strict=True)], names)

    first = [Difference("", shown(row), None) for row in list(extra)[:FIRST]]
    first += [Difference("", None, shown(row)) for row in list(left)[:FIRST]]
    return TableReport(name, count, max(sum(extra.values()), sum(left.values())), 0, tolerated, tuple(first[:FIRST]))


def _pair_off(left: Counter[Any], extra: Counter[Any], approximate: Sequence[int], bound: float) -> int:
    """Take rows out of both bags that agree within the tolerance, columns that were added in double; returns how many."""
    if not approximate or not left or not extra:
        return 0
    pairs = 0
    waiting: dict[Any, list[Any]] = {}
    for row in left.elements():
        waiting.setdefault(_exact_part(row, approximate), []).append(row)
    for row in list(extra.elements()):
        candidates = waiting.get(_exact_part(row, approximate), [])
        alike = (c for c in candidates if all(close(_double(row[i]), _double(c[i]), 1.0, bound) for i in approximate))
        found = next(alike, None)
        if found is not None:
            candidates.remove(found)
            left[found] -= 1
            extra[row] -= 1
            pairs += 1
    for bag in (left, extra):
        for row in [row for row, n in bag.items() if n <= 0]:
            del bag[row]
    return pairs


def _exact_part(row: Sequence[Any], approximate: Sequence[int]) -> tuple[Any, ...]:
    return tuple(value for i, value in enumerate(row) if i not in approximate)


def _double(value: Any) -> Any:
    """A value with the numbers that `exact_rows` wrote as bytes."""
    if isinstance(value, tuple):
        return tuple(map(_double, value))
    if isinstance(value, bytes) and len(value) == 8:
        return struct.unpack(">d", value)[0]
    return float("nan") if value == b"nan" else value


def _shown(row: Sequence[Any] | None, names: Sequence[str]) -> str | None:
    return None if row is None else ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True))


def _shown_key(row: Sequence[Any], names: Sequence[str], key: Sequence[str]) -> str:
    return ", ".join(f"{name}={row[names.index(name)]!r}" for name in key)


# --- memory ------------------------------------------------------------------------------------------------------------


class _Memories:
    """The memory of one table against its part of the function over all rows.

    `given`: how far sums of doubles may be apart that are in the tables which this one reads.
    """

    def __init__(self, workshop: Workshop, answers: Answers, memory: Memory, planned: Planned, given: float) -> None:
        self.answers, self.memory, self.planned, self.given = answers, memory, planned, given
        rows_of = StoredRows(NothingStored(), workshop.door.shapes, workshop.readers)  # type: ignore[arg-type]
        context = LaneContext(workshop.door, NothingStored(), planned.table, planned.plan, planned.columns, rows_of)
        with spark_errors(planned.table):
            self.lane: Lane = LANES[planned.plan.lane](context)

    def check(self) -> tuple[list[str], Bounds]:
        """What is wrong, and how far sums of doubles may be apart."""
        with spark_errors(self.planned.table):
            if isinstance(self.lane, MergeLane):
                return self._parts(self.lane)
            if isinstance(self.lane, RecomputeLane):
                return self._indexes(self.lane), Bounds(anywhere=self._added())
        return [], Bounds(anywhere=self.given)

    def _added(self) -> float:
        """How far what the function adds may be apart; what it only passes on is as far apart as it came."""
        door, table = self.answers.workshop.door, self.planned.table
        looks = magnitudes_of(door, table, self.planned.plan.added)
        bounds = [look.bound(self.answers.loaded(self.planned), "large", self.given) for look in looks]
        return sum(bounds, self.given)

    def _parts(self, lane: MergeLane) -> tuple[list[str], Bounds]:
        name = self.planned.table.name
        wanted, magnitudes = lane.batch_groups(self.answers.loaded(self.planned), "large")
        stored = lane.groups_of(self.memory.parts.get(name, pa.table({})))
        wrong = [
            key
            for key in stored.keys() | wanted.keys()
            if not lane.same_parts(stored.get(key), wanted.get(key), magnitudes.get(key, 0.0) + self.given)
        ]
        findings = []
        for key in wrong[:FIRST]:
            group = (stored.get(key) or wanted.get(key) or [()])[0]
            was = "is missing" if key not in stored else "should not be there" if key not in wanted else "differs from batch"
            findings.append(f'memory of "{name}": the parts of group {group!r} {was}')
        if len(wrong) > FIRST:
            findings.append(f'memory of "{name}": {len(wrong) - FIRST} more groups differ')
        bounds = lane.bounds_by_key(wanted, magnitudes, "large") if magnitudes else {}
        return findings, Bounds(bounds, self.given)

    def _indexes(self, lane: RecomputeLane) -> list[str]:
        findings = []
        for index in lane.indexes:
            if index.input not in self.answers.workshop.readers:
                continue  # rows of tables are found by keys that batch rows do not have
            loaded = self.answers.loaded(self.planned)
            found = index.tuples_of(loaded, "large")
            wanted = Counter(zip(found.tuples, found.rows, strict=True))
            stored = self.memory.indexes.get(index.name, Counter())
            if set(stored) != set(wanted):
                missing, extra = len(set(wanted) - set(stored)), len(set(stored) - set(wanted))
                findings.append(
                    f'memory of "{self.planned.table.name}": index {index.name} has {missing} entries too few, {extra} too many'
                )
        return findings


def _check_copies(workshop: Workshop, memory: Memory, prefix: Prefix) -> list[str]:
    """Copies of rows against the log, row by row."""
    findings = []
    for source, copies in memory.copies.items():
        reader, shape = workshop.readers.get(source), workshop.door.shapes.get(source)
        if reader is None or shape is None:
            continue
        wanted: set[Any] = set()
        for partition, end in prefix.get(source, {}).items():
            for start in range(0, end, 100_000):
                rows = reader.read({partition: (start, min(end, start + 100_000))}).rows
                wanted.update(exact_rows(as_copies(rows, shape)))  # type: ignore[arg-type]
        stored = exact_rows(copies.select(as_copies(shape.empty(), shape).column_names)) if copies.num_columns else []
        missing, extra = len(wanted - set(stored)), len(set(stored) - wanted)
        if missing or extra:
            findings.append(
                f'copies of "{source}": {missing} rows of the log are not there as they were, {extra} are not in the log'
            )
    return findings


# --- the law of rows ---------------------------------------------------------------------------------------------------


def _law_of_rows(reader: Reader, answers: Answers, memory: Memory, prefix: Prefix) -> tuple[list[SourceReport], list[str]]:
    """Each offset of the prefix is used or a reject, once: by Spark's count, by the ledger's sums, by the rejects."""
    used: Counter[tuple[str, str]] = Counter()
    for row in reader.ledger(upto=memory.epoch):
        for table, sources in row.rows.items():
            for source, count in sources.items():
                # A rebuild hands over the whole prefix again: its count takes the place of those before it.
                used[table, source] = count + (used[table, source] if row.kind == "epoch" else 0)
    reports, findings = [], []
    for (table, source), handed in answers.handed.items():
        rows = sum(prefix.get(source, {}).values())
        rejects = memory.rejects[source, ""] + memory.rejects[source, table]
        reports.append(SourceReport(source, table, rows, handed, rejects))
        if used[table, source] != handed:
            findings.append(
                f'law of rows: the ledger counts {used[table, source]} rows of "{source}" used by "{table}", batch {handed}'
            )
        if handed + rejects != rows:
            findings.append(
                f'law of rows: "{table}" used {handed} rows of "{source}" and rejected {rejects}; the prefix has {rows}'
            )
    return reports, findings
