"""Every error a user can meet, and what each one makes the command line answer.

HeadraceError
├── DefinitionError       the app is wrong; fix the code                     exit 2
│   └── NotKeptUp         a table whose function cannot be kept up to date
├── UsageError            the command or the call is wrong                   exit 2
│   └── NotAvailable      due in a later version
├── RowsRefused           rows that the topic's schema cannot take           exit 2
├── FunctionFailed        a row or a key that the app's function cannot take exit 2
├── WorldError            the world failed; the app may be right             exit 3
│   ├── AlreadyRunning    another living generation holds the app
│   ├── Fenced            a newer generation took over; this one must stop
│   ├── StoreRestored     the store went back: an old copy stands in its place
│   ├── StoreReplaced     the store's file changed under a running app
│   ├── EpochTrimmed      the epoch asked for is no longer kept
│   └── LogDamaged        bytes of the log changed after they were written
└── Bug                   an assertion of ours broke; please report          exit 70
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from headrace.origin import Origin


class HeadraceError(Exception):
    """What happened (`message`), where and why (`details`), and what to try (`hint`).

    >>> print(DefinitionError('table "opens" cannot be kept up to date', details=["uses rand()"],
    ...                       origin=Origin("app.py", 12), hint="hr.random(seed=7)").render())
    table "opens" cannot be kept up to date
      app.py:12  uses rand()
      try: hr.random(seed=7)
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        message: str,
        *,
        details: Sequence[str] = (),
        origin: Origin | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.origin = origin
        self.hint = hint

    def render(self) -> str:
        """The lines a person reads: message, place and reasons, then what to try."""
        place = f"{self.origin}  " if self.origin else ""
        lines = [self.message]
        if self.details or place:
            first, *rest = self.details or [""]
            lines += [f"  {place}{first}".rstrip(), *(f"  {line}" for line in rest)]
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def as_json(self) -> dict[str, object]:
        """The `error` object that `--json` prints as the last line on stderr."""
        return {
            "code": self.code,
            "message": " ".join([self.message, *self.details]),
            "file": self.origin.file if self.origin else None,
            "line": self.origin.line if self.origin else None,
            "try": self.hint,
        }


class DefinitionError(HeadraceError):
    """The app is wrong; no data was read."""

    code = "definition"
    exit_code = 2


class NotKeptUp(DefinitionError):
    """A table whose function cannot be kept up to date, with the reason."""

    code = "not_kept_up"


class UsageError(HeadraceError):
    """A command, an option or a call that does not make sense."""

    code = "usage"
    exit_code = 2


class NotAvailable(UsageError):
    """Something that the documentation promises for a later version."""

    code = "not_available"


class RowsRefused(HeadraceError):
    """`append()` refuses a whole call when one row is wrong. `wrong` holds (row number, reason, message)."""

    code = "rows_refused"
    exit_code = 2

    def __init__(self, message: str, *, wrong: Sequence[tuple[int, str, str]] = (), hint: str | None = None) -> None:
        super().__init__(message, details=[f"row {n}: {text}" for n, _, text in wrong[:5]], hint=hint)
        self.wrong = tuple(wrong)


class FunctionFailed(HeadraceError):
    """A row or a key on which a table's function fails; the store stays on the epoch before."""

    code = "function_failed"
    exit_code = 2


class WorldError(HeadraceError):
    """Something outside the app failed."""

    code = "world"
    exit_code = 3


class AlreadyRunning(WorldError):
    """Another living generation holds the app."""

    code = "already_running"


class Fenced(WorldError):
    """A newer generation took over: this one must not write any more."""

    code = "fenced"


class StoreRestored(WorldError):
    """The store is an older copy of itself, by the marks beside the log."""

    code = "store_restored"


class StoreReplaced(WorldError):
    """The store's file is not the one that this generation opened."""

    code = "store_replaced"


class EpochTrimmed(WorldError):
    """The epoch asked for is older than the history that is kept."""

    code = "epoch_trimmed"


class LogDamaged(WorldError):
    """A frame before the published end does not hold what was written."""

    code = "log_damaged"


class Bug(HeadraceError):
    """An assertion of ours broke."""

    code = "bug"
    exit_code = 70
