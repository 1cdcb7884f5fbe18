"""What `headrace plan` says about one table."""

from __future__ import annotations

from headrace.plan.choose import Occurrence, TablePlan
from headrace.plan.traits import ONE


def describe(plan: TablePlan) -> list[str]:
    """Lines for people: why this lane, the key, the partition, what an epoch costs, and what to know. Warnings stand apart."""
    lines = [f"because {'; '.join(plan.reasons)}"]
    lines.append(f"key: {_key(plan)}")
    if plan.merge is not None:
        groups = ", ".join(map(str, plan.merge.grouping)) or "one group of everything"
        lines.append(f"groups by {groups}")
    if plan.lane == "recompute" and not plan.whole:
        lines += [_partition(o) for o in plan.occurrences]
        lines.append("two runs, over the rows as they were and as they are, subtracted")
    lines.append(f"an epoch reads {_cost(plan)}")
    lines += [f"{o.why}: ties are {'impossible' if o.proved else 'looked for'}" for o in plan.orders]
    lines += [f"trusted: {name}() depends on its arguments alone" for name in plan.trusted]
    lines += [f'"{column}" agrees with batch within a tolerance: {why}' for column, why in plan.approximate.items()]
    return lines + [f"try: {text}" for text in plan.suggestions]


def _key(plan: TablePlan) -> str:
    if plan.key is None:
        return "the position of the source's row"
    return ", ".join(plan.key) or "none: the table has one row"


def _partition(occurrence: Occurrence) -> str:
    parts = [str(e) for e in occurrence.tuple if e != ONE]
    return f"{occurrence.input} by {', '.join(parts)}" if parts else f"{occurrence.input} whole"


def _cost(plan: TablePlan) -> str:
    if plan.lane == "append":
        return "its new rows"
    if plan.lane == "merge":
        return "its new rows, and the parts of their groups"
    if plan.whole:
        return "every row of every input"
    names = sorted({o.input for o in plan.occurrences})
    saved = [n for n in names if n in plan.linear]
    text = "all rows of the partitions that changed"
    return f"{text}; where only {' or '.join(saved)} changed, none of its old rows" if saved else text
