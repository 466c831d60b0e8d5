"""A part of the catalogue, dressed for a purpose: which tools, under which names, with which parameters.

What a profile shows of a tool is another matter than what may be done with it: grants, policies and the audit log
know every tool by its name in the whole catalogue.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.catalog.catalog import Catalog, LeftOut, LeftOutKind, Route
from toolcrib.config.sections import ProfileConfig, ProfileTool
from toolcrib.core.access import NATIVE, matches
from toolcrib.core.names import alias_of, fits_pattern, plain_uri
from toolcrib.core.offers import JsonObject, OfferKind

_AS_IT_IS = ProfileTool()


@dataclass(frozen=True, slots=True)
class Dressed:
    """The routes of a profile by the names it shows; what it leaves out is there by the name in the whole catalogue."""

    catalog: Catalog = field(default_factory=Catalog)
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Shown name → the arguments that are filled in."""
    withheld: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Shown name → the parameters nobody else may give."""


def dress(whole: Catalog, profile: ProfileConfig, version: int) -> Dressed:
    """The catalogue as a profile shows it."""
    routes: dict[str, Route] = {}
    left_out = dict(whole.left_out)
    fixed: dict[str, Mapping[str, Any]] = {}
    withheld: dict[str, frozenset[str]] = {}
    quiet: dict[str, Route] = {}
    for route in (*whole.routes.values(), *whole.quiet.values()):
        change = profile.change.get(route.name) or profile.change.get(alias_of(route.name), _AS_IT_IS)
        shown = change.name or (route.original_name if profile.is_plain else route.name)
        reason = _why_not(route, profile, change) or _taken(shown, routes)
        if reason:
            left_out[route.name] = LeftOut(LeftOutKind.NOT_IN_PROFILE, reason)
            continue
        place = quiet if route.name in whole.quiet else routes
        place[shown] = route if change is _AS_IT_IS and shown == route.name else _changed(route, shown, change)
        if change.fixed or change.hidden:
            fixed[shown], withheld[shown] = change.fixed, frozenset((*change.fixed, *change.hidden))
    others: dict[str, Route] = {}
    for key, route in whole.others.items():
        if reason := _why_not(route, profile, _AS_IT_IS):
            left_out[key] = LeftOut(LeftOutKind.NOT_IN_PROFILE, reason)
        else:
            others[key] = route
    shown_ones = dict(sorted(routes.items()))
    catalog = Catalog(shown_ones, left_out, version, others=others, quiet=quiet, stamps=whole.stamps)
    return Dressed(catalog, fixed, withheld)


def shows(profile: ProfileConfig, route: Route, name: str) -> bool:
    """Whether a resource that only a template, or a link in a result, stands for is part of a profile, in whatever way
    its name is written."""
    spellings = {name, plain_uri(name)}
    return not any(_why_not(replace(route, name=spelling), profile, _AS_IT_IS) for spelling in spellings)


def _taken(shown: str, routes: Mapping[str, Route]) -> str:
    return f"it shows {real_name(routes[shown])!r} as {shown!r} already" if shown in routes else ""


def real_name(route: Route) -> str:
    """The name of a tool in the whole catalogue."""
    return route.real or route.name


def _why_not(route: Route, profile: ProfileConfig, change: ProfileTool) -> str:
    """Why a tool is not part of a profile; empty if it is."""
    if route.offer.reads_results:
        return ""  # who is given a large result must be able to read it
    place = route.server or NATIVE
    if not matches(place, profile.servers):
        return f"it has no server {place!r}"
    names, table = _names_of(route), _TABLES[route.offer.kind]
    patterns = getattr(profile, table)
    if not any(matches(name, profile.tools if patterns is None else patterns) for name in names):
        return f"no pattern of its {'tools' if patterns is None else table} fits"
    pattern = next((one for one in profile.without if any(fits_pattern(name, one) for name in names)), None)
    if pattern is not None:
        return f"the pattern {pattern!r} of its without fits"
    return next(_misfits(route.offer.input_schema, change), "")


_TABLES = {
    OfferKind.TOOL: "tools",
    OfferKind.RESOURCE: "resources",
    OfferKind.TEMPLATE: "resources",
    OfferKind.PROMPT: "prompts",
    OfferKind.SKILL: "resources",
}
"""Which patterns of a profile choose what."""


def _names_of(route: Route) -> tuple[str, ...]:
    """What a pattern may call it: its name, and of a resource the URI that clients know."""
    return (route.name, route.uri) if _TABLES[route.offer.kind] == "resources" else (route.name,)


def _misfits(schema: JsonObject, change: ProfileTool) -> Iterator[str]:
    """What a profile wants of a tool's parameters that cannot be."""
    properties, required = _mapping(schema.get("properties")), _names(schema.get("required"))
    for name in (*change.fixed, *change.hidden):
        if name not in properties:
            yield f"it fixes or hides the parameter {name!r}, which the tool does not have"
    for name in change.hidden:
        if name in required:
            yield f"it hides the parameter {name!r}, which the tool needs: give it a value in fixed"


def _changed(route: Route, shown: str, change: ProfileTool) -> Route:
    tool = replace(
        route.tool,
        description=change.description or route.tool.description,
        input_schema=_without(route.tool.input_schema, {*change.fixed, *change.hidden}),
    )
    return replace(route, name=shown, offer=tool, real=route.name)


def _without(schema: JsonObject, names: set[str]) -> JsonObject:
    """The schema without these parameters."""
    if not names:
        return schema
    properties = {name: about for name, about in _mapping(schema.get("properties")).items() if name not in names}
    left = {**schema, "properties": properties}
    if "required" in schema:
        left["required"] = [name for name in _names(schema["required"]) if name not in names]
    return left


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
