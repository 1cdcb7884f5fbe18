"""Editing the app: what changed since the last start is made anew from the log and takes its place in one epoch.

A table is rebuilt when it is new, when what it is made by changed (its function's source, its inputs, its key), when a
reference that it reads has new content, or when a table that it reads is rebuilt. Tables that left the app are hidden until
`headrace table drop`; their memory goes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.lanes.base import InputChange, Outcome
from headrace.runtime.blame import without_rows
from headrace.runtime.engine import Engine
from headrace.runtime.rows import as_copies, copy_columns
from headrace.store.base import Change, Finish, Head, IndexChange, Registration, Writes, physical

CHUNK = 50_000
CHANGED = "has changed"
DIFFERENCE_ROWS = 1_000_000
"""Tables beyond this size are swapped in: their history starts anew instead of taking a million changes."""


@dataclass(frozen=True)
class Due:
    """What a start has to do before it goes on; `why` gives the reason per table."""

    why: Mapping[str, str]
    copies: tuple[str, ...]
    removed: tuple[str, ...]
    memory: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.why or self.copies or self.removed or self.memory)


def due(engine: Engine) -> Due:
    """Compare the app with what the store was made by."""
    store, workshop = engine.holder.store, engine.workshop
    stored = store.registrations()
    last = next(iter(store.ledger(after=engine.holder.head.epoch - 1)), None)
    read = last.references if last is not None else {}
    stale = {name for name, reference in workshop.references.items() if read.get(name, reference.hash) != reference.hash}
    why: dict[str, str] = {}
    for table in workshop.app.in_order():
        reason = _reason(engine, stored, table.name)
        if reason is None and (again := [n for n in table.reads if n in why]):
            reason = f'reads "{again[0]}"'
        if reason is None and (moved := [n for n in table.reads if n in stale]):
            reason = f'reference "{moved[0]}" has new content'
        if reason is not None:
            why[table.name] = reason
    live = {r.spec.name for r in stored.values() if r.spec.kind == "table" and r.state == "live"}
    kept = {r.spec.physical for name in workshop.tables for r in engine.registrations(name)}
    kept |= {physical(source, "rows") for source in engine.generation.copied}
    memory = [name for name, r in stored.items() if r.hidden and name not in kept]
    copies = [source for source in sorted(engine.generation.copied) if _copies_differ(engine, stored, source)]
    return Due(why, tuple(copies), tuple(sorted(live - set(workshop.tables))), tuple(memory))


def _copies_differ(engine: Engine, stored: Mapping[str, Registration], source: str) -> bool:
    """Copies that are not there, or that lack a column which the topic was given since."""
    old = stored.get(physical(source, "rows"))
    return old is None or old.spec != engine.copies_registration(source).spec


def _reason(engine: Engine, stored: Mapping[str, Registration], name: str) -> str | None:
    table, *memory = engine.registrations(name)
    old = stored.get(name)
    if old is None:
        return "is new"
    if old.state == "removed":
        return "is back"
    if old.fingerprint != table.fingerprint:
        return CHANGED
    if old.spec != table.spec or old.lane != table.lane:
        return "is kept in another way"
    if any(r.spec.physical not in stored or stored[r.spec.physical].layout != r.layout for r in memory):
        return "keeps other memory"
    return None


def rebuild(engine: Engine, what: Due) -> Head | None:
    """Make the tables anew at the head's prefix, beside the old ones, and let them take their places in one epoch."""
    store, fence = engine.holder.store, engine.holder.generation
    store.drop_fills(fence)
    for name in what.removed:
        store.update(fence, _with_state(store.registrations()[name], "removed"))
    if what.memory:
        store.drop(fence, what.memory)
    finish = [_fill_copies(engine, source) for source in what.copies]
    if not what.why and not finish:
        return engine.holder.head
    rows_of = engine.generation.rows_of
    rows_of.upto, rows_of.made_anew = engine.used(), frozenset(what.why)
    taken = engine.take({})
    outcomes: dict[str, Outcome] = {}
    forgiven = [name for name, why in what.why.items() if why == CHANGED]
    rows_of.forget_left_out(forgiven)
    try:
        for name in what.why:
            outcomes[name] = _made_anew(engine, name, outcomes)
            finish += _fill(engine, name, outcomes[name])
    finally:
        rows_of.made_anew = frozenset()
    with engine.steps.step("commit", taken.number):
        rejects = [reject for outcome in outcomes.values() for reject in outcome.rejects]
        entry = replace(engine.entry(taken, {}, "rebuild", rejects), rows=_handed(engine, what.why))
        return engine.holder.commit(entry, Writes(finish=finish, forgive=forgiven, rejects=rejects))


