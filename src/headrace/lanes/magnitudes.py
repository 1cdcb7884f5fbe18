"""How far sums of doubles may be apart: n * 2^-52 * the sum of magnitudes, n being the values that a group adds.

Spark adds doubles in whatever order rows come, and so do parts. `verify` asks here how much that can matter: the largest
bound over the groups of each aggregate and the partitions of each window of a function, computed by Spark over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.definitions import TableDef
from headrace.plan.doubles import Added
from headrace.schema import python_values
from headrace.spark.expressions import jvm_expression
from headrace.spark.query import Door, Gear, Loaded, Query
from headrace.spark.surgery import Surgeon

EPSILON = 2.0**-52


def magnitude(value: Column, *, squares: bool) -> Column:
    """The sum of magnitudes in a group, and of squares where they are added, too; the larger one.

    Null where it is not finite: then the sum itself is infinite or NaN in any order, and must not make others uncertain.
    """
    size = F.abs(value.cast("double"))
    total = F.greatest(F.sum(size), F.sum(size * size)) if squares else F.sum(size)
    return F.when(total < F.lit(float("inf")), total)


def largest(magnitudes: Sequence[Column]) -> Column:
    """The largest of several, nulls left out."""
    return F.greatest(*magnitudes) if len(magnitudes) > 1 else magnitudes[0]


class Magnitudes:
    """What one operator adds in double, and how far that may be apart."""

    def __init__(self, door: Door, table: TableDef, added: Sequence[Added]) -> None:
        self.added = added
        self.query = Query(door, table, self._recipe)

    def _recipe(self, surgeon: Surgeon, root: Any) -> Any:
        first = self.added[0]
        groups = [surgeon.column(jvm_expression(surgeon, root, e)).alias(f"g{i}") for i, e in enumerate(first.groups)]
        sizes = largest([self._magnitude(surgeon, root, each) for each in self.added])
        below = surgeon.frame(surgeon.node(root, (*first.path, 0)))
        counted = below.groupBy(*groups).agg(F.count(F.lit(1)).alias("n"), sizes.alias("m"))
        return surgeon.analysed(counted.agg(F.max("n"), F.max(F.col("n") * F.col("m"))))

    @staticmethod
    def _magnitude(surgeon: Surgeon, root: Any, added: Added) -> Column:
        expression = jvm_expression(surgeon, root, added.value)
        if "interval" in expression.dataType().catalogString():  # averaged as whole numbers, whatever the planner could tell
            return F.lit(0.0)
        value = surgeon.column(expression)
        if added.filter is not None:
            value = F.when(surgeon.column(jvm_expression(surgeon, root, added.filter)), value)
        return magnitude(value, squares=added.squares)

    def bound(self, loaded: Mapping[str, Loaded], gear: Gear, given: float) -> float:
        """The largest bound over the groups; `given`: how far values may be apart that are such sums themselves."""
        answer = self.query.run(loaded, gear)
        ((n, weighted),) = zip(*map(python_values, answer.columns), strict=True)
        inherited = (n or 0) * given if any(each.given for each in self.added) else 0.0
        return EPSILON * (weighted or 0.0) + inherited


def magnitudes_of(door: Door, table: TableDef, added: Sequence[Added]) -> list[Magnitudes]:
    """One look per operator: its sums have the same rows and groups."""
    by_node: dict[Any, list[Added]] = {}
    for each in added:
        by_node.setdefault((each.path, each.groups), []).append(each)
    return [Magnitudes(door, table, some) for some in by_node.values()]
