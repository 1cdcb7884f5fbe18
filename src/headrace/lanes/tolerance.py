"""When two values that Spark added in double count as the same."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from headrace.lanes.difference import exact_rows
from headrace.schema import python_values

RELATIVE = 1e-12
"""Never less than this share of the magnitude."""


def close(a: Any, b: Any, share: float = 1.0, bound: float | None = None) -> bool:
    """Whether two values agree within the tolerance; `bound` is n * 2^-52 * the sum of magnitudes, where it is known."""
    if a is None or b is None:
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close_inside(a[k], b[k], share, bound) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_close_inside(x, y, share, bound) for x, y in zip(a, b, strict=True))
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return bool(a == b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return bool(a == b)
    allowed = max(RELATIVE * max(abs(a), abs(b)), bound or 0.0)
    return bool(abs(a - b) <= share * allowed)


def _close_inside(a: Any, b: Any, share: float, bound: float | None) -> bool:
    """As `close`, for what stands beside a sum of doubles in a struct or list: whole numbers and times there are exact."""
    return bool(a == b) if isinstance(a, int) and isinstance(b, int) else close(a, b, share, bound)


def same_within(stored: pa.Table, new: pa.Table, approximate: Collection[str], share: float) -> bool:
    """Whether two rows are the same, approximate columns within a share of the tolerance."""
    exact = [i for i, name in enumerate(stored.column_names) if name not in approximate]
    if exact_rows(stored.select(exact)) != exact_rows(new.select(exact)):
        return False
    given = [name for name in stored.column_names if name in approximate]
    return all(
        close(a, b, share)
        for name in given
        for a, b in zip(python_values(stored.column(name)), python_values(new.column(name)), strict=True)
    )
