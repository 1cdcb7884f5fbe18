"""What cannot be kept up to date at all: operators, functions and leaves, each refused with the alternative named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.definitions import TableDef
from headrace.errors import NotKeptUp
from headrace.plan.functions import Refusal, refusal_of
from headrace.plan.tree import Expr, Node

_BY_KEY = "groupBy(...).applyInPandas or applyInArrow, which say by their keys what they depend on"
_NO_WAY = Refusal("of which there is no way to know on which rows it depends", _BY_KEY)
_STREAMING = Refusal("which belongs to Structured Streaming", "the plain batch operation: Headrace keeps it up to date")
_TYPED = Refusal("which runs code that the plan does not show", "columns, or a Python UDF")

OPERATORS: Mapping[str, tuple[str, Refusal]] = {
    "Sample": (
        "sample()",
        Refusal("whose rows would differ between the stream and the batch answer", "a filter on hr.random(seed=7)"),
    ),
    "MapInPandas": ("mapInPandas", _NO_WAY),
    "MapInArrow": ("mapInArrow", _NO_WAY),
    "PythonMapInArrow": ("mapInArrow", _NO_WAY),
    "MapPartitions": ("mapPartitions", _NO_WAY),
    "MapPartitionsInR": ("mapPartitions", _NO_WAY),
    "MapPartitionsInRWithArrow": ("mapPartitions", _NO_WAY),
    "MapPartitionsExternalUDF": ("mapPartitions", _NO_WAY),
    "ScriptTransformation": ("TRANSFORM", _NO_WAY),
    "FlatMapGroupsInR": ("gapply", _TYPED),
    "FlatMapGroupsInRWithArrow": ("gapply", _TYPED),
    "MapElements": ("map", _TYPED),
    "TypedFilter": ("a typed filter", _TYPED),
    "MapGroups": ("mapGroups", _TYPED),
    "CoGroup": ("cogroup", _TYPED),
    "TransformWithState": ("transformWithState", _STREAMING),
    "TransformWithStateInPySpark": ("transformWithState", _STREAMING),
    "FlatMapGroupsWithState": ("flatMapGroupsWithState", _STREAMING),
    "FlatMapGroupsInPandasWithState": ("applyInPandasWithState", _STREAMING),
    "DeduplicateWithinWatermark": ("dropDuplicatesWithinWatermark", _STREAMING),
    "EventTimeWatermark": (
        "withWatermark",
        Refusal("which a topic says itself", 'app.topic(..., event_time="time", lateness="2 hours")'),
    ),
    "SequentialStreamingUnion": ("a streaming union", _STREAMING),
    "Tail": ("tail()", Refusal("which takes rows in the order in which they happen to come", "orderBy(...desc()).limit(n)")),
}
_WRITTEN_LEAVES = frozenset("OneRowRelation Range UnionLoopRef EmptyRelation".split())
_SCALAR_UDFS = frozenset([100, 101, 102, 200, 204, 250, 251])
"""Evaluation types of Python UDFs that take and give one value per row."""


class _Named(Protocol):
    @property
    def kind(self) -> str: ...


def refuse(table: TableDef, used: str, refusal: Refusal) -> NotKeptUp:
    """The error for one refusal."""
    return NotKeptUp(
        f'table "{table.name}" cannot be kept up to date',
        details=[f"uses {used}, {refusal.why}"],
        origin=table.origin,
        hint=refusal.instead,
    )


def check(root: Node, table: TableDef, inputs: Mapping[str, _Named]) -> tuple[str, ...]:
    """Raise where something cannot be kept up to date; the names of the UDFs that are trusted."""
    trusted: dict[str, None] = {}
    for node in root.everything():
        _check_operator(node, table)
        if not node.children:
            _check_leaf(node, table, inputs)
        for top in node.all_exprs():
            for expr in top.walk():
                _check_expression(expr, table, trusted)
    return tuple(trusted)


def _check_operator(node: Node, table: TableDef) -> None:
    if node.raw.get("isStreaming") is True:
        raise refuse(table, "a stream of Structured Streaming", Refusal("which Headrace's own sources replace", "app.topic(...)"))
    if node.cls in OPERATORS:
        raise refuse(table, *OPERATORS[node.cls])
    if node.cls == "Deduplicate":
        keys = {e.id for e in node.exprs.get("keys", ())}
        if keys < {a.id for a in node.output}:
            names = ", ".join(e.name or "?" for e in node.exprs.get("keys", ()))
            why = "which keeps whichever row comes first"
            raise refuse(table, f"dropDuplicates on {names}", Refusal(why, f'hr.latest(..., by="{names}", order="time")'))


def _check_leaf(node: Node, table: TableDef, inputs: Mapping[str, _Named]) -> None:
    if node.input is not None:
        if node.input not in inputs:
            raise refuse(
                table, f'"{node.input}"', Refusal("which is not one of its inputs", "make it a parameter of the function")
            )
        return
    if node.cls in _WRITTEN_LEAVES or (node.cls == "LocalRelation" and _is_values(node, table)):
        return
    what = {"LocalRelation": "rows that it made itself", "LogicalRDD": "rows that it made itself"}.get(node.cls)
    columns = ", ".join(a.name or "?" for a in node.output[:3])
    used = what or f"a {node.cls} of its own"
    why = f"({columns}), which is not an input of the app" if columns else "which is not an input of the app"
    raise refuse(
        table,
        used,
        Refusal(why, "app.reference(name, file), read through a parameter; collect() inside a function is not kept up"),
    )


def _is_values(node: Node, table: TableDef) -> bool:
    """VALUES in SQL. A function that calls collect() or createDataFrame leaves such a leaf with column names of its own."""
    return table.query is not None or all((a.name or "").startswith("col") and (a.name or "")[3:].isdigit() for a in node.output)


def _check_expression(expr: Expr, table: TableDef, trusted: dict[str, None]) -> None:
    if expr.cls in ("PythonUDF", "PythonUDAF"):
        name = expr.name or "a Python UDF"
        if expr.raw.get("udfDeterministic") is False:
            why = "which is declared to be not deterministic"
            raise refuse(table, f"{name}()", Refusal(why, "a function of the row's columns alone"))
        trusted[name] = None
        return
    refusal = refusal_of(expr.cls)
    if refusal is not None:
        raise refuse(table, f"{_sql_name(expr.cls)}()", refusal)


def _sql_name(cls: str) -> str:
    known = {"CurrentTimestamp": "current_timestamp", "CurrentDate": "current_date", "SparkVersion": "version", "Uuid": "uuid"}
    text = "".join(f"_{c.lower()}" if c.isupper() and i and not cls[i - 1].isupper() else c.lower() for i, c in enumerate(cls))
    return known.get(cls, text)
