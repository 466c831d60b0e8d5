"""The quarantine over REST: what changed in tools, and accepting what was looked at."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolcrib.core.errors import PermissionDenied
from toolcrib.doors.http.answers import Answer, Problem, json_answer, not_found
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About
from toolcrib.doors.rest.shapes import Approved, PinList
from toolcrib.doors.views.tools import change_of, check_seen, diff_lines, held_routes

PATH = "/api/v1/pins"


class ApprovalBody(msgspec.Struct, forbid_unknown_fields=True):
    """What was looked at."""

    seen: Annotated[str, Meta(pattern="^[0-9a-f]{12,64}$")]
    """``seen`` of the tool, as ``GET /pins`` shows it."""


def pin_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of the quarantine."""

    async def ls(visit: Visit) -> Answer:
        visit.need_operator()
        changes = [change_of(premises.crib, route) for route in held_routes(premises.crib)]
        return json_answer({"pins": [_with_diff(change) for change in changes]})

    async def approve(visit: Visit) -> Answer:
        visit.need_operator()
        name, seen = visit.params["tool"], visit.json(ApprovalBody).seen
        route = next((route for route in held_routes(premises.crib) if route.name == name), None)
        if route is None:
            raise not_found("tool in quarantine", name, "GET /api/v1/pins lists them.")
        try:
            check_seen(premises.crib, route, seen)
            accepted = await premises.crib.servers.approve(
                name, by=visit.caller, still=lambda: check_seen(premises.crib, route, seen)
            )
        except PermissionDenied as error:
            raise Problem(409, "HTTP_CONFLICT", str(error)) from None
        return json_answer({"approved": accepted})

    about = About(
        "Accept a tool as it is now",
        "pins",
        Approved,
        "`seen` says what was looked at: if the tool changed again since, nothing is accepted (409).",
        body=ApprovalBody,
        example={"seen": "9f86d081884c"},
        problems=(403, 404, 409, 415, 422),
    )
    return [
        RouteSpec("GET", PATH, ls, About("List what is in quarantine", "pins", PinList, problems=(403,))),
        RouteSpec("POST", f"{PATH}/{{tool}}/approve", approve, about),
    ]


def _with_diff(change: dict[str, Any]) -> dict[str, Any]:
    return change | {"diff": list(diff_lines(change["old"], change["new"]))}
