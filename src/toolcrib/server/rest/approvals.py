"""What people decide, over REST: what may be called, tools in quarantine, and questions that wait for an answer.

``GET /api/v1/approvals?wait=30`` lists what waits, or waits for something to arrive. ``POST /api/v1/approvals/ID``
with ``{"answer": "once"}`` answers. Both need a token: whoever asked can never be the one who answers.
"""

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.calls.approvals import ApprovalReply
from toolcrib.calls.forms import fill_in
from toolcrib.catalog.pins import NO_TRUST, FieldTrust
from toolcrib.core.access import may_approve
from toolcrib.core.errors import InvalidArguments, PermissionDenied
from toolcrib.core.kinds import Policy
from toolcrib.server.answers import HttpAnswer, HttpProblem, conflict, forbidden, json_answer, not_found, unfit
from toolcrib.server.rest.about import ROOT, About, Param, RestResource
from toolcrib.server.views.calls import Answered, KeptAnswers, QuestionList
from toolcrib.server.views.tools import Approved, PinList, Policies, PolicyView
from toolcrib.server.visit import PageRequest

POLICIES = RestResource(
    "policies",
    "What may be called, what is asked about, what is refused.",
    {"pattern": "a tool, a server, or a pattern such as `*__delete_*`"},
)
LONGEST = 200
_SIGNS = "_-.*?[]!:/{}+~%#="


class PolicyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do about calls."""

    policy: Policy


@POLICIES.route("GET", "/policies", About("List the policies", Policies, problems=(403,)))
async def _list_policies(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    security = visit.served.project.config.security
    return json_answer(Policies(security.policy, dict(security.policies), visit.view.policies()))


@POLICIES.route("GET", "/policies/{pattern}", About("Show a policy", PolicyView, problems=(403, 404)))
async def _show_policy(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    found = _policy(visit)
    if not found.tools and found.policy is None:
        raise not_found("policy", found.pattern, "GET /api/v1/policies lists what holds.")
    return json_answer(found)


@POLICIES.route(
    "PUT",
    "/policies/{pattern}",
    About(
        "Set a policy",
        PolicyView,
        "A tool, a server, or a pattern such as `*__delete_*`; of several that fit the most careful counts. The answer"
        " shows what holds then: something stronger may say otherwise.",
        body=PolicyBody,
        example={"policy": "ask"},
        problems=(403, 415, 422),
    ),
)
async def _set_policy(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    pattern = visit.params["pattern"]
    if len(pattern) > LONGEST or not all(char in _SIGNS or (char.isascii() and char.isalnum()) for char in pattern):
        raise unfit(f"A pattern has letters, digits and {' '.join(_SIGNS)}, at most {LONGEST} of them.")
    await visit.view.set_policy(visit.json(PolicyBody).policy, pattern)
    return json_answer(_policy(visit))


def _policy(visit: PageRequest) -> PolicyView:
    pattern, written = visit.params["pattern"], visit.served.project.config.security.policies
    tools = [
        entry
        for entry in visit.view.policies()
        if pattern in (entry.name, entry.server) or fnmatchcase(entry.name, pattern)
    ]
    return PolicyView(pattern, written.get(pattern, written.get(f"{pattern}__*")), tools)


PINS = RestResource(
    "pins",
    "What is in quarantine because it changed.",
    {"name": "`name` as `GET /pins` shows it: that of a tool, or `prompt NAME`, `resource NAME`, `template NAME`"},
)


FIELDS_MAX = 20


class ApprovalBody(msgspec.Struct, forbid_unknown_fields=True):
    """What was looked at."""

    seen: Annotated[str, Meta(pattern="^[0-9a-f]{12,64}$")]
    """``seen``, as ``GET /pins`` shows it."""
    trust: Annotated[tuple[str, ...], Meta(max_length=FIELDS_MAX)] = ()
    """Fields of the definition whose changes shall not count any more."""
    distrust: Annotated[tuple[str, ...], Meta(max_length=FIELDS_MAX)] = ()
    """Fields that were trusted, and whose changes shall count again."""


@PINS.route("GET", "/pins", About("List what is in quarantine", PinList, problems=(403,)))
async def _list_pins(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return json_answer(PinList([visit.view.change(route) for route in visit.view.held()]))


@PINS.route(
    "POST",
    "/pins/{name}/approve",
    About(
        "Accept what is in quarantine as it is now",
        Approved,
        "`seen` says what was looked at: if it changed again since, nothing is accepted (409).",
        body=ApprovalBody,
        example={"seen": "9f86d081884c"},
        problems=(403, 404, 409, 415, 422),
    ),
)
async def _approve(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name, body = visit.params["name"], visit.json(ApprovalBody)
    trust = FieldTrust(body.trust, body.distrust)
    return json_answer(Approved(await accept_offer(visit, name, body.seen, "GET /api/v1/pins lists them.", trust)))


async def accept_offer(visit: PageRequest, name: str, seen: str, hint: str, trust: FieldTrust = NO_TRUST) -> list[str]:
    """Accept what is in quarantine as it is now, if that is what was looked at; where only the trust in its fields is
    to change, it need not be in quarantine."""
    view = visit.view
    route = view.named(name)
    if route is None or not (route.held or (trust != NO_TRUST and route.server)):
        raise not_found("tool in quarantine", name, hint)
    held = route
    try:
        return await view.accept(route.reach.key, lambda: view.check_seen(held, seen), trust)
    except PermissionDenied as error:
        raise conflict(str(error)) from None
    except InvalidArguments as error:
        raise unfit(str(error)) from None


APPROVALS = RestResource(
    "approvals",
    "Questions for people, and their answers.",
    {"tool": "the name of a tool", "caller": "the id of a caller"},
)
PATH = f"{ROOT}/approvals"
LONGEST_WAIT_S = 60.0


class ReplyBody(msgspec.Struct, forbid_unknown_fields=True):
    """An answer to one question."""

    answer: ApprovalReply
    """Of a server's form: ``once`` sends it, ``no`` declines."""
    content: dict[str, Any] = {}
    """What a server's form is filled in with."""


