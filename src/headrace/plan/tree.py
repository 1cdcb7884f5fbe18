"""An analysed Catalyst plan as frozen Python nodes.

Spark prints a plan as JSON in pre-order: each node names its class, its number of children and its fields; an expression is
again such a list. `parse` turns that into `Node` and `Expr`. Every expression remembers where in the plan it stands (a
`Locator`), so that whoever holds the JVM's plan can fetch the JVM's own expression object instead of printing SQL.

A **path** leads from the root of the plan to a node. Its elements are

- a number: the child with this index;
- `Into(field, index, subpath, ordinal)`: the plan inside the subquery expression that stands there in the node;
- `CTE`: from a `CTERelationRef` to the child of its `CTERelationDef`. A plan in which CTEs were inlined by Spark's own
  `InlineCTE(alwaysInline=true)` before it was printed has no such elements; surgery wants that form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headrace.errors import Bug

CTE: Literal["cte"] = "cte"
ROW_PREFIX = "_hr_row__"
"""A leaf that has a column of this name and the name of an input is an occurrence of that input."""


@dataclass(frozen=True)
class Into:
    """A step of a path from a node into the plan of a subquery expression of it."""

    field: str
    index: tuple[int, ...]
    subpath: tuple[int, ...]
    ordinal: int


Path = tuple[int | Into | Literal["cte"], ...]


@dataclass(frozen=True)
class Locator:
    """Where an expression stands.

    `path` leads to the node, `field` names the node's field, `index` the place in it (`()` for a single expression, `(i,)` in
    a list, `(i, j)` in a list of lists), `subpath` the child indexes inside the expression. `ordinal` is the place of the
    field's expression in Spark's own `node.expressions()`, which flattens all fields in order.
    """

    path: Path
    field: str
    index: tuple[int, ...]
    subpath: tuple[int, ...]
    ordinal: int


@dataclass(frozen=True)
class Expr:
    """One expression. Equal expressions compute equal values; names, nullability and places do not count.

    `cls` is the short class name. `values` are the plain fields (a literal's value, a cast's type). `id` is the expression id
    of an attribute or alias. `plan` is the plan of a subquery, with its paths from the root of the whole plan.
    """

    cls: str
    children: tuple[Expr, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    id: int | None = None
    name: str | None = field(default=None, compare=False)
    type: str | None = field(default=None, compare=False)
    nullable: bool = field(default=True, compare=False)
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    plan: Node | None = field(default=None, compare=False, repr=False)
    origin: Locator | None = field(default=None, compare=False)

    def walk(self) -> Iterator[Expr]:
        """This expression and all below it, without the plans of subqueries."""
        yield self
        for child in self.children:
            yield from child.walk()

    def value(self, key: str) -> str | None:
        """A plain field in its canonical text."""
        return next((text for name, text in self.values if name == key), None)

    @property
    def attributes(self) -> frozenset[int]:
        """Ids of the attributes that it needs."""
        return frozenset(e.id for e in self.walk() if e.cls == "AttributeReference" and e.id is not None)

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, eq=False)
class Node:
    """One operator. `exprs` holds its expressions by field, flattened; `raw` the other fields; `output` its columns."""

    cls: str
    children: tuple[Node, ...]
    exprs: Mapping[str, tuple[Expr, ...]]
    raw: Mapping[str, Any]
    path: Path
    output: tuple[Expr, ...]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, without the plans of subqueries."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all_exprs(self) -> Iterator[Expr]:
        """The expressions of this node, each whole."""
        for exprs in self.exprs.values():
            yield from exprs

    def subqueries(self) -> list[Expr]:
        """The subquery expressions of this node."""
        return [e for top in self.all_exprs() for e in top.walk() if e.plan is not None]

    def everything(self) -> Iterator[Node]:
        """This node and all below it, the plans of subqueries included."""
        for node in self.walk():
            yield node
            for sub in node.subqueries():
                assert sub.plan is not None
                yield from sub.plan.everything()

    @property
    def input(self) -> str | None:
        """The name of the input whose leaf this is."""
        if self.children or self.cls == "CTERelationRef":
            return None
        return next((a.name[len(ROW_PREFIX) :] for a in self.output if a.name and a.name.startswith(ROW_PREFIX)), None)

    def enum(self, key: str) -> str:
        """The name of a Scala object in a field: `Inner`, `LeftOuter`."""
        value = self.raw.get(key)
        name = value.get("object") or value.get("product-class") if isinstance(value, Mapping) else value
        return _short(str(name or ""))


# --- reading ----------------------------------------------------------------------------------------------------------

_NOT_VALUES = frozenset(
    "class num-children exprId resultId name nullable qualifier metadata explicitMetadata nonInheritableMetadataKeys plan "
    "filter jvmId sameOrderExpressions mutableAggBufferOffset inputAggBufferOffset timeZoneId".split()
)
_OPAQUE = frozenset("PythonUDF ScalaUDF PythonUDAF ScalaUDAF ScalaAggregator TypedAggregateExpression HiveGenericUDF".split())
"""What they compute is not in the JSON: two of them are equal only when they are the same object."""


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1].rstrip("$").rsplit("$", 1)[-1]


def _is_expr(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "class" in value[0]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def type_text(kind: Any) -> str:
    """A data type of the JSON as one text: `long`, `decimal(10,2)`, or canonical JSON for nested ones."""
    return kind if isinstance(kind, str) else _canonical(kind)


def _id(raw: Mapping[str, Any], key: str = "exprId") -> int | None:
    value = raw.get(key)
    return int(value["id"]) if isinstance(value, Mapping) and "id" in value else None


class _Reader:
    """Reads the lists; CTE definitions are remembered where they are met, and read again at every reference."""

    def __init__(self) -> None:
        self.definitions: dict[int, list[Any]] = {}

    # Plans

    def plan(self, flat: list[Any], path: Path) -> Node:
        node, rest = self._node(flat, 0, path)
        assert rest == len(flat), "the JSON of a plan is one tree"
        return node

    def _span(self, flat: list[Any], at: int) -> int:
        """The end of the subtree that begins at `at`."""
        todo = 1
        while todo:
            todo += flat[at]["num-children"] - 1
            at += 1
        return at

    def _node(self, flat: list[Any], at: int, path: Path) -> tuple[Node, int]:
        raw = flat[at]
        cls, count = _short(raw["class"]), raw["num-children"]
        if cls == "WithCTE":
            return self._with_cte(flat, at, path)
        exprs, plain = self._fields(raw, path)
        children, at = [], at + 1
        for i in range(count):
            child, at = self._node(flat, at, (*path, i))
            children.append(child)
        if cls == "CTERelationRef":
            if raw.get("recursive") or raw["cteId"] not in self.definitions:
                return Node("RecursiveCTE", (), exprs, plain, path, exprs.get("output", ())), at
            children = [self.plan(self.definitions[raw["cteId"]], (*path, CTE))]
        node = Node(cls, tuple(children), exprs, plain, path, ())
        return replace(node, output=_output(node)), at

    def _with_cte(self, flat: list[Any], at: int, path: Path) -> tuple[Node, int]:
        raw, at = flat[at], at + 1
        for _ in range(raw["num-children"] - 1):
            end = self._span(flat, at)
            self.definitions[flat[at]["id"]] = flat[at + 1 : end]
            at = end
        return self._node(flat, at, (*path, raw["num-children"] - 1))

    def _fields(self, raw: Mapping[str, Any], path: Path) -> tuple[dict[str, tuple[Expr, ...]], dict[str, Any]]:
        exprs: dict[str, tuple[Expr, ...]] = {}
        plain: dict[str, Any] = {}
        ordinal = 0
        for key, value in raw.items():
            found = list(self._lists(value, ()))
            if not found:
                plain[key] = value
                continue
            out = []
            for index, flat in found:
                out.append(self.expr(flat, Locator(path, key, index, (), ordinal)))
                ordinal += 1
            exprs[key] = tuple(out)
        return exprs, plain

    def _lists(self, value: Any, index: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
        if _is_expr(value):
            yield index, value
        elif isinstance(value, list):
            for i, item in enumerate(value):
                yield from self._lists(item, (*index, i))

    # Expressions

    def expr(self, flat: list[Any], where: Locator) -> Expr:
        found, rest = self._expr(flat, 0, where)
        assert rest == len(flat), "the JSON of an expression is one tree"
        return found

    def _expr(self, flat: list[Any], at: int, where: Locator) -> tuple[Expr, int]:
        raw = flat[at]
        children, at = [], at + 1
        for i in range(raw["num-children"]):
            child, at = self._expr(flat, at, replace(where, subpath=(*where.subpath, i)))
            children.append(child)
        return self._one(raw, tuple(children), where), at

    def _one(self, raw: Mapping[str, Any], children: tuple[Expr, ...], where: Locator) -> Expr:
        cls = _short(raw["class"])
        kind = type_text(raw["dataType"]) if raw.get("dataType") is not None else None
        nullable = bool(raw.get("nullable", True))
        if cls == "OuterReference":  # what it refers to is a field, not a child
            inner = self.expr(raw["e"], replace(where, subpath=(*where.subpath, 0)))
            return Expr(cls, (), (("of", str(inner.id)),), inner.id, inner.name, inner.type, inner.nullable, raw, None, where)
        if cls == "AttributeReference":
            return Expr(cls, (), (), _id(raw), raw["name"], kind, nullable, raw, None, where)
        plan = None
        if _is_expr(raw.get("plan")):
            step = Into(where.field, where.index, where.subpath, where.ordinal)
            plan = self.plan(raw["plan"], (*where.path, step))
        values = tuple((k, _canonical(v)) for k, v in sorted(raw.items()) if k not in _NOT_VALUES and not _is_expr(v))
        if cls in _OPAQUE or plan is not None:
            values += (("same", str(_id(raw, "resultId") or _id(raw) or where)),)
        return Expr(cls, children, values, _id(raw), raw.get("name"), kind, nullable, raw, plan, where)


def parse(analysed_json: str) -> Node:
    """Read `df._jdf.queryExecution().analyzed().toJSON()`."""
    flat = json.loads(analysed_json)
    if not _is_expr(flat):
        raise Bug("Spark printed a plan in a form that Headrace does not know")
    return _Reader().plan(flat, ())


# --- what a node puts out ---------------------------------------------------------------------------------------------

_ALIKE = frozenset(
    "Filter Sort GlobalLimit LocalLimit Offset Tail Distinct Deduplicate Repartition RepartitionByExpression RebalancePartitions "
    "ResolvedHint UnresolvedHint Sample SubqueryAlias View Except Intersect CTERelationDef WithCTE LocalLimitAndOffset Limit "
    "CollectMetrics ReturnAnswer DeduplicateWithinWatermark EventTimeWatermark".split()
)


def as_attribute(expr: Expr) -> Expr:
    """The attribute by which others refer to a named expression."""
    if expr.cls == "AttributeReference":
        return expr
    kind = expr.children[0].type if expr.cls == "Alias" and expr.children else expr.type
    return Expr("AttributeReference", (), (), expr.id, expr.name, kind, True, {}, None, expr.origin)


def _nullable(attributes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(replace(a, nullable=True) for a in attributes)


def _join_output(node: Node) -> tuple[Expr, ...]:
    kind, (left, right) = join_kind(node), node.children
    if kind in ("semi", "anti"):
        return left.output
    if kind == "mark":
        return (*left.output, *node.exprs.get("joinType", ()))
    lost_left, lost_right = kind in ("right", "full"), kind in ("left", "full")
    return (*(_nullable(left.output) if lost_left else left.output), *(_nullable(right.output) if lost_right else right.output))


def join_kind(node: Node) -> str:
    """inner, left, right, full, semi, anti or cross by Spark's class of the join type; any other one by its own name."""
    name = node.enum("joinType")
    known = {"Inner": "inner", "Cross": "inner", "LeftOuter": "left", "RightOuter": "right", "FullOuter": "full"}
    return {**known, "LeftSemi": "semi", "LeftAnti": "anti"}.get(name, name)


