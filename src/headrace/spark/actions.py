"""A function builds a plan and runs none: what it would count or collect are the rows of one call, not those of batch."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import GroupedData
from pyspark.sql.classic.dataframe import DataFrame

from headrace.definitions import TableDef
from headrace.errors import DefinitionError, NotKeptUp

_ACTIONS = """
    approxQuantile collect corr count cov crosstab describe first foreach foreachPartition freqItems head isEmpty show summary
    tail take toArrow toLocalIterator toPandas transpose
""".split()
# Two that change the classes at once would put back each other's methods.
_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def no_actions(table: TableDef) -> Iterator[None]:
    """Inside, this thread cannot run a frame; other threads, such as a notebook's, can.

    Called with empty frames, `events.count()` is 0 for ever in the stream and something else in batch.
    """
    here = threading.get_ident()

    def refused(shown: str, hint: str) -> NotKeptUp:
        return NotKeptUp(
            f'table "{table.name}" cannot be kept up to date',
            details=[f"runs {shown} inside its function, whose answer would differ between the stream and the batch answer"],
            origin=table.origin,
            hint=hint,
        )

    def guarded(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def action(self: DataFrame, *args: Any, **named: Any) -> Any:
            if threading.get_ident() == here:
                raise refused(f"{name}()", "agg(), joined with the rows where it is needed, or a table that this one reads")
            return plain(self, *args, **named)

        return action

    pivot = GroupedData.pivot

    @functools.wraps(pivot)
    def pivoted(self: GroupedData, pivot_col: str, values: Any = None) -> GroupedData:
        if values is None and threading.get_ident() == here:
            raise refused("pivot() without values, which looks them up", f'pivot("{pivot_col}", ["a", "b"])')
        return pivot(self, pivot_col, values)

    with _ONE_AT_A_TIME:
        plain = {name: method for name, method in vars(DataFrame).items() if name in _ACTIONS}
        try:
            for name, method in plain.items():
                setattr(DataFrame, name, guarded(name, method))
            GroupedData.pivot = pivoted  # type: ignore[method-assign]
            yield
        except DefinitionError as error:
            # To the door, an error that is raised inside the function is the function's own.
            if isinstance(error.__cause__, NotKeptUp):
                raise error.__cause__ from None
            raise
        finally:
            for name, method in plain.items():
                setattr(DataFrame, name, method)
            GroupedData.pivot = pivot  # type: ignore[method-assign]
