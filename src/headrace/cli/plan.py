"""headrace plan"""

from __future__ import annotations

from headrace.cli import logs, output
from headrace.cli.loading import load
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.progress import steps
from headrace.cli.target import split

NAME = "plan"


def command(app: AppArgument = None, data: Data = None, store: StoreAt = None, json: Json = False, debug: Debug = False) -> None:
    """How each table is kept up to date and why, and what an epoch costs. Reads no rows.

    \b
    Example:
      headrace plan
    """
    loaded = load(split(app or [])[0], given(data=data, store=store, debug=debug))
    logs.set_up(json=json, debug=loaded.settings.debug)
    from headrace.runtime.planning import plan_app  # starts Spark's Python side, which light commands need not wait for

    with steps("looking at the functions"):
        plans = plan_app(loaded.definition, loaded.place, loaded.settings)
    if json:
        tables = [{"name": p.name, "lane": p.lane, "lines": list(p.lines), "warnings": list(p.warnings)} for p in plans]
        output.answer({"tables": tables}, app=loaded.app.name)
        return
    for number, plan in enumerate(plans):
        if number:
            output.say("")
        because, *rest = plan.lines
        output.say(f"{plan.name}: {plan.lane}, {because}")
        for text in rest:
            output.say(f"  {text}")
        for warning in plan.warnings:
            output.say(f"  warning: {warning}")
