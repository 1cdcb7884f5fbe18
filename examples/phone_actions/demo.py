"""The phone actions app at work, killed and started again on screen: `make demo`, or `make demo SECONDS=30`.

Four processes: the app, the phones (phones.py), a reader that looks for contradictions (reader.py), and this one, which shows
the tables and wields `kill -9`. At the end it lets the app take every event, stops it, and asks `headrace verify`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.errors import HeadraceError
from headrace.place import Place
from headrace.running import running
from headrace.store.reader import Reader

HERE = Path(__file__).resolve().parent
HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
REFRESH_S = 0.5
PLAIN_LINE_S = 3.0
KILL_EVERY_S = 20.0
PATIENCE_S = 300.0
"""How long the app may take to start, to come back, and to take what is left: a slow machine is no failure."""

NEWEST_HOURS = """
SELECT action, window_start, "count(1)" AS n FROM actions_per_hour ORDER BY window_start DESC, n DESC LIMIT 8
"""
BUSIEST_PHONES = "SELECT * FROM opens_and_closes ORDER BY opens DESC, phone_id LIMIT 8"


class Child:
    """A process of the demo, in a group of its own, so that Ctrl-C reaches only this program."""

    def __init__(self, name: str, command: list[str], data: Path, *, keep_last_line: bool = False) -> None:
        self.name, self.log = name, data / f"{name}.log"
        self.last: dict[str, int] = {}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=HERE,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if keep_last_line else log,
                stderr=log,
                env={**os.environ, "HEADRACE_DATA": str(data)},
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        if keep_last_line:
            self._listener.start()

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = json.loads(line)

    def stop(self) -> dict[str, int]:
        """Ask it to end, wait, and return the last line that it printed."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        if self._listener.ident is not None:
            self._listener.join()
        return self.last

    def kill(self) -> None:
        """kill -9 this one process; what it started notices by itself."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Whatever is left of its group goes, too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Moment:
    """What the store shows at one epoch."""

    epoch: int = 0
    generation: int = 0
    events: int = 0
    hours: list[list[Any]] = field(default_factory=list)
    phones: list[list[Any]] = field(default_factory=list)


class Window:
    """A look at the app's store, which may not be there yet."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reader: Reader | None = None
        self._newest = Moment()

    def look(self) -> Moment:
        """The newest epoch, with the rows of both tables that are worth a look; the one before when it cannot be read now."""
        with contextlib.suppress(HeadraceError):
            if self._reader is None:
                self._reader = Reader(self._store)
            head = self._reader.head()
            if head.epoch == self._newest.epoch or len(self._reader.tables()) < 2:
                return self._newest
            snapshot = self._reader.at(head.epoch)
            self._newest = Moment(
                epoch=head.epoch,
                generation=self._reader.ledger(after=head.epoch - 1)[0].generation,
                events=sum(self._reader.offsets(head.epoch).get("events", {}).values()),
                hours=snapshot.query(NEWEST_HOURS).rows,
                phones=snapshot.query(BUSIEST_PHONES).rows,
            )
        return self._newest


