"""Logs on stderr: lines for people, or JSON lines with --json."""

from __future__ import annotations

import dataclasses
import logging
import sys
from typing import Any

import structlog


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
    words = values.pop("message", None) or values.pop("name", None) or type(event).__name__.lower()
    level = str(values.pop("level", "info"))
    shown = {name: value for name, value in values.items() if value not in (None, {}, [], ())}
    getattr(structlog.get_logger(), level if level in ("debug", "warning", "error") else "info")(str(words), **shown)


def _render(_: Any, __: str, event: dict[str, Any]) -> str:
    """`10:00:05 epoch 7 committed  rows=120`: the words first, values after them."""
    level = event.pop("level", "info")
    mark = "" if level == "info" else f"{level}: "
    exception = event.pop("exception", None)
    head = f"{event.pop('timestamp', '')} {mark}{event.pop('event', '')}"
    values = "  ".join(f"{name}={value}" for name, value in event.items())
    return f"{head}  {values}".rstrip() + (f"\n{exception}" if exception else "")
