"""Parts: what is kept of an aggregate so that new rows can be united with it, exactly.

Each kind of aggregate says which columns Spark computes over the new rows, how two sets of parts unite (in Python, with
Spark's own semantics: exact decimals, IEEE doubles, the canonical order of values), and how the aggregate's value is made of
them by Spark's own expressions. Integers and decimals are kept as DECIMAL(38, s): an overflow must not depend on the order
in which rows came, so it shows only when the final value is cast to the aggregate's type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headrace.errors import Bug
from headrace.lanes.tolerance import close
from headrace.schema import arrow_type, encode_key
from headrace.spark.surgery import JvmExpression, Surgeon

Values = tuple[Any, ...]

_EXACT = Context(prec=76)
_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


@dataclass(frozen=True)
class Part(ABC):
    """One aggregate of one table; `inputs` are the types of its arguments."""

    inputs: tuple[T.DataType, ...]
    result: T.DataType

    approximate: ClassVar[bool] = False
    """Whether values are added in double, which no engine does in one order."""

    plain: ClassVar[bool] = False
    """Whether the aggregate's value is the first of its parts, at most in another type: `value` makes it without Spark."""

    def value(self, kept: Sequence[pa.ChunkedArray[Any]]) -> pa.ChunkedArray[Any] | None:
        """The values of many groups, where `plain`; None where one is beyond the aggregate's type."""
        assert self.plain, f"{type(self).__name__} is computed by Spark"
        return kept[0]

    def same(self, stored: Values, wanted: Values, bound: float | None, given: bool = False) -> bool:
        """Whether stored values are those of a batch job; `bound`: how far sums of doubles may be apart.

        `given`: doubles among the arguments may be such sums themselves.
        """
        doubles = all(isinstance(value, (float, type(None))) for value in (*stored, *wanted))
        if not self.approximate and not (given and doubles):
            return encode_key(stored) == encode_key(wanted)
        return all(close(a, b, 1.0, bound) for a, b in zip(stored, wanted, strict=True))

    @property
    @abstractmethod
    def types(self) -> tuple[T.DataType, ...]:
        """The types of the kept columns."""

    @abstractmethod
    def build(self, arguments: Sequence[Column]) -> list[Column]:
        """The kept columns as aggregates over new rows. A FILTER clause has already made other rows' arguments null."""

    @abstractmethod
    def unite(self, stored: Values, new: Values) -> Values:
        """The parts of both sets of rows together."""

    def subtract(self, stored: Values, gone: Values) -> Values:
        """The parts without the rows that went."""
        raise Bug(f"{type(self).__name__} does not subtract")

    @abstractmethod
    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        """The aggregate's value, an expression over the kept columns."""


class CountPart(Part):
    """count(*), count(x, ...), count_if(x)."""

    plain = True

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return (T.LongType(),)

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        present = F.lit(True)
        for argument in arguments:
            present = present & argument.isNotNull()
        return [F.count(F.when(present, F.lit(1)))]

    def unite(self, stored: Values, new: Values) -> Values:
        return (stored[0] + new[0],)

    def subtract(self, stored: Values, gone: Values) -> Values:
        return (stored[0] - gone[0],)

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column:
        return kept[0]


class ExactSumPart(Part):
    """sum over integers and decimals: the exact sum and how many values it has."""

    plain = True

    def value(self, kept: Sequence[pa.ChunkedArray[Any]]) -> pa.ChunkedArray[Any] | None:
        # A sum that its type cannot hold is an error, or NULL for try_sum: that is left to Spark's own cast.
        try:
            return kept[0].cast(arrow_type(self.result))
        except pa.ArrowInvalid:
            return None

    @property
    def scale(self) -> int:
        kind = self.inputs[0]
        return kind.scale if isinstance(kind, T.DecimalType) else 0

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return (T.DecimalType(38, self.scale), T.LongType())

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        (value,) = arguments
        exact = value if isinstance(self.inputs[0], T.DecimalType) else value.cast("decimal(20,0)")
        return [F.sum(exact).cast(T.DecimalType(38, self.scale)), F.count(value)]

    def unite(self, stored: Values, new: Values) -> Values:
        if not stored[1]:
            return new
        return stored if not new[1] else (_EXACT.add(stored[0], new[0]), stored[1] + new[1])

    def subtract(self, stored: Values, gone: Values) -> Values:
        left = stored[1] - gone[1]
        if not gone[1]:
            return stored
        return (_EXACT.subtract(stored[0], gone[0]), left) if left else (None, 0)

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        tolerant = function.evalContext().evalMode().toString() == "TRY"
        return F.when(kept[1] > 0, kept[0].try_cast(self.result) if tolerant else kept[0].cast(self.result))


class ExactAveragePart(ExactSumPart):
    """avg over integers and decimals: as an exact sum; Spark's own division makes the average."""

    plain = False

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        buffers = surgeon.items(function.aggBufferAttributes())
        total = F.coalesce(kept[0], F.lit(Decimal(0))).cast(buffers[0].dataType().sql())
        return surgeon.evaluated(function, [total, kept[1]])


