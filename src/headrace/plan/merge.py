"""Does an aggregate unite? Row by row up to one aggregate whose functions merge, and row by row after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.plan.shape import once, terms
from headrace.plan.traits import Traits
from headrace.plan.tree import Expr, Locator, Node, Path
from headrace.plan.types import collated, exact, floating, type_of

ALWAYS = frozenset("Count CountIf Min Max BoolAnd BoolOr BitAndAgg BitOrAgg BitXorAgg".split())
"""Aggregates that unite whatever their type."""
ADDED = frozenset("Sum Average VariancePop VarianceSamp StddevPop StddevSamp".split())
"""Aggregates that unite over numbers."""
BY_ORDER = frozenset("MaxBy MinBy".split())
"""Aggregates that unite where the order decides."""
SUBTRACTS = frozenset("Count CountIf Sum Average".split())
"""Aggregates that can lose rows; sums and averages where they are exact."""


@dataclass(frozen=True)
class AggregatePart:
    """One aggregate function of the node: what it is, where it stands, over which expressions."""

    function: str
    origin: Locator
    children: tuple[Expr, ...]
    filter: Expr | None
    result_type: str | None


@dataclass(frozen=True)
class Merge:
    """The aggregate (an Aggregate, a Distinct, or a Deduplicate over all columns), its groups and its functions."""

    aggregate: Path
    grouping: tuple[Expr, ...]
    functions: tuple[AggregatePart, ...]


def find_aggregate(traits: Traits, root: Node) -> Node | None:
    """The one aggregate with nothing but row-by-row operators above it."""
    node: Node | None = root
    while node is not None and node.cls not in ("Aggregate", "Distinct", "Deduplicate"):
        node = traits.through(node)
    return node


def aggregates(node: Node) -> list[Expr]:
    """Every aggregate expression of a node, each once."""
    return list(once(e for top in node.all_exprs() for e in top.walk() if e.cls == "AggregateExpression"))


def grouping_of(node: Node) -> tuple[Expr, ...]:
    """The grouping expressions of an Aggregate, Distinct or Deduplicate."""
    if node.cls == "Aggregate":
        return node.exprs.get("groupingExpressions", ())
    return node.output if node.cls == "Distinct" else node.exprs.get("keys", ())


def part_of(expr: Expr) -> AggregatePart:
    """The function of an aggregate expression. Its filter is the child after the function."""
    function = expr.children[0]
    condition = expr.children[1] if len(expr.children) > 1 else None
    assert expr.origin is not None, "an aggregate stands in the plan"
    return AggregatePart(function.cls, expr.origin, function.children, condition, type_of(function))


def why_not(traits: Traits, node: Node, *, loses: bool, proved: Mapping[Expr, bool]) -> str | None:
    """Why the aggregate does not unite, or None where it does. `loses`: rows below may vanish."""
    if not traits.additive(node.children[0]):
        return "what stands below its group-by is not row by row"
    if any(terms_session(e, traits) for e in grouping_of(node)):
        return "a session window depends on other rows"
    if any(map(collated, grouping_of(node))):
        return "strings that differ are equal in its groups' collation"
    if any(e.plan is not None for top in node.all_exprs() for e in top.walk()):
        return "a subquery stands in its group-by"
    if any(e.cls in ("PythonUDAF", "ScalaUDAF", "ScalaAggregator") for top in node.all_exprs() for e in top.walk()):
        return "an aggregate function of its own cannot be united"
    for expr in aggregates(node):
        reason = _why_not_part(expr, loses, proved)
        if reason:
            return reason
    return None


def terms_session(expr: Expr, traits: Traits) -> bool:
    """Whether a grouping expression is, or uses, a session window."""
    return bool(expr.attributes & traits.sessions) or any(t.id in traits.sessions for t in terms(expr))


def _why_not_part(expr: Expr, loses: bool, proved: Mapping[Expr, bool]) -> str | None:
    part = part_of(expr)
    name = str(expr)
    if expr.raw.get("isDistinct") and part.function not in ("Min", "Max", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg"):
        return f"{name} counts distinct values"
    if part.function not in ALWAYS | ADDED | BY_ORDER:
        return f"{name} cannot be united from parts"
    kind = type_of(part.children[0]) if part.children else None
    if part.function in ("Min", "Max", *BY_ORDER) and any(map(collated, part.children)):
        return f"{name} chooses among strings that are equal in their collation"
    if part.function in ADDED and not (exact(kind) or kind in ("float", "double")):
        return f"{name} adds values of type {kind or 'unknown'}"
    if part.function in BY_ORDER and not proved.get(expr, False):
        return f"{name} depends on an order that the rows may not decide"
    if loses and part.function not in SUBTRACTS:
        return f"{name} cannot lose rows, and its input's rows may vanish"
    if loses and part.function in ("Sum", "Average") and (floating(kind) or not exact(kind)):
        return f"{name} adds doubles, which cannot be subtracted exactly"
    return None


def describe_merge(traits: Traits, node: Node) -> Merge:
    """The merge of a node of which `why_not` had nothing to say."""
    return Merge(node.path, grouping_of(node), tuple(part_of(e) for e in aggregates(node)))