def _output(node: Node) -> tuple[Expr, ...]:
    """The columns of a node as attributes, as the node's class in Spark defines them."""
    first: Callable[[], tuple[Expr, ...]] = lambda: node.children[0].output if node.children else ()  # noqa: E731
    if node.cls == "Project":
        return _named(node, "projectList")
    if node.cls == "Aggregate":
        return _named(node, "aggregateExpressions")
    if node.cls == "Window":
        return (*first(), *_named(node, "windowExpressions"))
    if node.cls == "Generate":
        return (*first(), *node.exprs.get("generatorOutput", ()))
    if node.cls in ("Join", "AsOfJoin"):
        return _join_output(node)
    if node.cls == "Union":
        others = list(zip(*(c.output for c in node.children), strict=False))
        return tuple(replace(column[0], nullable=any(a.nullable for a in column)) for column in others)
    if node.cls == "LateralJoin":
        inside = [e.plan for e in node.subqueries() if e.plan is not None]
        return (*first(), *(_nullable(inside[0].output) if inside else ()))
    if "output" in node.exprs:
        return node.exprs["output"]
    if node.cls in _ALIKE and node.children:
        return first()
    return node.exprs.get("output", first())


def _named(node: Node, key: str) -> tuple[Expr, ...]:
    """Named expressions as attributes; a column that is passed on keeps the nullability that it has below."""
    below = {a.id: a for child in node.children for a in child.output}
    out = []
    for expr in node.exprs.get(key, ()):
        attribute = as_attribute(expr)
        source = expr.children[0] if expr.cls == "Alias" and expr.children else expr
        known = below.get(source.id) if source.cls == "AttributeReference" else None
        out.append(replace(attribute, nullable=known.nullable if known else not never_null(source, below)))
    return tuple(out)