class Screen:
    """Live tables on a terminal; plain lines every few seconds elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._lines: list[Text] = []
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold()

    def hold(self) -> None:
        """The tables stay as they are; what is said from now on stands below them."""
        if self._live:
            self._live.stop()
            self._live = None

    def say(self, text: str, style: str = "") -> None:
        """A line that stays."""
        self.print(self._stamped(text), style)

    def _stamped(self, text: str) -> str:
        return f"{time.monotonic() - self._began:6.1f} s  {text}"

    def print(self, text: str, style: str = "") -> None:
        """Text as it is."""
        self._lines.append(Text(text, style=style))
        self._console.print(self._lines[-1], soft_wrap=True)

    def show(self, state: str, moment: Moment, counts: dict[str, int]) -> None:
        """The tables as they are now."""
        line = reader_line(counts)
        if self._live:
            self._live.update(view(state, moment, counts))
        elif time.monotonic() - self._said >= PLAIN_LINE_S:
            self._said = time.monotonic()
            shown = f"epoch {moment.epoch}, {moment.events:,} events used" if moment.epoch else "starting"
            self._console.print(Text(self._stamped(f"{state}: {shown}; reader: {line}")), soft_wrap=True)

    def picture(self, file: Path, seen: Group) -> None:
        """Everything that was said, with the tables as they were seen, as an SVG."""
        console = Console(record=True, width=104, file=io.StringIO(), force_terminal=True, highlight=False)
        for line in self._lines:
            if "look around" not in line.plain:
                console.print(line, soft_wrap=True)
        console.print(seen)
        # The font stays the reader's own: a picture in a README fetches nothing.
        file.write_text(re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL))


def reader_line(counts: dict[str, int]) -> str:
    """What the reader has to say.

    >>> reader_line({"reads": 4812, "broken": 0})
    'closes <= opens: 4,812 reads, 0 broken'
    """
    return f"closes <= opens: {counts.get('reads', 0):,} reads, {counts.get('broken', 0):,} broken"


def view(state: str, moment: Moment, counts: dict[str, int]) -> Group:
    """The tables, under what the app says of itself, above what the reader says."""
    return Group(Text(), _heading(state, moment), _tables(moment), _verdict(counts))


def _heading(state: str, moment: Moment) -> Text:
    return Text(f"{state} · generation {moment.generation} · epoch {moment.epoch} · {moment.events:,} events used", style="bold")


def _verdict(counts: dict[str, int]) -> Text:
    return Text(f"reader, another process: {reader_line(counts)}", style="bold red" if counts.get("broken") else "bold green")


def _tables(moment: Moment) -> Table:
    hours = Table("action", "hour", title="actions_per_hour", title_justify="left")
    hours.add_column("count(1)", justify="right", min_width=8)
    for action, start, n in moment.hours:
        hours.add_row(action, str(start)[:16], f"{n:,}")
    phones = Table("phone_id", title="opens_and_closes", title_justify="left")
    phones.add_column("opens", justify="right", min_width=6)
    phones.add_column("closes", justify="right", min_width=6)
    for phone, opens, closes in moment.phones:
        phones.add_row(phone, f"{opens:,}", f"{closes:,}")
    both = Table.grid(padding=(0, 3))
    both.add_row(hours, phones)
    return both


class Demo:
    """The story, from the first event to the verdict."""

    def __init__(self, data: Path, screen: Screen, *, seconds: float | None, rate: int) -> None:
        self.data, self.screen, self.seconds, self.rate = data, screen, seconds, rate
        self.place = Place.of("phone_actions", data)
        self.window = Window(self.place.store)
        self.children: list[Child] = []
        self.at_work: set[Child] = set()
        self.app: Child | None = None
        self.reader: Child | None = None
        self.phones: Child | None = None
        self.asked_to_end = threading.Event()
        self._began = time.monotonic()

    # --- the story

    def play(self) -> bool:
        """Run until the time is over or somebody presses Ctrl-C; whether no promise was broken."""
        self.screen.say("starting the phones, a reader, and the app (Spark takes a few seconds)")
        self.phones = self._start("phones", [sys.executable, "phones.py", "--rate", str(self.rate)], keep_last_line=True)
        self.reader = self._start("reader", [sys.executable, "reader.py", str(self.place.store)], keep_last_line=True)
        self.app = self._start_app()
        if self._watch_until(self._first_events, "the app's first epochs"):
            self.screen.say(f"the app is at work: pid {self.app.process.pid}, {self.rate:,} events per second come in", "green")
            self._work()
        return self._finish()

    def _work(self) -> None:
        """Watch, and kill the app in the middle; again and again where there is no end."""
        if self.seconds is None:
            while self._watch_for(KILL_EVERY_S) and self._kill_and_start_again():
                continue
        elif self._watch_for(max(2.0, self._left() / 2)) and self._kill_and_start_again():
            self._watch_for(self._left())

    def _kill_and_start_again(self) -> bool:
        """What the demo is about; False when somebody presses Ctrl-C before the app is back."""
        assert self.app is not None
        before = self.window.look()
        reads = self.reader.last.get("reads", 0) if self.reader else 0
        self.screen.say(f"kill -9 {self.app.process.pid}    (epoch {before.epoch}, the phones and the reader go on)", "bold red")
        self.at_work.discard(self.app)
        self.app.kill()
        at = time.monotonic()
        self.app = self._start_app()
        self.screen.say(f"headrace run           (pid {self.app.process.pid})", "yellow")
        if not self._watch_until(lambda: self.window.look().generation > before.generation, "the app to come back"):
            return False
        now, seconds = self.window.look(), time.monotonic() - at
        read = (self.reader.last.get("reads", 0) if self.reader else 0) - reads
        self.screen.say(
            f"back after {seconds:.1f} s: generation {now.generation} goes on with epoch {now.epoch}; {read:,} reads meanwhile",
            "green",
        )
        return True

    def _finish(self) -> bool:
        """Stop the phones, let the app take what is there, stop it, and ask verify."""
        assert self.phones is not None
        assert self.reader is not None
        assert self.app is not None
        appended = self._stop(self.phones).get("appended", 0)
        self.screen.say(f"the phones are stopped: {appended:,} events were appended")
        self.asked_to_end.clear()
        taken = self._watch_until(lambda: self.window.look().events >= appended, "the app to take every event")
        epoch = self.window.look().epoch
        if taken:
            self.screen.say(f"the app has taken all of them: epoch {epoch}")
        self._stop(self.app)
        counts = self._stop(self.reader)
        self.screen.say(
            f"the app is stopped; reader: {reader_line(counts)}", "bold red" if counts.get("broken") else "bold green"
        )
        good = taken and self._verified() and counts.get("reads", 0) > 0 and not counts.get("broken")
        if good:
            self.screen.say(f'look around: cd {HERE} && headrace query "SELECT * FROM opens_and_closes LIMIT 5"')
        return good

    def _verified(self) -> bool:
        self.screen.say("headrace verify")
        verify = self._start("verify", [*HEADRACE, "verify", "app.py"])
        verify.process.wait()
        self.screen.print(verify.log.read_text())
        return verify.process.returncode == 0

    # --- watching

    def _watch_for(self, seconds: float) -> bool:
        """Show the tables for a while; False when somebody presses Ctrl-C."""
        due = time.monotonic() + seconds
        return self._watch_until(lambda: time.monotonic() >= due, "the clock")

    def _watch_until(self, reached: Callable[[], bool], what: str) -> bool:
        """Show the tables until something is so; False when somebody presses Ctrl-C before."""
        due = time.monotonic() + PATIENCE_S
        while not reached():
            if self.asked_to_end.is_set():
                return False
            for child in self.at_work:
                if not child.alive:
                    raise Failed(f"{child.name} has ended by itself:\n{_tail(child.log)}")
            if time.monotonic() > due and not reached():
                raise Failed(f"waited {PATIENCE_S:g} s for {what}:\n{_tail(self.data / 'app.log')}")
            self._show()
            self.asked_to_end.wait(REFRESH_S)
        self._show()
        return True

    def _show(self) -> None:
        state = f"app pid {self.app.process.pid}" if self.app is not None else "app"
        self.screen.show(state, self.window.look(), self.reader.last if self.reader else {})

    def _first_events(self) -> bool:
        return self.window.look().events > 0

    def _left(self) -> float:
        return (self.seconds or 0.0) - (time.monotonic() - self._began)

    # --- processes

    def _start(self, name: str, command: list[str], *, keep_last_line: bool = False) -> Child:
        child = Child(name, command, self.data, keep_last_line=keep_last_line)
        self.children.append(child)
        self.at_work.add(child)
        return child

    def _stop(self, child: Child) -> dict[str, int]:
        self.at_work.discard(child)
        return child.stop()

    def _start_app(self) -> Child:
        return self._start("app", [*HEADRACE, "run", "app.py"])

    def close(self) -> None:
        """Leave nothing behind."""
        for child in self.children:
            child.end()


class Failed(Exception):
    """The demo cannot go on."""


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-12:])


@contextlib.contextmanager
def fresh_data() -> Iterator[Path]:
    """An empty data folder, one demo at a time. It stays when the demo is over, to be looked at, until the next one."""
    data = HERE / "headrace-data" / "demo"
    data.parent.mkdir(exist_ok=True)
    with (data.parent / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(f"another demo is running in {HERE}") from None
        if running(Place.of("phone_actions", data)):
            raise Failed(f"an app is running on {data}\n  try: headrace stop {HERE / 'app.py'}")
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        yield data


def main() -> int:
    """Play; 0 when verify found nothing and no read was broken."""
    parser = argparse.ArgumentParser(description="The phone actions app, killed and started again on screen.")
    parser.add_argument("--seconds", type=float, help="end after so many seconds; default: Ctrl-C")
    parser.add_argument("--rate", type=int, default=1000, help="events per second")
    parser.add_argument("--picture", type=Path, help="keep what was shown as an SVG")
    options = parser.parse_args()
    try:
        with fresh_data() as data:
            demo = Demo(data, Screen(Console(highlight=False)), seconds=options.seconds, rate=options.rate)
            code = play(demo)
            if options.picture and demo.app and demo.reader:
                shown = view(f"app pid {demo.app.process.pid}", demo.window.look(), demo.reader.last)
                demo.screen.picture(options.picture, shown)
            return code
    except Failed as problem:
        print(problem, file=sys.stderr)
        return 3


def play(demo: Demo) -> int:
    """Play a demo that Ctrl-C ends; 0 when everything was kept."""
    presses: list[int] = []

    def end(number: int, _: object) -> None:
        # The first Ctrl-C ends the story, the second one breaks it off.
        presses.append(number)
        demo.asked_to_end.set()
        if len(presses) > 1:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        with demo.screen:
            return 0 if demo.play() else 1
    except KeyboardInterrupt:
        return 130
    finally:
        demo.close()


if __name__ == "__main__":
    sys.exit(main())
