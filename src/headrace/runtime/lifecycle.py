"""The states of a run and the moves between them; nothing else keeps such state."""

from __future__ import annotations

from enum import Enum

from headrace.errors import Bug


class State(Enum):
    """Where a run stands."""

    CREATED = "created"
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"


MOVES: dict[State, frozenset[State]] = {
    State.CREATED: frozenset({State.STARTING, State.FAILED}),
    State.STARTING: frozenset({State.RUNNING, State.STARTING, State.FAILED, State.STOPPED}),
    State.RUNNING: frozenset({State.STARTING, State.STOPPED, State.FAILED}),
    State.STOPPED: frozenset({State.STARTING}),
    State.FAILED: frozenset({State.STARTING}),
}
"""A JVM that dies leads from RUNNING (or STARTING) to STARTING."""


class Lifecycle:
    """The state of one run.

    >>> life = Lifecycle()
    >>> life.start(); life.run(); life.end(); life.state.value
    'stopped'
    """

    def __init__(self) -> None:
        self.state = State.CREATED

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in (State.STOPPED, State.FAILED)

    def _move(self, to: State) -> None:
        if to not in MOVES[self.state]:
            raise Bug(f"a run cannot go from {self.state.value} to {to.value}")
        self.state = to

    def start(self) -> None:
        """The run begins, or begins again."""
        self._move(State.STARTING)

    def run(self) -> None:
        """Epochs are being taken."""
        self._move(State.RUNNING)

    def end(self) -> None:
        """It ended as it was asked to."""
        self._move(State.STOPPED)

    def fail(self) -> None:
        """It ended with an error."""
        self._move(State.FAILED)
