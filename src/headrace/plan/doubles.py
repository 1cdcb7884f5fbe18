"""Where values that Spark adds in double end up.

No engine adds doubles in one order, so such a value agrees with the batch answer within a tolerance only. Here is found which
columns derive from one, and where one decides which rows there are, their key or their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.plan.shape import PLAIN, has_outer
from headrace.plan.tree import Expr, Node, Path, show
from headrace.plan.types import exact, integral, type_of

_SPREADS = frozenset("VariancePop VarianceSamp StddevPop StddevSamp".split())
_EXACT_OF_ANY = frozenset("IsNull IsNotNull".split())


@dataclass(frozen=True)
class Added:
    """Values that are added in double: those of the child of the node at `path`, per group or window partition.

    `filter` keeps rows out of the sum; `squares`: their squares are added as well; `given`: they are approximate themselves.
    """

    path: Path
    groups: tuple[Expr, ...]
    value: Expr
    filter: Expr | None
    squares: bool
    given: bool


class Doubles:
    """`columns`: id of a column -> why it is approximate. `decided`: where such a value decides. `added`: what is added."""

    def __init__(self, root: Node, inputs: Mapping[str, Collection[str]] | None = None) -> None:
        """`inputs`: the columns of input tables that are approximate already."""
        self.inputs = inputs or {}
        self.columns: dict[int, str] = {}
        self.decided: dict[str, None] = {}
        self.added: dict[Added, None] = {}
        self._visit(root)
        self.root = root

    def of_output(self) -> dict[str, str]:
        """The approximate columns of the result, by name."""
        return {a.name or "": self.columns[a.id] for a in self.root.output if a.id in self.columns}

    def _visit(self, node: Node) -> None:
        for attribute in node.output if node.input in self.inputs else ():
            if attribute.name in self.inputs[node.input or ""]:
                self._mark(attribute.id, f'"{attribute.name}" of "{node.input}" is added in double')
        for child in node.children:
            self._visit(child)
        for sub in node.subqueries():
            if sub.plan is not None:
                self._visit(sub.plan)
        self._decide(node)
        self._add(node)
        self._pass_on(node)

    def _add(self, node: Node) -> None:
        """What the node adds. In a subquery that refers to the query around it, rows cannot be looked at by themselves."""
        sums = [e for top in node.all_exprs() for e in top.walk() if e.cls == "AggregateExpression" and _adds(e.children[0])]
        if not sums or node.cls not in ("Aggregate", "Window") or any(has_outer(e) for n in node.walk() for e in n.all_exprs()):
            return
        groups = node.exprs.get("groupingExpressions" if node.cls == "Aggregate" else "partitionSpec", ())
        for expr in sums:
            function, condition = expr.children[0], expr.children[1] if len(expr.children) > 1 else None
            value = function.children[0]
            given = self.why(value) is not None
            self.added[Added(node.path, tuple(groups), value, condition, function.cls in _SPREADS, given)] = None

    def _pass_on(self, node: Node) -> None:
        for key in ("projectList", "aggregateExpressions", "windowExpressions"):
            for expr in node.exprs.get(key, ()):
                self._mark(expr.id, self.why(expr))
        if node.cls in ("Union", "CTERelationRef", "Except", "Intersect"):
            for child in node.children:
                for above, below in zip(node.output, child.output, strict=False):
                    self._mark(above.id, self.columns.get(below.id or -1))
        elif node.cls == "Generate":
            why = next((w for e in node.exprs.get("generator", ()) if (w := self.why(e))), None)
            for attribute in node.exprs.get("generatorOutput", ()):
                self._mark(attribute.id, why)
        elif node.cls == "Expand":
            for expr in node.exprs.get("projections", ()):
                assert expr.origin is not None
                self._mark(node.output[expr.origin.index[-1]].id, self.why(expr))
        elif node.cls.startswith(("FlatMapGroupsIn", "FlatMapCoGroupsIn")):
            why = next((w for c in node.children for a in c.output if (w := self.columns.get(a.id or -1))), None)
            for attribute in node.output:
                self._mark(attribute.id, why)

    def _mark(self, column: int | None, why: str | None) -> None:
        if column is not None and why is not None:
            self.columns.setdefault(column, why)

    def why(self, expr: Expr) -> str | None:
        """Why the value of an expression is approximate, or None where it is exact."""
        if expr.cls in ("AttributeReference", "OuterReference"):
            return self.columns.get(expr.id or -1)
        if expr.cls in _EXACT_OF_ANY or (expr.cls == "Count" and expr.children):
            return None
        own = _adds(expr)
        if own is not None:
            return own
        if expr.plan is not None:
            return next((w for a in expr.plan.output if (w := self.columns.get(a.id or -1))), None)
        return next((w for child in expr.children if (w := self.why(child))), None)

    # --- where it decides

    def _decide(self, node: Node) -> None:
        if node.cls in ("Filter", "Join"):
            self._note(node.exprs.get("condition", ()), "which rows there are")
        elif node.cls == "Aggregate":
            self._note(node.exprs.get("groupingExpressions", ()), "the groups")
        elif node.cls == "Window":
            self._note(node.exprs.get("partitionSpec", ()), "the partitions of a window")
            self._note(node.exprs.get("orderSpec", ()), "an order")
        elif node.cls in ("Distinct", "Deduplicate", "Except", "Intersect"):
            self._note((a for child in node.children for a in child.output), "which rows are the same")
        elif node.cls == "GlobalLimit":
            below = node
            while below.cls in PLAIN | {"GlobalLimit", "LocalLimit", "Offset", "Project"} and below.cls != "Sort":
                below = below.children[0]
            self._note(below.exprs.get("order", ()), "an order")
        for top in node.all_exprs():
            for expr in top.walk():
                self._note(_conditions(expr), "a case")

    def _note(self, exprs: Iterable[Expr], what: str) -> None:
        for expr in exprs:
            why = self.why(expr)
            if why is not None:
                self.decided.setdefault(f"{why}, and {show(expr)} decides {what}", None)


def _conditions(expr: Expr) -> Iterator[Expr]:
    if expr.cls == "If":
        yield expr.children[0]
    elif expr.cls == "CaseWhen":
        yield from expr.children[: len(expr.children) // 2 * 2 : 2]
    elif expr.cls in ("MaxBy", "MinBy"):
        yield expr.children[1]


def _adds(expr: Expr) -> str | None:
    """Why the function itself adds in double."""
    kind = type_of(expr.children[0]) if expr.children else None
    if expr.cls == "Sum" and not exact(kind):
        return None if kind is not None and "interval" in kind else f"{show(expr)} adds doubles"
    if expr.cls == "Average" and not (kind is not None and kind.startswith("decimal")):
        return f"{show(expr)} adds {'integers in double' if integral(kind) else 'doubles'}"
    if expr.cls in _SPREADS:
        return f"{show(expr)} adds doubles"
    return None
