"""Is the answer decided by the rows?

`row_number`, `max_by`, `lag` or LIMIT give one of several right answers where rows tie. An order is **proved** when the
ordering, after the partitioning, holds what makes a row unique at that place (the position of a source's row, the key of an
input table), or every column of which the result depends. Else it is **checked**: a second query looks for ties. What has no
order at all is refused, with the alternative named.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.definitions import TableDef
from headrace.errors import NotKeptUp
from headrace.plan.functions import Refusal
from headrace.plan.purity import refuse
from headrace.plan.shape import PLAIN
from headrace.plan.traits import grouping_sets, pairs_of
from headrace.plan.tree import Expr, Node, Path, join_kind
from headrace.plan.types import collated

_WINDOW = frozenset("RowNumber NTile CumeDist Lag Lead NthValue First Last CollectList CollectSet MaxBy MinBy ListAgg".split())
_IN_ANY_ORDER = {
    "First": Refusal("which takes whichever row comes first", "min_by(x, struct(time, _partition, _offset))"),
    "Last": Refusal("which takes whichever row comes last", "max_by(x, struct(time, _partition, _offset))"),
    "AnyValue": Refusal("which takes any row's value", "min(x), or max_by(x, struct(time, _partition, _offset))"),
    "CollectList": Refusal("whose elements come in any order", "array_sort(collect_list(x))"),
    "CollectSet": Refusal("whose elements come in any order", "array_sort(collect_set(x))"),
    "Mode": Refusal("which takes any of several most frequent values", "mode() WITHIN GROUP (ORDER BY x)"),
    "ListAgg": Refusal("whose elements come in any order", "listagg(x, ',') WITHIN GROUP (ORDER BY x)"),
}
_SQL = {"First": "first", "Last": "last", "AnyValue": "any_value", "CollectList": "collect_list", "CollectSet": "collect_set"}
_FORGET_ORDER = frozenset("SortArray Size ArrayContains ArrayMax ArrayMin".split())
_COMPARISON = frozenset("LambdaFunction If And IsNull LessThan GreaterThan NamedLambdaVariable Literal".split())
_LIMITS = frozenset("GlobalLimit LocalLimit Offset".split())


@dataclass(frozen=True)
class OrderCheck:
    """An order on which the answer depends.

    `path` leads to the node whose child's rows are ordered. Where it is not `proved`, ties are looked for.
    """

    path: Path
    partition: tuple[Expr, ...]
    order: tuple[Expr, ...]
    why: str
    proved: bool


class _Known(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> tuple[str, ...] | None: ...


class Orders:
    """The orders of one plan."""

    def __init__(self, root: Node, table: TableDef, inputs: Mapping[str, _Known]) -> None:
        self.table, self.inputs = table, inputs
        self.proved: dict[Expr, bool] = {}
        self.checks = tuple(check for node in root.everything() for check in self._of(node))

    def _of(self, node: Node) -> Iterator[OrderCheck]:
        if node.cls == "Window":
            for expr in node.exprs.get("windowExpressions", ()):
                yield from self._window(node, expr)
        elif node.cls == "Aggregate":
            for expr in node.exprs.get("aggregateExpressions", ()):
                yield from self._aggregates(node, expr, None)
        elif node.cls in _LIMITS:
            yield from self._limit(node)

    # --- window functions

    def _window(self, node: Node, alias: Expr) -> Iterator[OrderCheck]:
        for window in (e for e in alias.walk() if e.cls == "WindowExpression"):
            function = _function(window.children[0])
            partition, order = node.exprs.get("partitionSpec", ()), node.exprs.get("orderSpec", ())
            if function.cls == "AnyValue" or (not order and function.cls in _IN_ANY_ORDER):
                raise self._refused(function)
            if not (function.cls in _WINDOW or _by_rows(window)):
                continue
            keys = tuple(e.children[0] for e in order)
            child = node.children[0]
            proved = self._decides([*partition, *keys], child, {a.id for a in child.output})
            yield OrderCheck(node.path, tuple(partition), tuple(order), f"{_name(function)} over a window", proved)

    # --- aggregates

    def _aggregates(self, node: Node, expr: Expr, parent: Expr | None) -> Iterator[OrderCheck]:
        if expr.cls == "AggregateExpression":
            yield from self._aggregate(node, expr, parent)
        for child in expr.children:
            yield from self._aggregates(node, child, expr)

    def _aggregate(self, node: Node, expr: Expr, parent: Expr | None) -> Iterator[OrderCheck]:
        function = expr.children[0]
        grouping = node.exprs.get("groupingExpressions", ())
        if function.cls in ("MaxBy", "MinBy"):
            value, ordering = function.children[:2]
            keys = _elements(ordering)
            needed = [e for e in _elements(value) if e not in keys]
            ids = frozenset().union(*(e.attributes for e in needed)) if needed else frozenset()
            proved = self._decides([*grouping, *keys], node.children[0], ids)
            self.proved[expr] = proved
            yield OrderCheck(node.path, tuple(grouping), (ordering,), str(expr), proved)
        elif function.cls == "ListAgg" and len(function.children) > 2:
            keys = [e.children[0] if e.cls == "SortOrder" else e for e in function.children[2:]]
            proved = function.children[0] in keys or self._decides(
                [*grouping, *keys], node.children[0], function.children[0].attributes
            )
            yield OrderCheck(node.path, tuple(grouping), tuple(function.children[2:]), "listagg", proved)
        elif function.cls in _IN_ANY_ORDER and not _harmless(function, parent):
            raise self._refused(function)

    def _refused(self, function: Expr) -> NotKeptUp:
        return refuse(self.table, f"{_name(function)}()", _IN_ANY_ORDER[function.cls])

    # --- LIMIT

    def _limit(self, node: Node) -> Iterator[OrderCheck]:
        child = node.children[0]
        if child.cls in _LIMITS:
            return  # said once, by the lowest of them
        below = child
        while below.cls in PLAIN - {"Sort"} or below.cls == "Project":
            below = below.children[0]
        if below.cls != "Sort" or below.raw.get("global") is False:
            why = Refusal("which takes whichever rows come first", "ORDER BY columns that no two rows share, before LIMIT")
            raise refuse(self.table, "LIMIT without ORDER BY", why)
        order = below.exprs.get("order", ())
        keys = [e.children[0] for e in order]
        proved = self._decides(keys, below.children[0], {a.id for a in below.output})
        yield OrderCheck(below.path, (), tuple(order), "LIMIT", proved)

    # --- proof

    def _decides(self, keys: Iterable[Expr], below: Node, needed: Iterable[int | None]) -> bool:
        """Whether rows that agree on the keys cannot differ in what is needed."""
        ids = {e.id for key in keys for e in _elements(key) if e.cls == "AttributeReference" and not collated(e)}
        ids |= _determined(below, ids)
        return set(needed) <= ids or any(unique <= ids for unique in self.unique(below))

    def unique(self, node: Node) -> list[frozenset[int]]:
        """Sets of columns of which no two rows of the node have the same values."""
        if node.input is not None:
            return self._unique_leaf(node)
        if node.cls in PLAIN | _LIMITS | {"Filter", "Window", "Distinct", "Deduplicate"}:
            own = self.unique(node.children[0])
            return [*own, _ids(node.output)] if node.cls in ("Distinct", "Deduplicate") else own
        if node.cls in ("Project", "CTERelationRef"):
            return _renamed(node, self.unique(node.children[0]))
        if node.cls == "Aggregate" and not grouping_sets(node.children[0]):
            shown = [_shown(node, g) for g in node.exprs.get("groupingExpressions", ())]
            return [frozenset(i for i in shown if i is not None)] if all(i is not None for i in shown) else []
        if node.cls == "Join":
            return self._unique_join(node)
        return []

    def _unique_leaf(self, node: Node) -> list[frozenset[int]]:
        known = self.inputs[node.input or ""]
        by_name = {a.name: a.id for a in node.output if a.id is not None}
        wanted: Sequence[str] = ("_partition", "_offset") if known.kind == "source" else known.key or ()
        found = [by_name[n] for n in wanted if n in by_name]
        return [frozenset(found)] if found and len(found) == len(wanted) else []

    def _unique_join(self, node: Node) -> list[frozenset[int]]:
        kind, (left, right) = join_kind(node), node.children
        ours, theirs = self.unique(left), self.unique(right)
        if kind in ("semi", "anti"):
            return ours
        if kind not in ("inner", "left", "right", "full"):
            return []
        found = [a | b for a, b in itertools.product(ours, theirs)] if kind == "inner" else []
        pairs = [p for p in pairs_of(node) if p[0].cls == p[1].cls == "AttributeReference"]
        if kind in ("inner", "left") and any(u <= {p[1].id for p in pairs} for u in theirs):
            found += ours  # each row of the left meets at most one row of the right
        if kind in ("inner", "right") and any(u <= {p[0].id for p in pairs} for u in ours):
            found += theirs
        return found


def _determined(below: Node, ids: set[int | None]) -> set[int | None]:
    """Columns of the Project below that follow from the given ones, under whatever name."""
    while below.cls in PLAIN and below.children:
        below = below.children[0]
    named = below.exprs.get("projectList", ()) if below.cls == "Project" else ()
    renamed = {e.children[0].id for e in named if e.cls == "Alias" and e.id in ids and e.children[0].cls == "AttributeReference"}
    known = ids | renamed
    return renamed | {e.id for e in named if e.cls == "Alias" and _follows(e.children[0], known)}


def _follows(expr: Expr, known: set[int | None]) -> bool:
    return expr.attributes <= known and not any(e.plan is not None for e in expr.walk())


def _function(expr: Expr) -> Expr:
    return expr.children[0] if expr.cls == "AggregateExpression" else expr


def _name(function: Expr) -> str:
    text = "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(function.cls))
    return _SQL.get(function.cls, text)


def _by_rows(window: Expr) -> bool:
    """A frame by ROWS that is not the whole partition. Ranks have such a frame too, and need no order."""
    if _function(window.children[0]).cls in ("Rank", "DenseRank", "PercentRank", "RowNumber"):
        return False
    for frame in (e for e in window.walk() if e.cls == "SpecifiedWindowFrame"):
        ends = [e.cls for e in frame.children]
        if "RowFrame" in str(frame.raw.get("frameType")):
            return ends != ["UnboundedPreceding", "UnboundedFollowing"]
    return False


def _elements(expr: Expr) -> list[Expr]:
    """What an ordering compares, one after the other."""
    if expr.cls == "CreateNamedStruct":
        return [e for value in expr.children[1::2] for e in _elements(value)]
    if expr.cls in ("Alias", "SortOrder"):
        return _elements(expr.children[0])
    return [expr]


def _harmless(function: Expr, parent: Expr | None) -> bool:
    """Whether what is around the aggregate makes its order irrelevant."""
    if function.cls == "Mode":
        return function.raw.get("reverseOpt") is not None
    if function.cls not in ("CollectList", "CollectSet") or parent is None:
        return False
    if parent.cls == "ArraySort":
        return all(e.cls in _COMPARISON for e in parent.children[1].walk())
    return parent.cls in _FORGET_ORDER


def _ids(attributes: Iterable[Expr]) -> frozenset[int]:
    return frozenset(a.id for a in attributes if a.id is not None)


def _shown(node: Node, expr: Expr) -> int | None:
    """The output column of an Aggregate or Project that shows an expression."""
    named = node.exprs.get("aggregateExpressions" if node.cls == "Aggregate" else "projectList", ())
    for column in named:
        if (column.children[0] if column.cls == "Alias" else column) == expr:
            return column.id
    return None


def _renamed(node: Node, below: list[frozenset[int]]) -> list[frozenset[int]]:
    if node.cls == "CTERelationRef":
        names: dict[int | None, int | None] = {b.id: a.id for a, b in zip(node.output, node.children[0].output, strict=False)}
    else:
        names = {a.id: _shown(node, a) for a in node.children[0].output}
    found = []
    for unique in below:
        new = [names.get(i) for i in unique]
        if all(i is not None for i in new):
            found.append(frozenset(i for i in new if i is not None))
    return found
