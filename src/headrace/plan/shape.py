"""The plan as the rules see it: subqueries stand beside the operator that asks them.

A subquery in an expression judges the rows of the operator's child one by one, as a semi join does. `shape` puts a virtual
node of class `Side` between the operator and its child: child 0 are the judged rows, child 1 the rows that judge. Its pairs
are the equalities through which the two meet. A `Side` has the path of its child 0, since nothing stands there in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from headrace.plan.tree import Expr, Node, never_null

Pair = tuple[Expr, Expr, bool]
"""Left side, right side, and whether nulls meet (`<=>`)."""

PLAIN = frozenset(
    "SubqueryAlias View Sort Repartition RepartitionByExpression RebalancePartitions ResolvedHint UnresolvedHint CollectMetrics "
    "ReturnAnswer".split()
)
"""Operators that pass every row as it is. (A Sort counts only below a LIMIT, which is nobody's row-by-row part.)"""


def shape(node: Node) -> Node:
    """The tree with a `Side` for every subquery."""
    children = tuple(shape(c) for c in node.children)
    if children and node.subqueries():
        children = (_sides(node, children[0]), *children[1:])
    return replace(node, children=children)


def terms(expr: Expr) -> Iterator[Expr]:
    """The top-level AND terms of a condition."""
    if expr.cls == "And":
        for child in expr.children:
            yield from terms(child)
    else:
        yield expr


def _sides(node: Node, child: Node) -> Node:
    """`child` judged by every subquery of `node`."""
    judged: set[int] = set()
    if node.cls == "Filter":
        for term in terms(node.exprs["condition"][0]):
            inner, negated = (term.children[0], True) if term.cls == "Not" else (term, False)
            if inner.cls == "Exists":
                judged.add(id(inner))
                child = _side(child, inner, "anti" if negated else "semi", ())
            elif inner.cls == "InSubquery" and not negated:
                judged.add(id(inner.children[-1]))
                child = _side(child, inner.children[-1], "semi", inner.children[:-1])
    rowwise = node.cls in ("Filter", "Project")
    for top in node.all_exprs():
        for expr in top.walk():
            if expr.cls == "InSubquery" and expr.children[-1].plan is not None and id(expr.children[-1]) not in judged:
                judged.add(id(expr.children[-1]))
                child = _side(child, expr.children[-1], "mark", expr.children[:-1], pairs=rowwise, sure=not_null(node))
            elif expr.plan is not None and id(expr) not in judged and not _asked_by_in(top, expr):
                judged.add(id(expr))
                child = _side(child, expr, "mark", (), pairs=rowwise)
    return child


def _asked_by_in(top: Expr, subquery: Expr) -> bool:
    return any(e.cls == "InSubquery" and e.children and e.children[-1] is subquery for e in top.walk())


def not_null(node: Node) -> frozenset[int]:
    """Columns that a filter keeps from being null: its row is dropped, whatever else is asked of it."""
    if node.cls == "Filter":
        own = (t.children[0].id for t in terms(node.exprs["condition"][0]) if t.cls == "IsNotNull")
        return frozenset(i for i in own if i is not None) | not_null(node.children[0])
    if node.cls == "Project":
        below = not_null(node.children[0])
        kept = (e.id for e in node.exprs["projectList"] if _defined(e).cls == "AttributeReference" and _defined(e).id in below)
        return frozenset(i for i in kept if i is not None)
    return not_null(node.children[0]) if node.cls in PLAIN and node.children else frozenset()


def _side(
    left: Node, subquery: Expr, kind: str, values: tuple[Expr, ...], *, pairs: bool = True, sure: frozenset[int] = frozenset()
) -> Node:
    """One judging subquery. `values` are the left sides of an IN; `sure` columns of the left are not null."""
    assert subquery.plan is not None
    inner = shape(subquery.plan)
    right, found, outputs = _correlation(inner)
    met = list(found)
    if outputs is not None:
        below_left = {a.id: _surely(a, sure | not_null(left)) for a in left.output}
        below_right = {a.id: _surely(a, not_null(inner) | not_null(right)) for a in right.output}
        sides = [(v, o) for v, o in zip(values, outputs, strict=False) if o is not None]
        certain = kind == "semi" or (
            len(sides) == len(values) and all(never_null(v, below_left) and never_null(o, below_right) for v, o in sides)
        )
        met += [(v, o, False) for v, o in sides if certain]
    own = {a.id for a in left.output}
    met = [p for p in met if p[0].attributes <= own] if pairs else []
    exprs = {"left": tuple(p[0] for p in met), "right": tuple(p[1] for p in met)}
    return Node("Side", (left, right), exprs, {"kind": kind, "safe": [p[2] for p in met]}, left.path, left.output)


def _surely(attribute: Expr, sure: frozenset[int]) -> Expr:
    return replace(attribute, nullable=False) if attribute.id in sure else attribute


def has_outer(expr: Expr) -> bool:
    """Whether the expression refers to the query around it."""
    return any(
        e.cls == "OuterReference"
        or (e.plan is not None and any(has_outer(x) for n in e.plan.everything() for x in n.all_exprs()))
        for e in expr.walk()
    )


def _correlated(node: Node) -> bool:
    return any(has_outer(e) for n in node.walk() for e in n.all_exprs()) or any(
        n.cls == "Side" and _correlated(n.children[1]) for n in node.walk()
    )


_CHAIN = PLAIN | frozenset("Project Filter Aggregate Distinct Deduplicate Window Generate GlobalLimit LocalLimit Offset".split())
_ROWWISE = PLAIN | frozenset("Project Filter".split())


def _correlation(root: Node) -> tuple[Node, list[Pair], list[Expr | None] | None]:
    """What rows judge, by which equalities to the outer query, and (where rows pass one by one) the subquery's columns over them.

    Goes down as long as something refers to the outer query. Whatever stands above the filter that holds the equalities works
    on the rows that passed it, so the answer depends on these rows alone.
    """
    chain, node = [], root
    while _correlated(node):
        if node.cls not in _CHAIN or not node.children:
            return root, [], None
        chain.append(node)
        node = node.children[0]
    if not chain:
        return root, [], list(root.output)
    pairs: list[Pair] = []
    outputs: list[Expr | None] = list(node.output)
    to_base: Callable[[Expr], Expr | None] = lambda e: e  # noqa: E731 - starts as the identity
    rowwise = True
    for above in reversed(chain):
        rowwise = rowwise and above.cls in _ROWWISE
        if not rowwise:
            return node, pairs, None
        if above.cls == "Filter":
            pairs += _outer_pairs(above.exprs["condition"][0], to_base)
        elif above.cls == "Project":
            defs = {a.id: to_base(_defined(e)) for a, e in zip(above.output, above.exprs["projectList"], strict=True)}
            to_base = _through(defs)
            outputs = [to_base(a) for a in above.output]
    return node, pairs, outputs


def _defined(expr: Expr) -> Expr:
    return expr.children[0] if expr.cls == "Alias" else expr


def _through(defs: dict[int | None, Expr | None]) -> Callable[[Expr], Expr | None]:
    return lambda e: substitute(e, defs)


def _outer_pairs(condition: Expr, to_base: Callable[[Expr], Expr | None]) -> Iterator[Pair]:
    """The equalities of a condition between the outer query and the rows below."""
    for term in terms(condition):
        if term.cls not in ("EqualTo", "EqualNullSafe"):
            continue
        for outer, inner in (term.children, tuple(reversed(term.children))):
            pure = bool(not outer.attributes and has_outer(outer) and not has_outer(inner) and inner.attributes)
            base = to_base(inner) if pure else None
            if base is not None:
                yield _from_outside(outer), base, term.cls == "EqualNullSafe"


def _from_outside(expr: Expr) -> Expr:
    """An expression over the outer query, as the outer query itself would write it."""
    if expr.cls == "OuterReference":
        return Expr("AttributeReference", (), (), expr.id, expr.name, expr.type, expr.nullable, {}, None, expr.origin)
    return replace(expr, children=tuple(map(_from_outside, expr.children)))


def substitute(expr: Expr | None, defs: dict[int | None, Expr | None]) -> Expr | None:
    """The expression with its attributes replaced by their definitions; None where one has none."""
    if expr is None or expr.plan is not None or expr.cls in ("OuterReference", "AggregateExpression", "WindowExpression"):
        return None
    if expr.cls == "AttributeReference":
        return defs.get(expr.id)
    if not expr.children:
        return expr
    children = []
    for child in expr.children:
        new = substitute(child, defs)
        if new is None:
            return None
        children.append(new)
    return replace(expr, children=tuple(children))


def once(exprs: Iterable[Expr | None]) -> dict[Expr, None]:
    """An ordered set of what is there: plans must come out the same in every process."""
    return {e: None for e in exprs if e is not None}