def _handed(engine: Engine, tables: Iterable[str]) -> dict[str, dict[str, int]]:
    """Per rebuilt table and source, how many rows of the whole prefix its function was handed."""
    prefix, rows_of = engine.used(), engine.generation.rows_of
    unusable = engine.holder.store.unusable()
    return {
        name: {
            source: sum(prefix.get(source, {}).values()) - unusable.get(source, 0) - len(rows_of.left_out.get((name, source), ()))
            for source in engine.workshop.tables[name].table.reads
            if source in engine.workshop.readers
        }
        for name in tables
    }


def _with_state(registration: Registration, state: str) -> Registration:
    r = registration
    return Registration(r.spec, r.lane, r.layout, r.fingerprint, r.hidden, r.since, r.history_from, state)  # type: ignore[arg-type]


def _made_anew(engine: Engine, name: str, outcomes: Mapping[str, Outcome]) -> Outcome:
    planned, lane = engine.workshop.tables[name], engine.generation.lanes[name]
    shapes, rows_of = engine.workshop.door.shapes, engine.generation.rows_of
    changes: dict[str, InputChange] = {}
    for read in planned.table.reads:
        if read in engine.workshop.references:
            continue
        if read in outcomes:
            changes[read] = outcomes[read].change.as_input(shapes[read])
        elif read in lane.copies:
            ranges = {p: (0, end) for p, end in rows_of.upto.get(read, {}).items() if end}
            reader = engine.workshop.readers[read]
            everything = InputChange(shapes[read].empty(), reader.read(ranges).rows)
            bad = rows_of.left_out.get((name, read), frozenset())
            changes[read] = without_rows(everything, shapes[read].row_column, bad, reader) if bad else everything
        else:
            changes[read] = InputChange(shapes[read].empty(), rows_of.all_rows(read, None, name))
    return engine.run_lane(lane.afresh(), changes, "large")


def _fill(engine: Engine, name: str, outcome: Outcome) -> list[Finish]:
    """Write a table and its memory beside, in chunks; say how each is to take its place."""
    store, fence, prefix = engine.holder.store, engine.holder.generation, engine.holder.head.epoch
    old = store.registrations().get(name)
    table, *memory = engine.registrations(name)
    store.begin_fill(fence, table, prefix)
    change = outcome.change
    for at in range(0, max(len(change.after_keys), 1), CHUNK):
        keys = change.after_keys[at : at + CHUNK]
        store.fill(fence, name, "table", Change([], keys, change.after.slice(at, CHUNK)), at)
    fits = old is not None and old.spec == table.spec and old.state == "live" and len(change.after_keys) <= DIFFERENCE_ROWS
    finish = [Finish(name, "difference" if fits else "swap")]
    for registration in memory:
        spec = registration.spec
        store.begin_fill(fence, registration, prefix)
        if spec.kind == "parts":
            parts = outcome.parts or Change([], [], pa.table({}))
            for at in range(0, len(parts.keys), CHUNK):
                store.fill(fence, spec.name, "parts", Change([], parts.keys[at : at + CHUNK], parts.rows.slice(at, CHUNK)), at)
        else:
            entries = outcome.index.get(spec.name, IndexChange())
            for at in range(0, len(entries.rows), CHUNK):
                piece = IndexChange((), entries.tuples[at : at + CHUNK], entries.rows[at : at + CHUNK])
                store.fill(fence, spec.name, "index", piece, at)
        finish.append(Finish(spec.name, "swap", spec.kind))
    return finish


def _fill_copies(engine: Engine, source: str) -> Finish:
    """Copies of a source's rows, from the log, up to the head's prefix."""
    store, fence = engine.holder.store, engine.holder.generation
    registration = engine.copies_registration(source)
    store.begin_fill(fence, registration, engine.holder.head.epoch)
    reader, shape = engine.workshop.readers[source], engine.workshop.door.shapes[source]
    assert registration.spec.columns == copy_columns(shape.columns), "copies have the columns of their source"
    for partition, end in engine.used().get(source, {}).items():
        for start in range(0, end, CHUNK):
            rows = reader.read({partition: (start, min(end, start + CHUNK))}).rows
            assert isinstance(rows, pa.Table), "a range read by the driver is a table"
            store.fill(fence, source, "rows", as_copies(rows, shape), [partition, start])
    return Finish(source, "swap", "rows")
