"""Who is signed in, the end of a session, and the question that comes before what reaches furthest."""

from datetime import UTC, datetime, timedelta

from toolcrib.config.lock import timestamp
from toolcrib.core.audit import AuditEntry
from toolcrib.doors.http.answers import Answer, not_found, see_other
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.ledger import write_down
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.sign_in_page import Guesses, safe_place, shown_path
from toolcrib.stores.paths import state_directory

BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = tuple((mark, mark) for mark in ("Android", "iPhone", "Windows", "Mac OS", "Linux"))


def session_routes(pages: Pages, guesses: Guesses | None = None) -> list[RouteSpec]:
    """The list, its forms, and the question."""
    counted, sign_ins = guesses or Guesses(), pages.premises.sign_ins

    def moment(at: float) -> str:
        return timestamp(datetime.now(UTC) - timedelta(seconds=sign_ins.age_s(at)))

    async def show(visit: Visit) -> Answer:
        visit.need_known()
        own = visit.signed_in.session if visit.signed_in is not None else ""
        rows = [
            (each, name_browser(each.browser), moment(each.began), moment(each.seen), each.id == own)
            for each in sign_ins.sessions(visit.caller)
        ]
        return pages.render(visit, "settings/sessions.html", rows=rows)

    async def end(visit: Visit) -> Answer:
        visit.need_known()
        if not sign_ins.end(visit.caller, visit.params["id"]):
            raise not_found("session", visit.params["id"], "It may have ended.")
        return go_on("/settings/sessions", "signed_out")

    async def ask(visit: Visit) -> Answer:
        return _question(pages, visit)

    async def confirm(visit: Visit) -> Answer:
        fields = visit.form()
        if sign_ins.confirm(visit.request, fields.get("token", "")):
            await write_down(pages, visit, AuditEntry("session", decision="confirmed"))
            return see_other(safe_place(fields.get("next", "/")))
        peer = visit.request.peer
        wait_s = counted.note_wrong(str(peer[0]) if isinstance(peer, tuple) else "")
        told = f"Too many wrong tokens. Try again in {wait_s:.0f} seconds." if wait_s else "This is not your token."
        return _question(pages, visit, told, 429 if wait_s else 403)

    return [
        RouteSpec("GET", "/settings/sessions", show),
        RouteSpec("POST", "/settings/sessions/{id}/end", end),
        RouteSpec("GET", "/confirm", ask),
        RouteSpec("POST", "/confirm", confirm),
    ]


def _question(pages: Pages, visit: Visit, problem: str = "", status: int = 200) -> Answer:
    given = visit.form() if visit.request.method == b"POST" else visit.query
    return pages.render(
        visit,
        "confirm.html",
        status=status,
        problem=problem,
        wanted=safe_place(given.get("next", "/")),
        token_file=shown_path(pages, state_directory(pages.premises.project.around.env) / "token"),
    )


def name_browser(said: str) -> str:
    """What a person calls the browser that says this of itself."""
    browser = next((name for mark, name in BROWSERS if mark in said), "")
    system = next((name for mark, name in SYSTEMS if mark in said), "")
    return " on ".join(filter(None, (browser, system))) or said[:40] or "a browser without a name"