# --- small questions --------------------------------------------------------------------------------------------------

_NEVER_NULL = frozenset("IsNull IsNotNull EqualNullSafe Count RowNumber Rank DenseRank CreateNamedStruct CreateArray".split())


def never_null(expr: Expr, below: Mapping[int | None, Expr]) -> bool:
    """Whether the expression is not null, whatever the row."""
    if expr.cls == "AttributeReference":
        known = below.get(expr.id)
        return known is not None and not known.nullable
    if expr.cls == "Literal":
        return expr.value("value") not in (None, "null")
    if expr.cls == "Coalesce":
        return any(never_null(c, below) for c in expr.children)
    if expr.cls in ("Alias", "AggregateExpression"):
        return bool(expr.children) and never_null(expr.children[0], below)
    return expr.cls in _NEVER_NULL


def show(expr: Expr) -> str:
    """An expression for people: columns by name, operators and functions by class."""
    if expr.cls in ("AttributeReference", "OuterReference"):
        return expr.name or "?"
    if expr.cls == "Literal":
        text = json.loads(expr.value("value") or "null")
        return "NULL" if text is None else f"'{text}'" if expr.type == "string" else str(text)
    if expr.cls == "Alias":
        return show(expr.children[0])
    if expr.cls == "Cast":
        return f"CAST({show(expr.children[0])} AS {(expr.type or '').upper()})"
    if expr.cls == "AggregateExpression":
        distinct = "DISTINCT " if expr.raw.get("isDistinct") else ""
        function = expr.children[0]
        return f"{_called(function)}({distinct}{', '.join(map(show, function.children))})"
    sign = _SIGNS.get(expr.cls)
    if sign and len(expr.children) == 2:
        return f"{show(expr.children[0])} {sign} {show(expr.children[1])}"
    if expr.cls == "GetStructField":
        return f"{show(expr.children[0])}.{json.loads(expr.value('name') or 'null') or expr.raw.get('name') or '?'}"
    return f"{_called(expr)}({', '.join(map(show, expr.children))})"


def _called(function: Expr) -> str:
    """What people call a function: by its name in SQL, which mostly is its class with underscores."""
    known = {"Average": "avg", "StddevSamp": "stddev", "VarianceSamp": "variance", "Signum": "sign"}
    cls = function.cls.removesuffix("Expression")
    text = "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(cls))
    return function.name or known.get(function.cls, text)


_SIGNS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "And": "AND",
    "Or": "OR",
}