@APPROVALS.route(
    "GET",
    "/approvals",
    About(
        "List the questions that wait",
        QuestionList,
        params=(
            Param(
                "wait",
                f"seconds to wait for something to arrive, up to {LONGEST_WAIT_S:g}",
                {"type": "number", "minimum": 0, "default": 0},
            ),
        ),
        problems=(403, 422),
    ),
)
async def _list_questions(visit: PageRequest) -> HttpAnswer:
    visit.need_approver()
    return json_answer(QuestionList(await visit.view.questions(_wait_s(visit))))


def _wait_s(visit: PageRequest) -> float:
    try:
        wait_s = float(visit.query.get("wait", "0"))
    except ValueError:
        wait_s = math.nan
    if not wait_s >= 0:
        raise unfit("`wait` must be a number of seconds.")
    return min(LONGEST_WAIT_S, wait_s)


@APPROVALS.route(
    "POST",
    "/approvals/{id}",
    About(
        "Answer a question",
        Answered,
        "Whoever asked cannot answer. A question with a `form` is a server's: `content` fills it in.",
        body=ReplyBody,
        example={"answer": "once"},
        problems=(403, 404, 409, 415, 422),
    ),
)
async def _answer(visit: PageRequest) -> HttpAnswer:
    visit.need_approver()
    body = visit.json(ReplyBody)
    await answer_question(visit, body.answer, body.content)
    return json_answer(Answered(visit.params["id"], body.answer))


async def answer_question(visit: PageRequest, reply: ApprovalReply, given: Mapping[str, Any]) -> None:
    """Answer the question an address names, as far as the visitor may; a form that is not filled in well still
    waits."""
    found = visit.view.question(visit.params["id"])
    if found is None:
        raise HttpProblem(404, "RESOURCE_NOT_FOUND", "No such question waits for an answer (any more).")
    if not may_approve(visit.caller, found.question.caller):
        raise forbidden("Whoever asked cannot answer: use another token.")
    form, content = found.question.form, None
    if form is not None and reply is not ApprovalReply.NO:
        content, problems = fill_in(form, given)
        if problems:
            raise unfit(" ".join(problems))
    if not await visit.view.answer(visit.params["id"], reply, content):
        raise conflict("Somebody else answered first.")


@APPROVALS.route("GET", "/approvals/answers", About("List the answers that are kept", KeptAnswers, problems=(403,)))
async def _list_answers(visit: PageRequest) -> HttpAnswer:
    visit.need_approver()
    return json_answer(KeptAnswers(await visit.served.project.answers()))


@APPROVALS.route(
    "DELETE",
    "/approvals/answers/{tool}/{caller}",
    About(
        "Forget a kept answer", detail="The person is asked again at the next call.", status=204, problems=(403, 404)
    ),
)
async def _forget(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    tool = visit.params["tool"]
    if not await visit.view.forget_answer(tool, visit.params["caller"]):
        raise not_found("kept answer for", tool, "GET /api/v1/approvals/answers lists them.")
    return HttpAnswer(204)
