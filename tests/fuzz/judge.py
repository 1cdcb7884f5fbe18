"""Runs a case and says what came of it: equal, refused, failed alike, or a finding."""

from __future__ import annotations

import re
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F
from pyspark.sql.window import Window

import headrace as hr
from headrace import App
from headrace.batch import Answers
from headrace.definitions import AppDef
from headrace.errors import DefinitionError, FunctionFailed
from headrace.log.rows import RowReader
from headrace.log.topic import Topic
from headrace.runtime.protocol import CrashPoint
from headrace.schema import arrow_schema, encode_keys, parse_schema
from headrace.settings import Settings
from headrace.testing import Trial
from headrace.verify import VerifyReport
from tests.fuzz import python, rows
from tests.fuzz.apps import Made
from tests.fuzz.case import Case, Epoch

SETTINGS = Settings(spark_master="local[2]", spark_memory="1g")


@dataclass
class Verdict:
    """What came of a case; `finding` is None where all is well."""

    finding: str | None = None
    refused: dict[str, str] = field(default_factory=dict)
    tables: int = 0
    lanes: Counter[str] = field(default_factory=Counter)
    failed: str = ""

    @property
    def kind(self) -> str:
        """The finding without its values: what must stay the same while a case is made smaller."""
        text = (self.finding or "").splitlines()
        return re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "#", text[0])[:60] if text else ""


def app_of(case: Case, folder: Path, tables: tuple[Made, ...] | None = None) -> AppDef:
    """The case's app, perhaps edited."""
    app = App("fuzz")
    by = ("k",) if case.by_key else ()
    for name, schema in rows.SCHEMAS.items():
        app.topic(name, schema, partitions=case.partitions, partition_by=by)
    app.reference("r", folder / "r.parquet")
    for table in case.tables if tables is None else tables:
        on_error = "reject" if table.rejects else "stop"
        if table.text.startswith("lambda"):
            names = {"F": F, "Window": Window, "hr": hr, "python": python}
            app.table(eval(table.text, names), key=table.key, name=table.name, on_error=on_error)
        else:
            app.sql(table.name, table.text, key=table.key, on_error=on_error)
    return app.definition()


def judge(case: Case) -> Verdict:
    """Run the case."""
    verdict = Verdict()
    with tempfile.TemporaryDirectory(prefix="headrace-fuzz-") as name:
        folder = Path(name)
        schema = arrow_schema(parse_schema(rows.R))
        pq.write_table(pa.Table.from_pylist(list(case.reference), schema=schema), folder / "r.parquet")
        trial = None
        try:
            trial, case = _opened(case, folder, verdict)
            if trial is not None:
                _epochs(trial, case, verdict, folder)
        except Exception:
            verdict.finding = f"{_last(_trace())}\n{_trace()}"
        finally:
            if trial is not None:
                trial.abandon()
    return verdict


def _trace() -> str:
    """The trace without the JVM's frames and those of libraries."""
    lines = [
        line
        for line in traceback.format_exc().splitlines()
        if not line.startswith("\tat ") and not set(line.strip()) <= set("^~")
    ]
    return "\n".join(line[:1500] for line in lines)


def _last(text: str) -> str:
    return text.strip().splitlines()[-1]


def _opened(case: Case, folder: Path, verdict: Verdict) -> tuple[Trial | None, Case]:
    """A trial of what is left when refused tables are taken out."""
    while case.tables:
        verdict.tables = len(case.tables)
        try:
            return Trial(app_of(case, folder), folder / f"data{len(case.tables)}", settings=SETTINGS), case
        except DefinitionError as error:
            found = re.search(r'table "(t\d+)"', error.message)
            if found is None:
                raise
            verdict.refused[found.group(1)] = error.render()
            if "INTERNAL" in str(error.__cause__) or "missing from" in error.render():
                verdict.finding = f"our own surgery breaks: {error.render()}\n{_trace()}"
                return None, case
            case = case.without([found.group(1)])
    verdict.tables = 0
    return None, case


def _epochs(trial: Trial, case: Case, verdict: Verdict, folder: Path) -> None:
    verdict.lanes.update(
        planned.plan.lane + ("!" if planned.plan.whole else "") for planned in trial.engine.workshop.tables.values()
    )
    tables = case.tables
    for number, epoch in enumerate(case.epochs):
        if epoch.restart or epoch.edited is not None:
            tables = tables if epoch.edited is None else epoch.edited
            if not _restarted(trial, app_of(case, folder, tables), verdict):
                return
        _append(trial, case, number, epoch)
        crash = CrashPoint.parse(epoch.crash) if epoch.crash else None
        try:
            trial.epoch(gear=epoch.gear, crash=crash)  # type: ignore[arg-type]
        except FunctionFailed as error:
            verdict.failed = error.render()
            if not _batch_fails(trial):
                verdict.finding = f"live fails, batch does not: {error.message}\n{error.render()}\n{_trace()}"
            return
        if epoch.verify and _differs(trial, verdict):
            return
    _differs(trial, verdict)


def _restarted(trial: Trial, app: AppDef, verdict: Verdict) -> bool:
    """Begin another generation; False where the edited app is refused, or fails over rows that there are already."""
    try:
        trial.restart(app)
    except DefinitionError as error:
        verdict.refused["edited"] = error.render()
        return False
    except FunctionFailed as error:
        verdict.failed = error.render()
        return False
    return True


def _append(trial: Trial, case: Case, number: int, epoch: Epoch) -> None:
    """The rows and the malformed lines of an epoch."""
    size = {"segment_bytes": 1} if case.sealed else {}
    for name, ddl in rows.SCHEMAS.items():
        schema = parse_schema(ddl)
        some = [row for topic, row in epoch.rows if topic == name]
        lines = b"\n".join(line for topic, line in epoch.malformed if topic == name)
        topic = Topic.open(trial.place.topic(name), clock=trial.clock, **size)
        producer = topic.producer("fuzz")
        if some:
            producer.append(pa.Table.from_pylist(some, schema=arrow_schema(schema)), sequence=2 * number)
        if lines:
            producer.append_parsed(RowReader(schema).json_lines(lines), sequence=2 * number + 1)
        topic.seal()


def _differs(trial: Trial, verdict: Verdict) -> bool:
    try:
        report = trial.verify()
    except FunctionFailed as error:
        verdict.finding = f"batch fails, live does not: {error.message}\n{error.render()}\n{_trace()}"
        return True
    if not report.ok:
        verdict.finding = _found(report)
    return not report.ok


def _found(report: VerifyReport) -> str:
    said = list(report.findings)
    for table in report.tables:
        if table.different:
            said.append(f'table "{table.name}": {table.different} rows differ')
            said += [f"  key {d.key}: the table has {d.live}, batch {d.batch}" for d in table.first]
    return "\n".join(said)


def _batch_fails(trial: Trial) -> bool:
    """Whether the batch job over the same rows fails as well, or gives one key twice."""
    workshop = trial.engine.workshop
    prefix = {name: dict(enumerate(topic.ends())) for name, topic in workshop.topics.items()}
    try:
        with Answers(workshop, prefix) as answers:
            for name, planned in workshop.tables.items():
                key = planned.plan.key
                if key is not None:
                    keys = [k for chunk in answers.rows(name) for k in encode_keys(chunk, key)]
                    if len(set(keys)) < len(keys):
                        return True
    except FunctionFailed:
        return True
    return False
