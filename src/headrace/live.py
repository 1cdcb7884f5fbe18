"""An app at work in a background thread of this process."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headrace.errors import WorldError
from headrace.reading import After, wait_for
from headrace.running import noting_failure

if TYPE_CHECKING:
    from headrace.place import Place
    from headrace.runtime.runner import Runner


class Run:
    """A running app: `with app.start() as run:`. Leaving the block stops it after the epoch at work.

    An app that fails while it runs raises its error in `wait()`, and at the end of the block.

    The thread matters in the foreground, too: a Spark that is started in the main thread takes over Ctrl-C, and would break
    off the epoch at work.
    """

    def __init__(self, runner: Runner, place: Place, *, once: bool = False, restored: bool = False) -> None:
        self._runner = runner
        self._place = place
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(once, restored), name=f"headrace-{place.app}", daemon=True)

    def _work(self, once: bool, restored: bool) -> None:
        try:
            with noting_failure(self._place):
                self._runner.run(once=once, restored=restored)
        except BaseException as problem:
            self._error = problem

    def begin(self) -> Run:
        """Start the thread."""
        self._thread.start()
        return self

    def wait(self, position: After, timeout: float | None = None) -> int:
        """Wait until every table has taken the rows up to a position (what `append` returned, its token, or an epoch).

        Returns the newest epoch. Raises `TimeoutError`, or the app's own error when it failed.
        """
        return wait_for(self._place, position, timeout=timeout, check=self._check)

    def status(self) -> Any:
        """Where the app is: its state, epoch, sources and tables."""
        return self._runner.status()

    def stop(self) -> None:
        """Stop after the epoch at work, and wait for the end."""
        self._runner.stop()
        self.join()

    def join(self) -> None:
        """Wait for the end, without asking for it; raises the app's own error when it failed."""
        self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _check(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if not self._thread.is_alive():
            raise WorldError(f"{self._place.app} has ended", hint="app.start()")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.stop()
        except Exception:
            # What broke the block off is the news; the app's own error must not hide it.
            if error is None:
                raise
