"""A blip stays a blip: the app is killed with -9 under load; how long until it is as fresh as before?

python -m bench blip
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from bench.bench import Bench, Options
from bench.contenders import Headrace
from bench.events import KEYS
from bench.picture import Curve, Mark, draw
from bench.processes import answer as answer_of
from bench.processes import ending, kill, run_app, start
from bench.results import Result
from bench.traffic import BATCH, PER_SECOND, Probe, durable_file

WINDOW_S = 5
"""Freshness is judged over the appends of so many seconds."""

BACK = "blip: kill -9 at 10,000 events/s until freshness p99 is back at its value of before"
BEHIND = "blip: the oldest an append ever got, kill -9 at 10,000 events/s"


def p99_after(late_ms: np.ndarray, second: float) -> float:
    """The 99th percentile over the appends of the window that begins at this second."""
    first = int(second * PER_SECOND)
    return float(np.percentile(late_ms[first : first + WINDOW_S * PER_SECOND], 99))


def seconds_until_back(late_ms: np.ndarray, killed_s: float, before_ms: float) -> float | None:
    """How long after the kill the first window began that is no worse than before; None if none was."""
    last = len(late_ms) / PER_SECOND - WINDOW_S
    for second in np.arange(killed_s, last, 1 / PER_SECOND):
        if p99_after(late_ms, second) <= before_ms:
            return round(float(second - killed_s), 2)
    return None


def answer(options: Options) -> list[Result]:
    """Warm up, measure, kill, start again at once, and look until the end."""
    warm, before, after = (10, 10, 30) if options.quick else (60, 30, 150)
    appends = (warm + before + after) * PER_SECOND
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        contender = Headrace(Path(name) / "headrace", list(KEYS))
        contender.folder.mkdir()
        durable_file(contender.folder, appends, "w+")
        with ending(contender.begin()) as process:
            probe = Probe(contender.database, contender.tables)
            sender = start("bench.traffic:produce", folder=str(contender.folder), appends=appends, topic=str(contender.topic))
            with ending(sender):
                durable = durable_file(contender.folder, appends)
                mine = (warm + before) * PER_SECOND
                probe.until(appends * BATCH, waiting=lambda: not durable[mine] and process.poll() is None)
                killed = time.monotonic()
                kill(process)
                options.say("killed with -9; starting again")
                with ending(run_app(contender.folder)) as again:
                    ends = time.monotonic() + after + 120
                    alive = lambda: again.poll() is None and time.monotonic() < ends  # noqa: E731
                    probe.until(appends * BATCH, waiting=alive)
                answer_of(sender)
        durable_at = np.array(durable)
    late = probe.latencies_ms(durable_at)
    if not np.isfinite(late).all():
        raise RuntimeError("not every row came back")
    wrong = probe.wrong(appends * BATCH, contender.tables)
    if wrong:
        raise RuntimeError(f"{wrong} do not hold what was sent")
    killed_s = killed - durable_at[0]
    # What was on its way when the app died belongs to the blip.
    before_kill = slice(warm * PER_SECOND, mine)
    arrived = late[before_kill][durable_at[before_kill] + late[before_kill] / 1000 < killed]
    if not len(arrived):
        raise RuntimeError("nothing arrived between the warm-up and the kill: the machine is too busy to tell")
    usual = float(np.percentile(arrived, 99))
    back = seconds_until_back(late, killed_s, usual)
    oldest = round(float(late[mine - PER_SECOND :].max() / 1000), 2)
    options.say(f"p99 before {usual:,.0f} ms; the oldest append was {oldest} s late; back after {back} s")
    if options.pictures:
        (options.pictures / "benchmarks-blip.svg").write_text(_picture(late, killed_s, usual, back))
    return [Result(BACK, "s", back), Result(BEHIND, "s", oldest)]


def _picture(late_ms: np.ndarray, killed_s: float, usual_ms: float, back: float | None) -> str:
    seconds = np.arange(len(late_ms)) / PER_SECOND
    whole = np.arange(0, len(late_ms) / PER_SECOND - WINDOW_S)
    marks = [Mark(killed_s, "kill -9")]
    if back is not None:
        marks.append(Mark(killed_s + back, f"back after {back:.0f} s"))
    return draw(
        "Freshness around kill -9, 10,000 events/s, five tables",
        [
            Curve("each append", list(zip(seconds, late_ms, strict=True)), dots=True),
            Curve(f"p99 of the next {WINDOW_S} s", [(s, p99_after(late_ms, s)) for s in whole]),
        ],
        marks=marks,
        level=Mark(usual_ms, "p99 before"),
        across="seconds",
        up="ms from durable to readable",
    )


STORY = """
The five tables of the freshness benchmark at 10,000 events/s: 60 s to warm up, 30 s for the value of before, then kill -9 to
the app's whole process group and `headrace run` at once, while the producer goes on. Back: p99 over the next five seconds is
no higher than p99 over the 30 s before the kill. The curve shows each append's freshness.
"""

BENCH = Bench("blip", (BACK, BEHIND), STORY, answer)
