"""Reading one JSON text exactly: numbers keep their digits, names given twice and deep nesting are refused."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headrace.log.values import JsonObject, Number, Wrong

DEPTH_MAX = 100
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def parse(line: bytes) -> Any:
    """The value of a JSON text; `Wrong` where it is none."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Wrong("not_utf8", f"the bytes are no UTF-8 (byte {error.start})") from None
    if line.count(b"[") + line.count(b"{") > DEPTH_MAX and _depth(line) > DEPTH_MAX:
        raise Wrong("too_deep", f"the JSON is nested deeper than {DEPTH_MAX} levels")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Wrong("not_json", f"the line is no JSON: {error.msg} (character {error.pos + 1})") from None


def _depth(line: bytes) -> int:
    """How deep brackets are nested, text left out; brackets in text that never ends count, and the line is wrong anyway."""
    deepest = depth = 0
    for byte in re.sub(rb"[^\[\]{}]", b"", _STRING.sub(b"", line)):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Wrong("duplicate_field", f"the field {twice!r} is given twice")
    return found


def _constant(text: str) -> Any:
    raise Wrong("not_json", f"{text} is no JSON; as text, in quotes, a DOUBLE takes it")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=_constant)


def dumps(value: Any) -> str:
    """JSON text of what `parse` or a Python caller gave, numbers as they were written."""
    if isinstance(value, (Number, Decimal)):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_text(str(name))}:{dumps(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(dumps, value)) + "]"
    if value is None or isinstance(value, (bool, int)):
        return json.dumps(value)
    if isinstance(value, float):
        return json.dumps(value) if math.isfinite(value) else f'"{json.dumps(value)}"'
    if isinstance(value, (dt.datetime, dt.date)):
        return _text(value.isoformat())
    if isinstance(value, bytes):
        return _text(base64.b64encode(value).decode())
    return _text(str(value))


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half a character has no UTF-8, but it has an escape
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
