"""Permit: who may not reach a tool gets no further, and learns no more than that."""

import shlex
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import EVERYTHING, Decision, Grants, Reach, decide
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.kinds import IsolationLevel, Ruling
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Request, Result
from toolcrib.isolate.levels import shortfall

GRANTS_KEPT = 256


def permit() -> Layer:
    """Refuse what the one rule of ``core.access`` does not let through; the rule is asked once per tool and grants."""

    def layer(subject: Subject, following: Step) -> Step:
        reach = subject.reach
        decided = lru_cache(GRANTS_KEPT)(partial(_decide, reach))
        usual = _decide(reach, EVERYTHING)

        def step(call: Request) -> Awaitable[Result]:
            grants = call.caller.grants
            decision, call.context.decision = usual if grants is EVERYTHING else decided(grants)
            if decision is not Decision.ALLOWED and not decision.is_listed:
                raise refuse(decision, reach)
            return following(call)

        return step

    return layer


def _decide(reach: Reach, grants: Grants) -> tuple[Decision, str]:
    """The decision, and its plain word: that is written down for every call, and quicker than a member of an enum."""
    decision = decide(grants, reach)
    return decision, str(decision)


def not_open() -> PermissionDenied:
    """The answer to a caller who may not know of a tool; the same whether there is one or not."""
    return PermissionDenied(
        "There is no tool of that name, or it is not open to this caller.",
        hint="List the tools to see what is open; whoever issued the token can widen it.",
    )


def refuse(decision: Decision, reach: Reach) -> PermissionDenied:
    """Why a call goes no further, in words for whoever may know."""
    if decision is Decision.HIDDEN:
        return not_open()
    if decision is Decision.HELD:
        named = shlex.quote(reach.key)
        return PermissionDenied(
            f"{reach.name} is in quarantine: {reach.held}.",
            hint=f"A person must look at it (`toolcrib diff {named}`) and accept it (`toolcrib approve {named}`).",
        )
    return PermissionDenied(
        f"{reach.name} is denied by the configuration.",
        hint=f"A person can allow it: `toolcrib policy {shlex.quote(reach.name)} allow`.",
    )


IsolationOf = Callable[[Subject], Awaitable[IsolationLevel | None]]
"""What a tool runs at; ``None`` for one that does not run on this machine."""


def shelter(minimum: Mapping[SecurityLevel, IsolationLevel], isolation_of: IsolationOf) -> Layer:
    """Refuse what would run with less isolation than its level needs."""

    def layer(subject: Subject, following: Step) -> Step:
        level = subject.offer.security_level
        if level not in minimum:
            return following

        async def step(call: Request) -> Result:
            has = await isolation_of(subject)
            lack = "" if has is None else shortfall(level, has, minimum)
            if lack:
                call.context.decision = Ruling.NOT_ISOLATED
                raise PermissionDenied(f"{call.name} was not run. {lack}")
            return await following(call)

        return step

    return layer
