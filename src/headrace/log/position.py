"""Positions in a topic, and the text in which they travel."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import UsageError


@dataclass(frozen=True)
class Position:
    """How far a topic is meant: the exclusive end of each partition that is named.

    >>> position = Position("t1", {0: 12, 3: 4})
    >>> Position.parse(position.token) == position
    True
    """

    topic_id: str
    ends: Mapping[int, int]

    @property
    def token(self) -> str:
        """`p.` and base64url, for URLs, headers and command lines."""
        body = {"topic": self.topic_id, "ends": {str(p): self.ends[p] for p in sorted(self.ends)}}
        text = json.dumps(body, separators=(",", ":")).encode()
        return "p." + base64.urlsafe_b64encode(text).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read a token; anything else is a `UsageError`."""
        try:
            if not text.startswith("p."):
                raise ValueError(text)
            raw = base64.b64decode(text[2:] + "=" * (-len(text[2:]) % 4), altchars=b"-_", validate=True)
            body = json.loads(raw)
            topic, ends = body["topic"], {int(p): end for p, end in body["ends"].items()}
            if not isinstance(topic, str) or not all(type(end) is int and end >= 0 and p >= 0 for p, end in ends.items()):
                raise ValueError(text)
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, UnicodeDecodeError) as error:
            raise UsageError(
                f"{text!r} is not a position token", hint='the "p...." that append() and `headrace send` answer with, whole'
            ) from error
        return cls(topic, ends)

    def covered_by(self, ends: Mapping[int, int]) -> bool:
        """Whether `ends` have reached every partition's end that is named here."""
        return all(ends.get(partition, 0) >= end for partition, end in self.ends.items())
