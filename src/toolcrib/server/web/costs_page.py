"""What the tools cost a model before it begins, what nobody uses of it, and leaving that out."""

import asyncio
from typing import Any

from toolcrib.core.kinds import Policy
from toolcrib.server.answers import HttpAnswer, unfit
from toolcrib.server.views.costs import DAYS, CostQuery, CostReport, cost_report, covered_days, span, usage_of
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.charts import Bar
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.tool_rows import chosen_tools, tool_address
from toolcrib.server.web.words import count, short
from toolcrib.stores.audit.log import ToolUsage

ROUTES = PageRoutes()
SHOWN = 50
PAIRS = 5


@ROUTES.get("/costs")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    view = visit.view
    usage = await asyncio.to_thread(usage_of, view.project.audit_log, DAYS)
    report = await asyncio.to_thread(cost_report, view.usable(), CostQuery(usage=usage, pairs=PAIRS))
    return pages.render(visit, "costs.html", report=report, **_values(report, usage))


def _values(report: CostReport, usage: ToolUsage | None) -> dict[str, Any]:
    unused = frozenset(report.usage.unused if report.usage is not None else ())
    idle = [tool for tool in report.tools if tool.name in unused]
    return {
        "bars": [Bar(one.name, one.tokens, _said(one.tokens, one.tools)) for one in report.servers],
        "idle": idle[:SHOWN],
        "idle_total": len(idle),
        "dearest": report.tools[:SHOWN],
        "address": tool_address,
        "over": span(usage, DAYS) if usage is not None else "",
        "is_telling": usage is not None and bool(usage.tools) and covered_days(usage, DAYS) >= 1,
    }


def _said(tokens: int, tools: int) -> str:
    return f"{short(tokens)} · {count(tools, 'tool')}"


@ROUTES.post("/costs/leave-out")
async def _leave_out(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    names = chosen_tools(visit)
    if not names:
        raise unfit("Choose at least one tool.")
    await visit.view.set_policy(Policy.DISABLE, *names)
    return go_on("/costs", "left_out", count(len(names), "tool"))
