"""Logs on stderr: lines for people, or JSON lines with --json."""

from __future__ import annotations

import dataclasses
import logging
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import structlog

_PROGRESS_S = 1.0


def set_up(*, json: bool, debug: bool) -> None:
    """Choose how logs look, once per command."""
    renderer: Any = structlog.processors.JSONRenderer(default=str) if json else _render
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso" if json else "%H:%M:%S", utc=json),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def report(event: Any) -> None:
    """One line for an event of the runner."""
    values = dataclasses.asdict(event) if dataclasses.is_dataclass(event) and not isinstance(event, type) else {"message": event}
    words = str(values.pop("message"))
    level = str(values.pop("level", "info"))
    shown = {name: value for name, value in values.items() if value not in (None, {}, [], ())}
    getattr(structlog.get_logger(), level if level in ("debug", "warning", "error") else "info")(words, **shown)


class Reporter:
    """Says what a runner does: each state change, and epochs as one line a second, so that many small ones can be read."""

    def __init__(self, *, debug: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._debug, self._clock = debug, clock
        self._said_at = -math.inf
        self._epochs = self._rows = self._rejects = 0
        self._newest: int | None = None

    def __call__(self, event: Any) -> None:
        """Take an event."""
        if self._debug or getattr(event, "message", "") != "committed":
            self.flush()
            report(event)
            return
        self._newest = event.epoch
        self._epochs += 1
        self._rows += event.rows or 0
        self._rejects += event.rejects or 0
        if self._clock() - self._said_at >= _PROGRESS_S:
            self.flush()

    def flush(self) -> None:
        """Say what has not been said yet."""
        if not self._epochs:
            return
        counts = {"rows": self._rows, "epochs": self._epochs, **({"rejects": self._rejects} if self._rejects else {})}
        structlog.get_logger().info(f"epoch {self._newest}", **counts)
        self._epochs = self._rows = self._rejects = 0
        self._said_at = self._clock()


def _render(_: Any, __: str, event: dict[str, Any]) -> str:
    """`10:00:05 epoch 7 committed  rows=120`: the words first, values after them."""
    level = event.pop("level", "info")
    mark = "" if level == "info" else f"{level}: "
    exception = event.pop("exception", None)
    head = f"{event.pop('timestamp', '')} {mark}{event.pop('event', '')}"
    values = "  ".join(f"{name}={', '.join(value) if isinstance(value, tuple) else value}" for name, value in event.items())
    return f"{head}  {values}".rstrip() + (f"\n{exception}" if exception else "")
