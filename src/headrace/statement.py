"""Which inputs an SQL statement names in FROM, read without Spark."""

from __future__ import annotations

import logging
from itertools import pairwise

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError

from headrace.errors import DefinitionError, NotAvailable
from headrace.origin import Origin

# sqlglot warns about syntax that it keeps without understanding; Spark is the judge of that.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


def inputs_of(query: str, *, table: str, origin: Origin) -> tuple[str, ...]:
    """The names in FROM that are no common table expression, each once, as first written.

    >>> here = Origin("app.py", 1)
    >>> inputs_of('WITH o AS (SELECT * FROM events) SELECT "from x", count(*) FROM o JOIN people', table="t", origin=here)
    ('people', 'events')
    """
    found: dict[str, str] = {}
    for named in _parse(query, table, origin).find_all(exp.Table):
        if not isinstance(named.this, exp.Identifier) or _is_common_table(named):
            continue
        if named.db:
            raise DefinitionError(
                f'table "{table}" reads "{named.sql(dialect="spark")}", which is no name of this app',
                origin=origin,
                hint="declare it as a topic, a reference or a table, and name that in FROM",
            )
        found.setdefault(named.name.lower(), named.name)
    return tuple(found.values())


def _parse(query: str, table: str, origin: Origin) -> exp.Query:
    if not isinstance(query, str):
        raise DefinitionError(f'table "{table}": its SQL is {query!r}', origin=origin, hint='"SELECT ... FROM ..."')
    try:
        statements = [statement for statement in _statements(query) if statement is not None]
    except SqlglotError as problem:
        if "MATCH_RECOGNIZE" in query.upper():
            raise NotAvailable("MATCH_RECOGNIZE is not available in this version", origin=origin) from None
        first = problem.errors[0] if isinstance(problem, ParseError) and problem.errors else {}
        where = f"line {first['line']}, column {first['col']}: {first['description']}" if first else str(problem)
        raise DefinitionError(f'table "{table}": cannot read its SQL', details=[where], origin=origin) from None
    if len(statements) != 1:
        raise DefinitionError(f'table "{table}" needs one SQL statement, not {len(statements)}', origin=origin)
    statement = statements[0]
    if not isinstance(statement, exp.Query):
        raise DefinitionError(
            f'table "{table}" needs a SELECT',
            details=[f"its SQL is {statement.key.upper()}"],
            origin=origin,
            hint="SELECT ... FROM ...",
        )
    return statement


def _statements(query: str) -> list[exp.Expr | None]:
    spark = Dialect.get_or_raise("spark")
    tokens = spark.tokenize(query)
    for token, following in pairwise(tokens):
        # After GROUP BY, sqlglot takes the function window(...) for the clause WINDOW name AS (...).
        if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    return spark.parser().parse(tokens, query)


def _is_common_table(named: exp.Table) -> bool:
    """Whether a WITH that is in sight defines the name; inside a WITH only the entries before are in sight."""
    if named.db:
        return False
    name = named.name.lower()
    entry: exp.Expr | None = None
    node: exp.Expr | None = named
    while node is not None:
        if isinstance(node, exp.CTE):
            entry = node
        elif isinstance(node, exp.With):
            # WITH RECURSIVE lets an entry read itself.
            until = node.expressions.index(entry) + bool(node.args.get("recursive")) if entry is not None else None
            if any(cte.alias.lower() == name for cte in node.expressions[:until]):
                return True
            # The statement that owns this WITH must not look at it again with all its entries in sight.
            node, entry = node.parent, None
        else:
            own = node.args.get("with_") or node.args.get("with")
            if own is not None and any(cte.alias.lower() == name for cte in own.expressions):
                return True
        node = node.parent if node is not None else None
    return False
