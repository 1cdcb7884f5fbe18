"""What a benchmark found, and the two files in docs that say so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from bench.hardware import hardware

DOCS = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True)
class Result:
    """The answer to one question.

    `limit` is what the ratio has to keep, or the value where there is no baseline; None where a number is published only.
    """

    question: str
    unit: str
    value: float | None
    baseline: float | None = None
    limit: float | None = None
    better: Literal["less", "more"] = "less"

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the baseline's."""
        if self.value is None or not self.baseline:
            return None
        return round(self.value / self.baseline, 3)

    def as_entry(self) -> dict[str, Any]:
        """As docs/benchmarks.json lists it."""
        measured = self.value if self.baseline is None or self.judged_by_value else self.ratio
        return {
            "question": self.question,
            "unit": self.unit,
            "value": self.value,
            "baseline": self.baseline,
            "ratio": self.ratio,
            "target": self.target,
            "met": None if self.limit is None else measured is not None and self._keeps(measured),
            "hardware": hardware(),
            "date": datetime.now(timezone.utc).date().isoformat(),
        }

    judged_by_value: bool = False
    """Whether the limit is one of the value although there is a baseline."""

    @property
    def target(self) -> str | None:
        """The limit in words."""
        if self.limit is None:
            return None
        what = f"{self.limit:,.10g} {self.unit}" if self.baseline is None or self.judged_by_value else f"{self.limit:.3g} x"
        return f"{'<=' if self.better == 'less' else '>='} {what}"

    def _keeps(self, measured: float) -> bool:
        assert self.limit is not None
        return measured <= self.limit if self.better == "less" else measured >= self.limit


def publish(found: Sequence[Result], *, order: Sequence[str], folder: Path = DOCS) -> None:
    """Put these answers in place of older ones to the same questions, and write both files.

    `order` holds every question there is: answers to others are forgotten.
    """
    file = folder / "benchmarks.json"
    kept = {entry["question"]: entry for entry in (json.loads(file.read_text()) if file.exists() else [])}
    kept |= {result.question: result.as_entry() for result in found}
    entries = [kept[question] for question in order if question in kept]
    folder.mkdir(exist_ok=True)
    file.write_text(json.dumps(entries, indent=2) + "\n")
    (folder / "benchmarks.md").write_text(page(entries, sorted(folder.glob("benchmarks-*.svg"))))


def page(entries: Iterable[dict[str, Any]], pictures: Sequence[Path] = ()) -> str:
    """docs/benchmarks.md, from the entries of docs/benchmarks.json."""
    from bench.questions import BENCHES

    entries = list(entries)
    by_question = {entry["question"]: entry for entry in entries}
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; `make bench ONLY=name` measures one again. Every baseline ran in the same run, on the same",
        "machine; `docs/benchmarks.json` holds the same numbers for machines.",
        "",
    ]
    for bench in BENCHES:
        here = [by_question[question] for question in bench.questions if question in by_question]
        if not here:
            continue
        lines += [f"## {bench.name}", "", *bench.story.strip().splitlines(), ""]
        lines += ["| question | value | baseline | ratio | target | met |", "|---|---:|---:|---:|---:|---|"]
        lines += [_row(entry) for entry in here]
        lines += ["", f"{here[0]['date']}, {here[0]['hardware']}", ""]
        lines += [line for p in pictures if p.stem == f"benchmarks-{bench.name}" for line in (f"![{bench.name}]({p.name})", "")]
    return "\n".join(lines).rstrip() + "\n"


def _row(entry: dict[str, Any]) -> str:
    met = {True: "yes", False: "**no**", None: ""}[entry["met"]]
    value, baseline = (_number(entry[name], entry["unit"]) for name in ("value", "baseline"))
    ratio = "" if entry["ratio"] is None else f"{entry['ratio']:.2f}"
    return f"| {entry['question']} | {value} | {baseline} | {ratio} | {entry['target'] or ''} | {met} |"


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.10g} {unit}"
