"""New addresses that sign the owner in to the page, for whoever carries the owner's token."""

from toolcrib.core.access import OWNER_ID
from toolcrib.doors.http.answers import Answer, Problem, json_answer
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.sign_in import LINK_S
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About
from toolcrib.doors.rest.watch_shapes import SignInLink

PATH = "/api/v1/signin-links"


def sign_in_routes(premises: Premises) -> list[RouteSpec]:
    """The route that makes them."""

    async def make(visit: Visit) -> Answer:
        visit.need_known()
        if visit.caller.id != OWNER_ID or visit.signed_in is not None:
            raise Problem(403, "HTTP_FORBIDDEN", "Only the owner's own token can sign somebody in.")
        premises.sign_ins.make_token()
        return json_answer({"url": premises.sign_ins.make_link(), "expiresInSeconds": int(LINK_S)}, 201)

    detail = "It works once, for an hour. Only the owner's own token can ask for it."
    about = About("Make a link to sign in to the page", "sign-in", SignInLink, detail, status=201, problems=(403,))
    return [RouteSpec("POST", PATH, make, about)]
