"""What the command palette finds: pages, servers and tools by a part of their names, then tools by what they do."""

from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote

from toolcrib.doors.http.answers import Answer, json_answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.render import PLACES, Pages, me_of

MOST = 12
FEWEST_LETTERS = 4


def palette_routes(pages: Pages) -> list[RouteSpec]:
    """The one address the palette asks."""

    async def look(visit: Visit) -> Answer:
        visit.need_known()
        wanted = visit.query.get("q", "").strip().lower()[:100]
        found = list(islice(_find(pages, visit, wanted), MOST))
        return json_answer([*found, *await _meant(pages, visit, wanted, found)])

    return [RouteSpec("GET", "/palette.json", look)]


def _find(pages: Pages, visit: Visit, wanted: str) -> Iterator[dict[str, str]]:
    is_operator, crib = me_of(visit).is_operator, pages.premises.crib
    for place in PLACES:
        if place.path in pages.paths and wanted in place.name.lower() and (is_operator or not place.for_operators):
            yield {"name": place.name, "kind": "page", "href": place.path}
    if is_operator and wanted:
        for name in sorted((*crib.shelves, *crib.disabled)):
            if wanted in name.lower():
                yield {"name": name, "kind": "server", "href": f"/servers/{quote(name, safe='')}"}
    if "/tools/{name}" in pages.paths and wanted:
        for route in crib.catalog.visible_to(visit.caller.grants):
            if wanted in route.name.lower():
                yield _tool(route.name)


async def _meant(pages: Pages, visit: Visit, wanted: str, found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Tools for what was typed, where there is room; a word of few letters says too little."""
    room = MOST - len(found)
    if "/tools/{name}" not in pages.paths or len(wanted) < FEWEST_LETTERS or not room:
        return []
    crib, named = pages.premises.crib, {entry["name"] for entry in found}
    others = [route for route in crib.catalog.visible_to(visit.caller.grants) if route.name not in named]
    return [_tool(hit.route.name) for hit in await crib.find(wanted, room, among=others)]


def _tool(name: str) -> dict[str, str]:
    return {"name": name, "kind": "tool", "href": f"/tools/{quote(name, safe='')}"}
