"""What the command palette finds: pages, servers and tools by a part of their names."""

from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote

from toolcrib.doors.http.answers import Answer, json_answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.render import PLACES, Pages, me_of

MOST = 12


def palette_routes(pages: Pages) -> list[RouteSpec]:
    """The one address the palette asks."""

    async def look(visit: Visit) -> Answer:
        visit.need_known()
        wanted = visit.query.get("q", "").strip().lower()[:100]
        return json_answer(list(islice(_find(pages, visit, wanted), MOST)))

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
                yield {"name": route.name, "kind": "tool", "href": f"/tools/{quote(route.name, safe='')}"}
