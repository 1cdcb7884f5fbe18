"""Random tables: relations built from relations, as SQL text, and a few in DataFrame form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from random import Random

from tests.fuzz.rows import A_COLUMNS, C_COLUMNS, R_COLUMNS

TYPES = {
    "id": "BIGINT", "k": "STRING", "g": "INT", "n": "INT", "b": "BIGINT", "d": "DECIMAL", "x": "DOUBLE", "t": "TIMESTAMP",
    "u": "NTZ", "day": "DATE", "ok": "BOOLEAN", "bin": "BINARY", "tags": "ARRAY", "s": "STRUCT", "m": "MAP", "label": "STRING",
    "w": "INT",
}  # fmt: skip
JOINABLE = ("STRING", "INT", "BIGINT", "DECIMAL", "TIMESTAMP", "DATE", "BOOLEAN", "DOUBLE")
GROUPABLE = (*JOINABLE, "NTZ", "BINARY", "ARRAY", "STRUCT")
SMALL = ("g", "w")
"""Columns whose values are small: arithmetic on them cannot overflow."""


@dataclass(frozen=True)
class Made:
    """One table of a random app: SQL, or the text of a lambda over DataFrames."""

    name: str
    key: tuple[str, ...] | None
    text: str
    rejects: bool = False

    def reads(self, name: str) -> bool:
        return re.search(rf"\b{name}\b", self.text) is not None


@dataclass(frozen=True)
class Column:
    """A column of a relation. `approximate`: added in double, so nothing may be decided by it."""

    name: str
    type: str
    approximate: bool = False
    small: bool = False


@dataclass(frozen=True)
class Relation:
    """A SELECT with its columns, and the columns that no two of its rows share (None: a bag)."""

    sql: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] | None
    position: tuple[str, str] | None = None

    def of(self, *types: str) -> list[Column]:
        return [c for c in self.columns if c.type in types and not c.approximate]

    @property
    def exact(self) -> list[Column]:
        return [c for c in self.columns if not c.approximate]


@dataclass
class Tables:
    """Makes the tables of one app, one after the other; later ones may read earlier ones."""

    rng: Random
    known: dict[str, Relation] = field(default_factory=dict)
    _names: int = 0

    def table(self, name: str) -> Made:
        chance = self.rng.random()
        if chance < 0.14:
            key, text = self.rng.choice(FRAMES)
            return Made(name, key, text)
        if chance < 0.18:
            key, text = self.rng.choice(FAILING)
            return Made(name, key, text, rejects=True)
        relation = self._relation(self.rng.choice([1, 1, 1, 2, 2, 3]))
        key = relation.key
        if key is not None and self.rng.random() < 0.5:
            shown = [c for c in relation.columns if c.name in key or self.rng.random() < 0.8]
            relation = replace(relation, columns=tuple(shown or relation.columns))
        sql = f"SELECT {_list(relation.columns)} FROM ({relation.sql}) {self._name('q')}"
        if self.rng.random() < 0.5:
            sql = relation.sql
            relation = replace(relation)
        if self.rng.random() < 0.15:
            sql = f"WITH base AS ({sql}) SELECT * FROM base"
        self.known[name] = replace(self._plain(name, relation))
        return Made(name, key, sql)

    def _plain(self, name: str, relation: Relation) -> Relation:
        return Relation(name, relation.columns, relation.key)

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    # --- relations

    def _relation(self, depth: int) -> Relation:
        if depth == 0:
            return self._base()
        below = self._relation(depth - 1)
        steps = [self._aggregate] * 4 + [self._join] * 4 + [self._filter, self._project, self._union, self._distinct]
        steps += [self._window] * 2 + [self._explode, self._rollup, self._subquery, self._subquery, self._set, self._limit]
        steps += [self._distinct_aggregate, self._self_join, self._using]
        return self.rng.choice(steps)(below)

    def _base(self) -> Relation:
        tables = list(self.known)
        chosen = self.rng.choice(["a"] * 4 + ["c"] * 2 + tables * 2)
        if chosen in self.known:
            table = self.known[chosen]
            renamed = tuple(replace(c, name=self._name("v")) for c in table.columns)
            names = {old.name: new.name for old, new in zip(table.columns, renamed, strict=True)}
            shown = ", ".join(f"{old.name} AS {new.name}" for old, new in zip(table.columns, renamed, strict=True))
            return Relation(f"SELECT {shown} FROM {chosen}", renamed, tuple(names[k] for k in table.key) if table.key else None)
        return self._source(chosen, A_COLUMNS if chosen == "a" else C_COLUMNS)

    def _source(self, name: str, columns: list[str]) -> Relation:
        taken = ["id", *[c for c in columns[1:] if self.rng.random() < 0.6 or c in ("k", "g")]]
        made = tuple(Column(self._name("v"), TYPES[c], small=c in SMALL) for c in taken)
        shown = [f"{c} AS {m.name}" for c, m in zip(taken, made, strict=True)]
        position = None
        if self.rng.random() < 0.3:
            position = (self._name("p"), self._name("o"))
            shown += [f"_partition AS {position[0]}", f"_offset AS {position[1]}"]
        where = ""
        if self.rng.random() < 0.3:
            where = (
                f" WHERE {self.rng.choice(['g > 0', 'k IS NOT NULL', 'n <> 5', 'ok', 'x > 0.5', 'd < 1.05', 'length(k) = 1'])}"
            )
        return Relation(f"SELECT {', '.join(shown)} FROM {name}{where}", made, (made[0].name,), position)

    def _reference(self) -> Relation:
        made = tuple(Column(self._name("v"), TYPES[c], small=c in SMALL) for c in R_COLUMNS)
        shown = ", ".join(f"{c} AS {m.name}" for c, m in zip(R_COLUMNS, made, strict=True))
        return Relation(f"SELECT {shown} FROM r", made, None)

    # --- steps

    def _predicate(self, r: Relation) -> str:
        rng, options = self.rng, []
        for c in r.exact:
            options.append(f"{c.name} IS {rng.choice(['', 'NOT '])}NULL")
            if c.type in ("INT", "BIGINT"):
                options += [
                    f"{c.name} {rng.choice(['>', '<', '=', '<>', '>='])} {rng.choice([0, 1, 2])}",
                    f"{c.name} IN (1, 2, NULL)",
                ]
            if c.type == "STRING":
                options += [f"{c.name} {rng.choice(['=', '<>', '<'])} 'b'", f"{c.name} LIKE 'a%'", f"length({c.name}) > 0"]
            if c.type == "DECIMAL":
                options.append(f"{c.name} > 0.5")
            if c.type == "DOUBLE":
                options += [f"{c.name} > 0.25", f"{c.name} = 0.0"]
            if c.type == "BOOLEAN":
                options += [c.name, f"NOT {c.name}"]
            if c.type == "TIMESTAMP":
                options.append(f"{c.name} >= TIMESTAMP'2026-01-01 01:00:00'")
        chosen = rng.choice(options or ["1 = 1"])
        return chosen if rng.random() < 0.75 or not options else f"({chosen} {rng.choice(['AND', 'OR'])} {rng.choice(options)})"

    def _expression(self, r: Relation) -> tuple[str, str, bool]:
        options: list[tuple[str, str, bool]] = [("1", "INT", True)]
        for c in r.exact:
            n = c.name
            if c.type == "INT" and c.small:
                options += [(f"{n} * 2 + 1", "INT", True), (f"abs({n}) % 2", "INT", True), (f"coalesce({n}, 9)", "INT", True)]
                options += [(f"CAST({n} AS STRING)", "STRING", False), (f"CAST({n} AS DOUBLE) / 4", "DOUBLE", False)]
            if c.type == "STRING":
                options += [
                    (f"upper({n})", "STRING", False),
                    (f"concat({n}, '!')", "STRING", False),
                    (f"length({n})", "INT", True),
                ]
                options += [(f"coalesce({n}, 'none')", "STRING", False)]
            if c.type in ("INT", "STRING"):
                options.append((f"CASE WHEN {self._predicate(r)} THEN {n} END", c.type, c.small))
            if c.type == "TIMESTAMP":
                options.append((f"date_trunc('HOUR', {n})", "TIMESTAMP", False))
            if c.type == "DECIMAL":
                options.append((f"CAST({n} AS DECIMAL(20,3))", "DECIMAL", False))
            if c.type in ("INT", "BIGINT", "DECIMAL"):
                options.append((f"struct({n} AS p, 'z' AS q)", "STRUCT", False))
            if c.type == "ARRAY":
                options.append((f"size({n})", "INT", True))
            if c.type == "MAP":
                options.append((f"{n}['x']", "INT", True))
        return self.rng.choice(options)

    def _filter(self, r: Relation) -> Relation:
        return replace(r, sql=f"SELECT * FROM ({r.sql}) {self._name('q')} WHERE {self._predicate(r)}")

    def _project(self, r: Relation) -> Relation:
        kept = [c for c in r.columns if (r.key and c.name in r.key) or self.rng.random() < 0.6] or list(r.columns[:1])
        made, shown = list(kept), [c.name for c in kept]
        for _ in range(self.rng.choice([1, 2])):
            text, kind, small = self._expression(r)
            made.append(Column(self._name("v"), kind, small=small))
            shown.append(f"{text} AS {made[-1].name}")
        return Relation(f"SELECT {', '.join(shown)} FROM ({r.sql}) {self._name('q')}", tuple(made), r.key)

    def _grouping(self, r: Relation, most: int) -> tuple[list[str], list[Column]]:
        groups: list[str] = []
        columns: list[Column] = []
        for c in self.rng.sample(r.exact, min(len(r.exact), self.rng.randint(0, most))):
            if c.type in GROUPABLE:
                text, kind, small = (c.name, c.type, c.small) if self.rng.random() < 0.7 else self._expression(r)
                if kind in GROUPABLE and not text.isdigit() and text not in groups:
                    groups.append(text)
                    columns.append(Column(self._name("v"), kind, small=small))
        return groups, columns

    def _functions(self, r: Relation) -> tuple[list[str], list[Column]]:
        rng, shown, columns = self.rng, [], []
        for _ in range(rng.choice([1, 2, 3])):
            options: list[tuple[str, str, bool]] = [("count(*)", "BIGINT", False)]
            for c in r.exact:
                n = c.name
                options.append((f"count({n})", "BIGINT", False))
                if c.type not in ("MAP", "ARRAY"):
                    options += [(f"{f}({n})", c.type, False) for f in ("min", "max")]
                if c.type in ("INT", "DECIMAL"):
                    options += [(f"sum({n})", "BIGINT" if c.type == "INT" else "DECIMAL", False), (f"avg({n})", "DOUBLE", True)]
                    if c.small:
                        options += [(f"{f}({n})", "DOUBLE", True) for f in ("stddev", "var_pop", "variance", "stddev_pop")]
                if c.type == "BIGINT":
                    options.append((f"avg(CAST({n} % 1000 AS DECIMAL(10,0)))", "DECIMAL", True))
                if c.type == "DOUBLE":
                    options += [(f"sum({n})", "DOUBLE", True), (f"avg({n})", "DOUBLE", True)]
                if c.type in ("INT", "BIGINT"):
                    options += [(f"{f}({n})", c.type, False) for f in ("bit_and", "bit_or", "bit_xor")]
                if c.type == "BOOLEAN":
                    options += [(f"{f}({n})", "BOOLEAN", False) for f in ("bool_and", "bool_or", "every", "some")]
                    options.append((f"count_if({n})", "BIGINT", False))
                if r.position and c.type != "MAP":
                    options += [(f"{f}({n}, struct({', '.join(r.position)}))", c.type, False) for f in ("max_by", "min_by")]
            text, kind, approximate = rng.choice(options)
            if rng.random() < 0.2:
                text += f" FILTER (WHERE {self._predicate(r)})"
            columns.append(Column(self._name("v"), kind, approximate))
            shown.append(f"{text} AS {columns[-1].name}")
        return shown, columns

    def _aggregate(self, r: Relation) -> Relation:
        groups, named = self._grouping(r, 2)
        functions, made = self._functions(r)
        shown = [*[f"{g} AS {c.name}" for g, c in zip(groups, named, strict=True)], *functions]
        sql = f"SELECT {', '.join(shown)} FROM ({r.sql}) {self._name('q')}"
        if groups:
            sql += f" GROUP BY {', '.join(groups)}"
            if self.rng.random() < 0.25:
                sql += f" HAVING {self.rng.choice(['count(*) > 1', 'count(*) <> 2'])}"
        return Relation(sql, (*named, *made), tuple(c.name for c in named))

    def _distinct_aggregate(self, r: Relation) -> Relation:
        groups, named = self._grouping(r, 1)
        over = [c for c in r.exact if c.type in GROUPABLE]
        if not over:
            return self._aggregate(r)
        made = Column(self._name("v"), "BIGINT")
        shown = [*[f"{g} AS {c.name}" for g, c in zip(groups, named, strict=True)]]
        shown.append(f"count(DISTINCT {self.rng.choice(over).name}) AS {made.name}")
        sql = f"SELECT {', '.join(shown)} FROM ({r.sql}) {self._name('q')}" + (f" GROUP BY {', '.join(groups)}" if groups else "")
        return Relation(sql, (*named, made), tuple(c.name for c in named))

    def _rollup(self, r: Relation) -> Relation:
        groups = [c for c in r.exact if c.type in JOINABLE][:2]
        if len(groups) < 2:
            return self._aggregate(r)
        functions, made = self._functions(r)
        renamed = [replace(c, name=self._name("v")) for c in groups]
        gid = Column(self._name("v"), "BIGINT")
        shown = [*[f"{old.name} AS {new.name}" for old, new in zip(groups, renamed, strict=True)], f"grouping_id() AS {gid.name}"]
        kind = self.rng.choice(["ROLLUP", "CUBE"])
        names = ", ".join(c.name for c in groups)
        sql = f"SELECT {', '.join([*shown, *functions])} FROM ({r.sql}) {self._name('q')} GROUP BY {kind}({names})"
        return Relation(sql, (*renamed, gid, *made), tuple(c.name for c in (*renamed, gid)))

    def _join(self, left: Relation, right: Relation | None = None) -> Relation:
        if right is None:
            right = self._reference() if self.rng.random() < 0.25 else self._base()
            if self.rng.random() < 0.25 and right.sql.find(" r") < 0:
                right = self._aggregate(right)
        pairs = [(a.name, b.name) for a in left.exact for b in right.exact if a.type == b.type and a.type in JOINABLE]
        kind = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        if not pairs:
            return self._filter(left)
        some = self.rng.sample(pairs, min(len(pairs), self.rng.choice([1, 1, 2])))
        conditions = [f"{a} {'<=>' if self.rng.random() < 0.15 else '='} {b}" for a, b in some]
        if self.rng.random() < 0.08:
            conditions = [f"{a} < {b}" for a, b in some[:1]]
        if self.rng.random() < 0.25:
            conditions.append(self._predicate(self.rng.choice([left, right])))
        if right.key is None and self.rng.random() < 0.4:
            left, right = right, left
        sql = f"({left.sql}) {self._name('q')} {kind} ({right.sql}) {self._name('q')} ON {' AND '.join(conditions)}"
        if "SEMI" in kind or "ANTI" in kind:
            judged = replace(left, sql=f"SELECT {_list(left.columns)} FROM {sql}", position=None)
            return judged if left.key is not None else self._aggregate(judged)
        columns = (*left.columns, *right.columns)
        key = (*left.key, *right.key) if left.key is not None and right.key is not None else None
        if key is None:
            return self._aggregate(Relation(f"SELECT {_list(columns)} FROM {sql}", columns, None))
        return Relation(f"SELECT {_list(columns)} FROM {sql}", columns, key)

    def _self_join(self, r: Relation) -> Relation:
        other = tuple(replace(c, name=self._name("v")) for c in r.columns)
        shown = ", ".join(f"{old.name} AS {new.name}" for old, new in zip(r.columns, other, strict=True))
        names = {old.name: new.name for old, new in zip(r.columns, other, strict=True)}
        key = tuple(names[k] for k in r.key) if r.key is not None else None
        return self._join(r, Relation(f"SELECT {shown} FROM ({r.sql}) {self._name('q')}", other, key))

    def _using(self, r: Relation) -> Relation:
        kind = self.rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = self.rng.choice(["k", "g"])
        shown = [Column(on, TYPES[on], small=on in SMALL), Column("i1", "BIGINT"), Column("i2", "BIGINT"), Column("n1", "INT")]
        one, two = self.rng.sample(["a", "c"], 2)
        sql = (
            f"SELECT {on}, i1, i2, n1 FROM (SELECT id AS i1, n AS n1, {on} FROM {one}) {self._name('q')} {kind} "
            f"(SELECT id AS i2, {on} FROM {two}) {self._name('q')} USING ({on})"
        )
        return Relation(sql, tuple(shown), ("i1", "i2"))

    def _union(self, r: Relation) -> Relation:
        other = self._base() if self.rng.random() < 0.85 else self._reference()
        pairs = []
        free = list(other.exact)
        for c in r.exact:
            match = next((o for o in free if o.type == c.type), None)
            if match:
                pairs.append((c, match))
                free.remove(match)
        if not pairs:
            return self._filter(r)
        made = [replace(a, name=self._name("v"), small=a.small and b.small) for a, b in pairs]
        one = ", ".join(f"{a.name} AS {m.name}" for (a, _), m in zip(pairs, made, strict=True))
        two = ", ".join(f"{b.name} AS {m.name}" for (_, b), m in zip(pairs, made, strict=True))
        sql = f"SELECT {one} FROM ({r.sql}) {self._name('q')} UNION ALL SELECT {two} FROM ({other.sql}) {self._name('q')}"
        bag = Relation(sql, tuple(made), None)
        rowish = r.key is not None and other.key is not None and self.rng.random() < 0.3
        return bag if rowish else self._aggregate(bag) if self.rng.random() < 0.7 else self._distinct(bag)

    def _distinct(self, r: Relation) -> Relation:
        kept = [c for c in r.exact if c.type in GROUPABLE]
        kept = self.rng.sample(kept, min(len(kept), self.rng.choice([1, 2]))) or []
        if not kept:
            return self._filter(r)
        return Relation(
            f"SELECT DISTINCT {_list(kept)} FROM ({r.sql}) {self._name('q')}", tuple(kept), tuple(c.name for c in kept)
        )

    def _window(self, r: Relation) -> Relation:
        rng = self.rng
        by = [c for c in r.exact if c.type in JOINABLE]
        if not by or not r.key:
            return self._aggregate(r)
        partition = f"PARTITION BY {rng.choice(by).name} " if rng.random() < 0.85 else ""
        order = "ORDER BY " + ", ".join([rng.choice(by).name + rng.choice(["", " DESC", " NULLS LAST"]), *r.key])
        if r.position and rng.random() < 0.5:
            order = f"ORDER BY {', '.join(r.position)}"
        value = rng.choice(by)
        small = [c for c in r.exact if c.small]
        options = [("row_number()", "INT"), ("rank()", "INT"), ("dense_rank()", "INT"), (f"lag({value.name})", value.type)]
        options += [
            (f"first_value({value.name})", value.type),
            ("ntile(2)", "INT"),
            ("count(*)", "BIGINT"),
            (f"max({value.name})", value.type),
        ]
        options += [(f"sum({c.name})", "BIGINT") for c in small]
        text, kind = rng.choice(options)
        if text.startswith(("count", "max", "sum")) and rng.random() < 0.5:
            order = ""
        made = Column(self._name("v"), kind)
        return Relation(
            f"SELECT *, {text} OVER ({partition}{order}) AS {made.name} FROM ({r.sql}) {self._name('q')}",
            (*r.columns, made),
            r.key,
        )

    def _explode(self, r: Relation) -> Relation:
        arrays, maps = r.of("ARRAY"), r.of("MAP")
        if not arrays and not maps:
            return self._filter(r)
        if arrays and self.rng.random() < 0.7:
            place, value = Column(self._name("v"), "INT", small=True), Column(self._name("v"), "STRING")
            outer = self.rng.choice(["", "OUTER "])
            sql = self._lateral(r, f"{outer}posexplode({arrays[0].name})", place, value)
            columns = (*r.columns, place, value)
            if r.key == () or r.key is None or self.rng.random() < 0.4:
                return Relation(sql, columns, None)
            return Relation(sql, columns, (*r.key, place.name))
        if not maps:
            return self._filter(r)
        name, value = Column(self._name("v"), "STRING"), Column(self._name("v"), "INT", small=True)
        sql = self._lateral(r, f"explode({maps[0].name})", name, value)
        return Relation(sql, (*r.columns, name, value), None if r.key is None else (*r.key, name.name))

    def _lateral(self, r: Relation, generator: str, one: Column, two: Column) -> str:
        view = f"LATERAL VIEW {generator} {self._name('q')} AS {one.name}, {two.name}"
        return f"SELECT {_list(r.columns)}, {one.name}, {two.name} FROM ({r.sql}) {self._name('q')} {view}"

    def _subquery(self, r: Relation) -> Relation:
        other = self._base() if self.rng.random() < 0.8 else self._reference()
        pairs = [(a.name, b.name) for a in r.exact for b in other.exact if a.type == b.type and a.type in JOINABLE]
        if not pairs:
            return self._filter(r)
        a, b = self.rng.choice(pairs)
        q = self._name("q")
        options = [
            f"{a} IN (SELECT {b} FROM ({other.sql}) {q})",
            f"{a} NOT IN (SELECT {b} FROM ({other.sql}) {q})",
            f"EXISTS (SELECT 1 FROM ({other.sql}) {q} WHERE {b} = {a})",
            f"NOT EXISTS (SELECT 1 FROM ({other.sql}) {q} WHERE {b} = {a})",
            f"(SELECT count(*) FROM ({other.sql}) {q}) > 2",
            f"{a} >= (SELECT max({b}) FROM ({other.sql}) {q})",
            f"(SELECT count(*) FROM ({other.sql}) {q} WHERE {b} = {a}) > 1",
            f"({a} IN (SELECT {b} FROM ({other.sql}) {q}) OR {self._predicate(r)})",
        ]
        return replace(r, sql=f"SELECT * FROM ({r.sql}) {self._name('q')} WHERE {self.rng.choice(options)}", position=None)

    def _set(self, r: Relation) -> Relation:
        other = self._base() if self.rng.random() < 0.85 else self._reference()
        pairs = [(a, b) for a in r.exact for b in other.exact if a.type == b.type and a.type in GROUPABLE]
        if not pairs:
            return self._filter(r)
        a, b = self.rng.choice(pairs)
        kind = self.rng.choice(["INTERSECT", "EXCEPT", "UNION"])
        made = replace(a, name=self._name("v"), small=a.small and b.small)
        one = f"SELECT {a.name} AS {made.name} FROM ({r.sql}) {self._name('q')}"
        sql = f"{one} {kind} SELECT {b.name} FROM ({other.sql}) {self._name('q')}"
        return Relation(f"SELECT * FROM ({sql}) {self._name('q')}", (made,), (made.name,))

    def _limit(self, r: Relation) -> Relation:
        by = [c for c in r.exact if c.type in JOINABLE]
        if not r.key or not by:
            return self._filter(r)
        order = ", ".join([self.rng.choice(by).name, *r.key])
        return replace(
            r,
            sql=f"SELECT {_list(r.columns)} FROM ({r.sql}) {self._name('q')} ORDER BY {order} LIMIT {self.rng.choice([1, 3])}",
            position=None,
        )


def _list(columns: tuple[Column, ...] | list[Column]) -> str:
    return ", ".join(c.name for c in columns)


FRAMES: list[tuple[tuple[str, ...] | None, str]] = [
    (
        ("k", "w"),
        "lambda a: a.groupBy('k', F.window('t', '1 hour').alias('w')).agg(F.count('*').alias('n'), F.max('x').alias('x'))",
    ),
    (
        ("k",),
        "lambda a: a.groupBy('k').agg(F.max_by('n', F.struct('_partition', '_offset')).alias('last'), F.count('*').alias('c'))",
    ),
    (
        ("k",),
        "lambda a: a.groupBy('k').agg(F.min_by(F.struct('id', 's', 'tags'), F.struct('_partition', '_offset')).alias('first'))",
    ),
    (None, "lambda a: a.select('k', 'm', F.explode('tags').alias('tag'))"),
    (None, "lambda a: a.select('*').where('g > 0')"),
    (None, "lambda a, c: a.select('k', 'g').union(c.select('k', 'g'))"),
    (None, "lambda a: a.select('k', F.col('_offset').alias('o')).union(a.select(F.upper('k'), '_partition'))"),
    (None, "lambda a, r: a.join(r, 'k', 'left_semi').select('k', 'x', 'bin', 'u', 'day', 's', 'm')"),
    (("id",), "lambda a, c: a.join(c.select('k').distinct(), 'k', 'left_anti').select('id', 'k', 'm')"),
    (("id", "cid"), "lambda a, c: a.join(c.withColumnRenamed('id', 'cid').select('cid', 'k', 'ok'), ['k', 'ok'], 'full')"),
    (("k", "g"), "lambda a: a.cube('k', 'g').agg(F.count('*').alias('n')).where('k is not null and g is not null')"),
    (("k",), "lambda a: a.groupBy('k').agg(F.countDistinct('g').alias('g'), F.sum('d').alias('d'))"),
    (("k",), "lambda a: a.groupBy('k').agg(F.array_sort(F.collect_list('g')).alias('gs'))"),
    (("k",), "lambda a: a.groupBy('k').agg(F.array_sort(F.collect_set('g')).alias('gs'))"),
    (
        ("id",),
        "lambda a: a.select('id', 'k', F.row_number().over(Window.partitionBy('k').orderBy('_partition', '_offset')).alias('rn'))"
        ".where('rn <= 2')",
    ),
    (("k", "total"), "lambda a: a.groupBy('k', 'g').agg(F.sum('n').alias('n')).groupBy('k').agg(F.sum('n').alias('total'))"),
    ((), "lambda a: a.agg(F.count('*').alias('n'), F.sum('d').alias('d'), F.min('t').alias('t'), F.max('u').alias('u'))"),
    (
        ("k",),
        "lambda a: a.where('id % 2 = 0').unionByName(a.where('id % 3 = 0')).groupBy('k')"
        ".agg(F.count('*').alias('n'), F.avg('n').alias('m'))",
    ),
    (None, "lambda a: a.select('id', python.shout('k').alias('loud'), python.half('g').alias('half'))"),
    (
        ("loud",),
        "lambda a: a.groupBy(python.shout('k').alias('loud')).agg(F.count('*').alias('n'), F.sum(python.half('g')).alias('s'))",
    ),
    (("k",), "lambda a: a.select('id', 'k').groupBy('k').applyInPandas(python.summary, 'k STRING, n BIGINT, first BIGINT')"),
    (
        ("k",),
        "lambda a, c: a.select('k').groupBy('k').cogroup(c.select('k').groupBy('k'))"
        ".applyInPandas(python.both, 'k STRING, a BIGINT, c BIGINT')",
    ),
    (("k",), "lambda a: hr.latest(a, by='k', order='t')"),
    (("k", "g"), "lambda a: hr.latest(a.select('k', 'g', 'n', 'd', 'tags', 't'), by=['k', 'g'], order=['t', 'n'])"),
    (None, "lambda a: a.where(hr.random(seed=7) < 0.5).select('id', hr.random(seed=8).alias('chance'))"),
    (None, "lambda a: a.select('id', 'k', hr.now().alias('at'))"),
    (("k",), "lambda a: a.select('k', hr.now().alias('at')).groupBy('k').agg(F.max('at').alias('at'), F.count('*').alias('n'))"),
    (
        ("id",),
        "lambda a, c: a.join(c.select('k', hr.now().alias('at')).groupBy('k').agg(F.min('at').alias('at')), 'k')"
        ".select('id', 'at')",
    ),
    (None, "lambda a, c: a.select('k', F.explode('tags').alias('v')).union(c.select('k', F.col('g').cast('string')))"),
    (None, "lambda a: a.select(F.posexplode('tags')).union(a.select('g', 'k').where('_offset % 2 = 0'))"),
]
"""Tables in DataFrame form, with their keys."""

FAILING: list[tuple[tuple[str, ...] | None, str]] = [
    (None, "SELECT id, 10 / g AS v, CAST(k AS INT) AS w FROM a"),
    (None, "SELECT id, x / g AS v FROM a UNION ALL SELECT id, CAST(ok AS DOUBLE) / n FROM c"),
    (("k",), "SELECT k, count(*) AS n, sum(10 / g) AS s, max(d / n) AS m FROM a GROUP BY k"),
    (("w",), "SELECT CAST(k AS INT) AS w, count(*) AS n FROM c GROUP BY CAST(k AS INT)"),
    (("id", "cid"), "SELECT a.id, c.id AS cid FROM a JOIN c ON a.n = 10 / c.g"),
    (("id", "cid"), "SELECT a.id, c.id AS cid, c.n FROM a LEFT JOIN c ON CAST(a.k AS INT) = c.g"),
    (("k",), "SELECT k, count(DISTINCT 10 / g) AS n FROM a WHERE n <> 0 GROUP BY k"),
    (("id",), "SELECT id, row_number() OVER (PARTITION BY 10 % g ORDER BY id) AS rn FROM a"),
    (("id",), "SELECT id, v FROM (SELECT id, 100 / n AS v FROM c) q WHERE v > 10 OR id IN (SELECT id FROM a)"),
]
"""Tables that fail on some rows, which become rejects."""
