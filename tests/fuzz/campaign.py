"""Many cases, and what came of them together."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.case import Case, case_of
from tests.fuzz.judge import judge
from tests.fuzz.shrink import shrink


@dataclass
class Campaign:
    """Runs cases by seed and counts."""

    tables: int = 5
    shrink_seconds: float = 120
    cases: int = 0
    made: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lanes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    findings: list[str] = field(default_factory=list)

    def run(self, seed: int) -> str | None:
        """One case; what it found, in its smallest form and with the command that runs it again."""
        case = case_of(seed, self.tables)
        verdict = judge(case)
        self.cases += 1
        self.made += len(case.tables)
        self.lanes.update(verdict.lanes)
        self.failed += bool(verdict.failed)
        for text in verdict.refused.values():
            said = re.sub(r"tests/fuzz/\S+|\[\w+\]|\d+", "", " ".join(text.split()))
            self.refused[re.sub(r'^.*?"t"', "", said).strip()[:160]] += 1
        if verdict.finding is None:
            return None
        kind = verdict.kind

        def fails(candidate: Case) -> bool:
            return judge(candidate).kind == kind

        small = shrink(case, fails, self.shrink_seconds) if self.shrink_seconds else case
        last = judge(small) if small is not case else verdict
        text = (
            f"=== python -m tests.fuzz --cases 1 --seed {seed} --tables {self.tables}\n{small.show()}\n"
            f"{(last.finding or verdict.finding)[-6000:]}"
        )
        self.findings.append(text)
        return text

    @property
    def refused_share(self) -> float:
        """How many of the tables the planner refused."""
        return sum(self.refused.values()) / max(self.made, 1)

    def summary(self) -> str:
        """One line, and why tables were refused."""
        lanes = ", ".join(f"{lane} {n}" for lane, n in sorted(self.lanes.items()))
        text = f"{self.cases} cases, {self.made} tables ({lanes}), refused {self.refused_share:.0%}, failed alike {self.failed}"
        text += f", findings {len(self.findings)}"
        return "\n".join([text, *(f"  {n} x {why}" for why, n in self.refused.most_common(8))])
