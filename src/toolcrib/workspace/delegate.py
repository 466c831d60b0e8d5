"""Sending a sub-agent on an errand: with some of its caller's own tools, a budget, and a trace of what it did."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from toolcrib.core.access import matches
from toolcrib.core.errors import InvalidArguments, NotImplementedHere, PermissionDenied, RateLimited, ToolFailed
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import Budget, Request, Result, SubAgentReport, SubAgents, SubAgentTask, Tooling, UsedTool
from toolcrib.workspace.files import said

DELEGATE = "delegate"
_SHOWN = 500


class Satchel:
    """The tools one sub-agent took along; counts what it uses."""

    def __init__(self, tooling: Tooling, call: Request, tools: Sequence[Tool], calls: int) -> None:
        self._tooling, self._call, self._left = tooling, call, calls
        self.tools = tools
        self._names = frozenset(tool.name for tool in tools)
        self.used: list[UsedTool] = []

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Result:
        """Use a tool as the caller who sent the sub-agent; never more than that caller may."""
        began = time.monotonic()
        result = await self._run(name, arguments)
        took_ms = round((time.monotonic() - began) * 1000)
        text = result.error.message if result.error else result.text
        self.used.append(UsedTool(name, dict(arguments), result.success, text[:_SHOWN], took_ms))
        return result

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> Result:
        if name not in self._names:
            return Result.failed(PermissionDenied(f"{name!r} is not among the tools of this errand."))
        if self._left <= 0:
            return Result.failed(RateLimited("The errand's calls are used up.", hint="Answer with what you have."))
        self._left -= 1
        return await self._tooling.call(name, arguments, caller=self._call.caller, channel=self._call.channel)


class DelegateTool:
    """``delegate``: runs errands, if there is somebody to run them."""

    def __init__(self, tooling: Callable[[], Tooling | None], agents: SubAgents | None) -> None:
        self._tooling, self._agents = tooling, agents

    async def delegate(self, call: Request, **given: Any) -> Result:
        """Send a sub-agent and wait for it."""
        tooling = call.context.tooling or self._tooling()
        if self._agents is None or tooling is None:
            raise NotImplementedHere(
                "There is no model here that a sub-agent could think with.",
                hint="Set [model] in the configuration, or do the work yourself with the other tools.",
            )
        budget = Budget(**given.get("budget") or {})
        satchel = Satchel(tooling, call, await _choose(tooling, call, given.get("tools")), budget.calls)
        errand = SubAgentTask(given["task"], given.get("context", ""), budget)
        began = time.monotonic()
        report = await _send(self._agents, errand, satchel)
        return _told(report, satchel, time.monotonic() - began)


async def _send(agents: SubAgents, errand: SubAgentTask, satchel: Satchel) -> SubAgentReport:
    try:
        async with asyncio.timeout(errand.budget.seconds):
            return await agents.run(errand, satchel)
    except TimeoutError:
        raise ToolFailed(
            f"The sub-agent did not come back within {errand.budget.seconds:g} s.",
            hint="Give it less to do, or more time.",
            details={"trace": [asdict(used) for used in satchel.used]},
        ) from None


async def _choose(tooling: Tooling, call: Request, patterns: Sequence[str] | None) -> list[Tool]:
    """What the sub-agent may use: nothing but reading unless its tools are named, and no sub-agents of its own."""
    offered = [tool for tool in await tooling.tools(caller=call.caller) if tool.name != call.name]
    if patterns is None:
        return [tool for tool in offered if tool.security_level is SecurityLevel.READ_ONLY]
    for pattern in patterns:
        if not any(matches(tool.name, (pattern,)) for tool in offered):
            raise InvalidArguments(f"No tool that you could lend fits {pattern!r}.", hint="Name tools you can use.")
    return [tool for tool in offered if matches(tool.name, tuple(patterns))]


def _told(report: SubAgentReport, satchel: Satchel, took_s: float) -> Result:
    trace = [asdict(used) for used in satchel.used]
    spent = {**asdict(report.spent), "calls": len(trace), "seconds": round(took_s, 3)}
    data = {"answer": report.answer, "complete": report.is_complete, "spent": spent, "model": report.model}
    note = "" if report.is_complete else "\n(its budget ran out before it was done)"
    return said(f"{report.answer}{note}", data | {"trace": trace})
