"""Expressions that the planner found, as the JVM's own objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyspark.sql import functions as F

from headrace.spark.surgery import JvmExpression, JvmNode, Surgeon


class Located(Protocol):
    """Where an expression stands in a plan (`headrace.plan.tree.Locator`)."""

    @property
    def path(self) -> Sequence[Any]: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def subpath(self) -> Sequence[int]: ...


class Planned(Protocol):
    """An expression of the planner (`headrace.plan.tree.Expr`)."""

    @property
    def cls(self) -> str: ...
    @property
    def origin(self) -> Located | None: ...
    @property
    def children(self) -> Sequence[Planned]: ...


def jvm_expression(surgeon: Surgeon, root: JvmNode, expression: Planned) -> JvmExpression:
    """The JVM's expression: fetched where it stands, with the planner's substitutions made in it.

    Ids differ from call to call of the user's function; places do not. So nothing is found by id.
    """
    origin = expression.origin
    if origin is None:
        assert expression.cls in ("Literal", "One"), f"{expression} stands nowhere in the plan"
        return surgeon.expression(F.lit(1))  # the planner's one constant, where a component of a tuple does not apply
    found = surgeon.node(root, origin.path).expressions().apply(origin.ordinal)
    for child in origin.subpath:
        found = found.children().apply(child)
    kind = found.getClass().getSimpleName()
    if kind == "OuterReference":
        found = found.e()  # a subquery's name for a column of the query around it, where the tuple belongs
    elif kind == "Alias" and expression.cls == "AttributeReference":
        found = found.toAttribute()  # the column that the alias makes, seen from above it
    if not expression.children:
        return found
    return found.withNewChildren(surgeon.seq(jvm_expression(surgeon, root, child) for child in expression.children))
