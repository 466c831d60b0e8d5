"""Policies over REST: what may be called, what is asked about, what is refused."""

from fnmatch import fnmatchcase

import msgspec

from toolcrib.core.audit import AuditEntry
from toolcrib.doors.http.answers import Answer, Problem, json_answer, not_found
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About
from toolcrib.doors.rest.shapes import Policies, PolicyView, PolicyWord
from toolcrib.doors.views.tools import policy_entries

PATH = "/api/v1/policies"
LONGEST = 200
_SIGNS = "_-.*?[]!"


class PolicyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do about calls."""

    policy: PolicyWord


def policy_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of the policies."""

    async def ls(visit: Visit) -> Answer:
        visit.need_operator()
        security = premises.project.config.security
        tools = policy_entries(premises.crib)
        return json_answer({"default": security.policy, "patterns": dict(security.policies), "tools": tools})

    async def show(visit: Visit) -> Answer:
        visit.need_operator()
        found = _view(premises, visit.params["pattern"])
        if not found["tools"] and found["policy"] is None:
            raise not_found("policy", visit.params["pattern"], "GET /api/v1/policies lists what holds.")
        return json_answer(found)

    async def put(visit: Visit) -> Answer:
        visit.need_operator()
        pattern, policy = _checked(visit.params["pattern"]), visit.json(PolicyBody).policy
        caller = visit.caller
        await premises.crib.audit.commit(
            AuditEntry("policy", pattern, caller=caller.id, caller_kind=caller.kind, decision=policy)
        )
        await premises.project.set_policy(pattern, policy)
        return json_answer(_view(premises, pattern))

    shown = About("Show a policy", "policies", PolicyView, problems=(403, 404))
    return [
        RouteSpec("GET", PATH, ls, About("List the policies", "policies", Policies, problems=(403,))),
        RouteSpec("GET", f"{PATH}/{{pattern}}", show, shown),
        RouteSpec("PUT", f"{PATH}/{{pattern}}", put, SET),
    ]


SET = About(
    "Set a policy",
    "policies",
    PolicyView,
    "A tool, a server, or a pattern such as `*__delete_*`; of several that fit the most careful counts. The answer"
    " shows what holds then: something stronger may say otherwise.",
    body=PolicyBody,
    example={"policy": "ask"},
    problems=(403, 415, 422),
)


def _checked(pattern: str) -> str:
    if len(pattern) > LONGEST or not all(char in _SIGNS or (char.isascii() and char.isalnum()) for char in pattern):
        detail = f"A pattern has letters, digits and {' '.join(_SIGNS)}, at most {LONGEST} of them."
        raise Problem(422, "TOOL_INVALID_INPUT", detail)
    return pattern


def _view(premises: Premises, pattern: str) -> dict[str, object]:
    tools = [
        entry
        for entry in policy_entries(premises.crib)
        if pattern in (entry["name"], entry["server"]) or fnmatchcase(entry["name"], pattern)
    ]
    written = premises.project.config.security.policies
    return {"pattern": pattern, "policy": written.get(pattern, written.get(f"{pattern}__*")), "tools": tools}
