"""`python -m bench [NAME...]`: measure, print, and write docs/benchmarks.md and docs/benchmarks.json."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from bench.bench import Options
from bench.questions import BENCHES
from bench.results import DOCS, Result, publish


def main() -> None:
    """Run what was asked for."""
    names = [bench.name for bench in BENCHES]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and publish into docs/benchmarks.*")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(names)}; default: all")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; publishes nothing")
    parser.add_argument("--folder", type=Path, help="where to put data, on the disk to measure; default: a temporary folder")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(names))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(names)}")
    options = Options(chosen.quick, chosen.folder, None if chosen.quick else DOCS)
    order = [question for bench in BENCHES for question in bench.questions]
    for bench in BENCHES:
        if chosen.names and bench.name not in chosen.names:
            continue
        options.say(f"{bench.name} ...")
        found = bench.answer(dataclasses.replace(options))
        for result in found:
            _show(result)
        # Each is published as soon as it is known: whoever interrupts the rest keeps what was measured.
        if not chosen.quick:
            publish(found, order=order)


def _show(result: Result) -> None:
    entry = result.as_entry()
    print(json.dumps({name: entry[name] for name in ("question", "unit", "value", "baseline", "ratio", "target", "met")}))


if __name__ == "__main__":
    main()
