"""What `headrace plan` says: how each table is kept, why, and what an epoch costs. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.definitions import AppDef
from headrace.place import Place
from headrace.plan.describe import describe
from headrace.runtime.generation import Workshop
from headrace.settings import Settings
from headrace.spark.session import start_sessions


@dataclass(frozen=True)
class TableReport:
    """One table's plan in words."""

    name: str
    lane: str
    lines: tuple[str, ...]
    warnings: tuple[str, ...]


def plan_app(app: AppDef, place: Place, settings: Settings) -> list[TableReport]:
    """Plan every table of an app."""
    sessions = start_sessions(
        master=settings.spark_master, memory=settings.spark_memory, timezone=app.timezone, scratch=place.tmp / "spark"
    )
    workshop = Workshop.open(app, place, settings, sessions)
    workshop.check_purity()
    return [
        TableReport(
            name, planned.plan.lane, tuple(describe(planned.plan)), (*planned.plan.warnings, *planned.plan.decided_by_double)
        )
        for name, planned in workshop.tables.items()
    ]