class DoubleSumPart(Part):
    """sum over floats and doubles."""

    approximate = True
    plain = True

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return (T.DoubleType(), T.LongType())

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        (value,) = arguments
        return [F.sum(value.cast("double")), F.count(value)]

    def unite(self, stored: Values, new: Values) -> Values:
        if not stored[1]:
            return new
        return stored if not new[1] else (stored[0] + new[0], stored[1] + new[1])

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        return kept[0]


class DoubleAveragePart(DoubleSumPart):
    """avg over floats and doubles."""

    plain = False

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        return surgeon.evaluated(function, [F.coalesce(kept[0], F.lit(0.0)), kept[1]])


@dataclass(frozen=True)
class ExtremePart(Part):
    """min and max, bool_and and bool_or: the value itself, in the canonical order."""

    largest: bool

    plain = True

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return (self.inputs[0],)

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        return [F.max(arguments[0]) if self.largest else F.min(arguments[0])]

    def unite(self, stored: Values, new: Values) -> Values:
        if stored[0] is None or new[0] is None:
            return new if stored[0] is None else stored
        newer = encode_key([new[0]]) > encode_key([stored[0]])
        return new if newer == self.largest else stored

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        return kept[0]


@dataclass(frozen=True)
class ExtremeByPart(Part):
    """min_by and max_by over a proved order: the value and its order."""

    largest: bool

    plain = True

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return self.inputs

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        value, order = arguments
        return [F.max_by(value, order), F.max(order)] if self.largest else [F.min_by(value, order), F.min(order)]

    def unite(self, stored: Values, new: Values) -> Values:
        if stored[1] is None or new[1] is None:
            return new if stored[1] is None else stored
        newer = encode_key([new[1]]) > encode_key([stored[1]])
        return new if newer == self.largest else stored

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        return kept[0]


@dataclass(frozen=True)
class BitPart(Part):
    """bit_and, bit_or, bit_xor."""

    operation: str

    plain = True

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return (self.inputs[0],)

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        return [{"and": F.bit_and, "or": F.bit_or, "xor": F.bit_xor}[self.operation](arguments[0])]

    def unite(self, stored: Values, new: Values) -> Values:
        a, b = stored[0], new[0]
        if a is None or b is None:
            return new if a is None else stored
        return (a & b if self.operation == "and" else a | b if self.operation == "or" else a ^ b,)

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        return kept[0]


class MomentPart(Part):
    """Variances and standard deviations: (n, mean, M2), united by Chan's formula, as Spark does."""

    approximate = True

    @property
    def types(self) -> tuple[T.DataType, ...]:
        return (T.DoubleType(), T.DoubleType(), T.DoubleType())

    def build(self, arguments: Sequence[Column]) -> list[Column]:
        value = arguments[0].cast("double")
        n = F.count(value).cast("double")
        return [n, F.coalesce(F.avg(value), F.lit(0.0)), F.coalesce(F.var_pop(value) * n, F.lit(0.0))]

    def unite(self, stored: Values, new: Values) -> Values:
        (n1, mean1, m1), (n2, mean2, m2) = stored, new
        if not n1 or not n2:
            return new if not n1 else stored
        n, delta = n1 + n2, mean2 - mean1
        return (n, mean1 + delta * (n2 / n), m1 + m2 + delta * delta * (n1 * n2 / n))

    def final(self, surgeon: Surgeon, function: JvmExpression, kept: Sequence[Column]) -> Column | JvmExpression:
        return surgeon.evaluated(function, list(kept))


def part_of(function: str, inputs: tuple[T.DataType, ...], result: T.DataType) -> Part:
    """The part for one of Spark's aggregate classes (`Sum`, `Average`, ...)."""
    exact = bool(inputs) and isinstance(inputs[0], (*_INTEGRAL, T.DecimalType))
    match function:
        case "Count" | "CountIf":
            return CountPart(inputs, result)
        case "Sum":
            return ExactSumPart(inputs, result) if exact else DoubleSumPart(inputs, result)
        case "Average":
            return ExactAveragePart(inputs, result) if exact else DoubleAveragePart(inputs, result)
        case "Min" | "BoolAnd":
            return ExtremePart(inputs, result, largest=False)
        case "Max" | "BoolOr":
            return ExtremePart(inputs, result, largest=True)
        case "MinBy":
            return ExtremeByPart(inputs, result, largest=False)
        case "MaxBy":
            return ExtremeByPart(inputs, result, largest=True)
        case "BitAndAgg" | "BitOrAgg" | "BitXorAgg":
            return BitPart(inputs, result, operation=function[3:-3].lower())
        case "StddevPop" | "StddevSamp" | "VariancePop" | "VarianceSamp":
            return MomentPart(inputs, result)
    raise Bug(f"the planner chose merge for {function}, which has no parts")
