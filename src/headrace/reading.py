"""Reading an app's tables from Python: rows of one epoch, changes between epochs, and waiting for a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.errors import UsageError
from headrace.log.position import Position
from headrace.log.topic import DESCRIPTION, Topic
from headrace.place import Place
from headrace.running import has_store
from headrace.schema import arrow_schema, readable_rows
from headrace.store.ledger import fold
from headrace.store.reader import AsOf, Reader, RowChange
from headrace.where import condition

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

After = Position | int | str
"""What one waits for: a position, its token, or an epoch."""

_POLL_S = 0.01


@dataclass(frozen=True)
class Rows:
    """Rows of a table, all of one epoch."""

    table: str
    epoch: int
    _rows: pa.Table

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._rows

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        return self._rows.to_pandas()

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        return readable_rows(self._rows)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a DataFrame, of the session that is there already, or of one that is started."""
        from headrace.spark.session import start_sessions  # most readers never need Spark

        return (spark or start_sessions().large).createDataFrame(self._rows.combine_chunks())


def read(
    place: Place, table: str, *, as_of: AsOf = None, after: After | None = None, where: str | None = None, timeout: float = 30.0
) -> Rows:
    """Rows of a table, as of an epoch or a time, or of the first epoch that one sees after a position."""
    if after is not None:
        if as_of is not None:
            raise UsageError("as_of and after exclude each other", hint="after= waits for rows, as_of= looks back")
        wait_for(place, after, timeout=timeout)
    with _opened(place) as reader:
        snapshot = reader.at(as_of)
        chosen = next((info for info in snapshot.tables() if info.name.lower() == table.lower()), None)
        keep = condition(where, chosen.columns) if where is not None and chosen is not None else None
        chunks = []
        for chunk in snapshot.read_arrow(table):
            rows = chunk.drop_columns(["_key"])
            chunks.append(keep(rows) if keep else rows)
    return Rows(
        chosen.name if chosen else table, snapshot.epoch, _typed(pa.concat_tables(chunks), chosen.columns if chosen else None)
    )


def _typed(rows: pa.Table, columns: Any) -> pa.Table:
    """In the types of the table, which the chunks have up to nullability."""
    return rows.cast(arrow_schema(columns)) if columns is not None and rows.schema.names == columns.names else rows


def kept_from(reader: Reader, table: str) -> int:
    """The epoch after which all changes of a table are kept."""
    same = [info for info in reader.tables() if info.name.lower() == table.lower()]
    return max(same[0].since - 1, same[0].history_from, 0) if same else 0


def changes(place: Place, table: str, *, after: int | None = None, follow: bool = False) -> Iterator[RowChange]:
    """What epochs after `after` did to a table, by default all that are kept; with `follow` for ever."""
    with _opened(place) as reader:
        after = kept_from(reader, table) if after is None else after
        while True:
            head = reader.head().epoch
            if head > after:
                yield from reader.changes(table, after=after, upto=head)
                after = head
            if not follow:
                return
            reader.wait_newer(head)


def wait_for(place: Place, after: After, *, timeout: float | None = None, check: Callable[[], None] = lambda: None) -> int:
    """Wait until every table has taken what was appended up to a position, or until an epoch; returns the newest epoch.

    `check` is called while waiting, and may raise: nobody should wait for an app that has failed.
    """
    target = Position.parse(after) if isinstance(after, str) and not after.isdigit() else after
    due = None if timeout is None else time.monotonic() + timeout
    source = _source(place, target) if isinstance(target, Position) else None
    offsets: dict[str, dict[int, int]] = {}
    epoch = 0
    reader: Reader | None = None
    try:
        while True:
            if reader is None and has_store(place):
                reader = Reader(place.store)
            if reader is not None:
                for row in reader.ledger(after=epoch):
                    fold(offsets, row.ranges)
                    epoch = row.epoch
                if target.covered_by(offsets.get(source or "", {})) if isinstance(target, Position) else 0 < int(target) <= epoch:
                    return epoch
            check()
            if due is not None and time.monotonic() >= due:
                raise TimeoutError(f"{place.app} has not taken those rows after {timeout:g} s; it is at epoch {epoch}")
            if reader is not None:
                reader.wait_newer(epoch, timeout_s=_POLL_S * 10)
            else:
                time.sleep(_POLL_S)
    finally:
        if reader is not None:
            reader.close()


def _source(place: Place, position: Position) -> str:
    """The topic of a position."""
    folders = place.log.iterdir() if place.log.is_dir() else iter(())
    for folder in folders:
        if (folder / DESCRIPTION).is_file() and Topic.open(folder).spec.id == position.topic_id:
            return folder.name
    raise UsageError(f"the position is of no topic of {place.app}", details=["a topic that was made anew has another id"])


def _opened(place: Place) -> Reader:
    if not has_store(place):
        raise UsageError(
            f"{place.app} has no tables yet", details=[f"there is no store at {place.store}"], hint="app.start(), or headrace run"
        )
    return Reader(place.store)
