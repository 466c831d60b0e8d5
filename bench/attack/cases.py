"""What a case is, and how its outcome is judged."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from bench.attack.target import Target
from bench.attack.wire import Hung, Reply

Finding = str
"""What went wrong, in a line; empty when the attack was held."""
Case = Callable[[Target], Awaitable[Finding]]
Family = Callable[[Target, random.Random, int], Iterator[Case]]


@dataclass
class Tally:
    """How many cases of each family were tried, and what they found."""

    tried: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, str, Finding]] = field(default_factory=list)
    """Family, kind (``hang``, ``crash``, ``leak``, ``passed``) and what happened."""

    def note(self, family: str, finding: Finding) -> None:
        """Count a case."""
        self.tried[family] += 1
        if finding:
            kind, _, words = finding.partition(": ")
            self.findings.append((family, kind, words))

    def count(self, kind: str) -> int:
        """How often something of a kind was found."""
        return sum(found == kind for _, found, _ in self.findings)


def judge(target: Target, reply: Reply, *, refused: bool = False) -> Finding:
    """What every answer must satisfy; where ``refused``, that it is no success either."""
    for word in target.forbidden():
        if word in reply.raw:
            return f"leak: {word!r} in {reply.raw[:120]!r}"
    if reply.status >= 500 and reply.status not in (501, 503, 504, 505):
        return f"crash: {reply.status} {reply.body[:160]!r}"
    document = reply.document
    if isinstance(document, dict) and "TOOL_INTERNAL" in str(document.get("result", document.get("error", ""))):
        return f"crash: {reply.body[:200]!r}"
    if refused and reply.status == 200 and is_success(reply):
        return f"passed: {reply.body[:200]!r}"
    return ""


def is_success(reply: Reply) -> bool:
    """Whether an MCP answer is a result that is no error; any other answer with status 200 is one."""
    document = reply.document
    if not isinstance(document, dict):
        return True
    if "error" in document:
        return False
    result = document.get("result", document)
    return not (isinstance(result, dict) and result.get("isError"))


async def run_family(name: str, cases: Iterator[Case], target: Target, tally: Tally, at_once: int) -> None:
    """Try every case, some at a time."""
    waiting = iter(cases)

    async def work() -> None:
        for case in waiting:
            try:
                tally.note(name, await case(target))
            except Hung as hung:
                tally.note(name, f"hang: {hung}")

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
