"""The catalog: one immutable value that knows all that is offered, and its way to its source."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Any, cast

import msgspec

from toolcrib.core.access import NATIVE, Grants, Reach, decide
from toolcrib.core.errors import CallerError, did_you_mean
from toolcrib.core.kinds import HoldReason, Policy
from toolcrib.core.names import name_of_alias, name_of_uri, to_public, translate_app, uri_of_name
from toolcrib.core.offers import ASKED_OF, Offer, OfferKind, RequestKind, Tool, offer_key, to_mcp
from toolcrib.core.skills import DYNAMIC, directory_of, files_of
from toolcrib.core.source import Source
from toolcrib.schema.arguments import value_hints
from toolcrib.schema.check import fits_template, literals_of, may_fit
from toolcrib.schema.dialects import DIALECTS, dialect_of
from toolcrib.schema.dialects.names import NameTable
from toolcrib.schema.dialects.offer import DialectOffer, Options
from toolcrib.schema.signature import about, count_tokens, signature


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request for an exposed name goes."""

    name: str
    server: str
    """Empty for what is offered by this process itself."""
    offer: Offer
    source: Source
    policy: Policy = Policy.ALLOW
    held: HoldReason | None = None
    """Why it is in quarantine; ``None`` if it is not."""
    real: str = ""
    """Its name in the whole catalogue, where a profile shows it; policies, grants and the audit log go by that."""
    reach: Reach = field(init=False, repr=False, compare=False)
    """What it asks of its callers."""
    _tokens: int = field(init=False, repr=False, compare=False, default=-1)

    def __post_init__(self) -> None:
        offer = self.offer
        reach = Reach(
            self.real or self.name,
            self.server or NATIVE,
            offer.security_level,
            offer.capabilities,
            self.policy,
            self.held,
            offer.reads_results,
            offer.kind,
        )
        object.__setattr__(self, "reach", reach)

    @property
    def tool(self) -> Tool:
        """What is offered, where that is known to be a tool."""
        return cast("Tool", self.offer)

    @property
    def original_name(self) -> str:
        """The source's own name for it."""
        return self.offer.name

    def complete(self, parameter: str, start: str = "") -> list[str]:
        """Values that would fit a parameter and begin with ``start``."""
        shown = [example.arguments[parameter] for example in self.tool.examples if parameter in example.arguments]
        hints = value_hints(self.tool.input_schema, parameter, [*self.tool.completions.get(parameter, ()), *shown])
        return [hint for hint in hints if hint.startswith(start)]

    @property
    def tokens(self) -> int:
        """About what its definition takes of a model's context; counted once, when somebody wants to know."""
        if self._tokens < 0:
            tool = self.tool
            shown = {"name": self.name, "description": tool.description, "input_schema": tool.input_schema}
            object.__setattr__(self, "_tokens", count_tokens(msgspec.json.encode(shown).decode()))
        return self._tokens

    @property
    def uri(self) -> str:
        """The URI, or URI template, that clients know a resource by."""
        return uri_of_name(self.name, self.server)

    def to_mcp(self) -> dict[str, Any]:
        """The definition under the name, or the URI, that clients know it by."""
        offer = self.offer
        is_resource = offer.kind in (OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.SKILL)
        shown = to_mcp(offer, self.uri if is_resource else self.name)
        is_prefixed = bool(self.server) and (self.real or self.name) != offer.name
        if "_meta" in shown and is_prefixed:
            shown["_meta"] = translate_app(shown["_meta"], partial(to_public, self.server))
        if offer.kind is OfferKind.SKILL and is_prefixed and shown["resources"] != DYNAMIC:
            shown["resources"] = [{**one, "uri": to_public(self.server, one["uri"])} for one in files_of(shown)]
        return shown


FITTING_MAX = 16
"""Templates that are compared with one URI exactly, which takes a pattern for each."""
_OTHERS = (OfferKind.SKILL, OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.PROMPT)


def keys_for(name: str) -> list[str]:
    """The keys that people may mean by a name, the likeliest first."""
    spellings = dict.fromkeys((name, name_of_uri(name)))
    return [name_of_alias(name), *(offer_key(kind, spelling) for spelling in spellings for kind in _OTHERS)]


class LeftOutKind(Enum):
    """What keeps a name out of a catalogue."""

    DISABLED = auto()
    TAKEN_BY_NATIVE = auto()
    TAKEN_BY_SERVER = auto()
    FULL = auto()
    """The catalogue has as many tools as it may have."""
    NOT_IN_PROFILE = auto()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a name is not offered: the kind, and the same in words for people."""

    kind: LeftOutKind
    reason: str

    @property
    def is_clash(self) -> bool:
        """Whether two sources claim the name."""
        return self.kind in (LeftOutKind.TAKEN_BY_NATIVE, LeftOutKind.TAKEN_BY_SERVER)

    def is_hidden_by(self, name: str) -> bool:
        """Whether the native tool of this name is what keeps it out."""
        return self.kind is LeftOutKind.TAKEN_BY_NATIVE and self.reason.startswith(f"{name!r} of server ")


@dataclass(frozen=True, slots=True)
class Catalog:
    """All routes, in the order of their names."""

    routes: Mapping[str, Route] = field(default_factory=dict)
    """To tools, by exposed name."""
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    """Names (of what are no tools: keys) that are not offered, and why."""
    version: int = 0
    lookalikes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names that look like others, and which."""
    others: Mapping[str, Route] = field(default_factory=dict)
    """To resources, templates and prompts, by ``offer_key`` of the exposed name."""
    quiet: Mapping[str, Route] = field(default_factory=dict)
    """To tools that can be called and are not listed."""
    stamps: Mapping[OfferKind, int] = field(default_factory=dict, compare=False)
    """The version in which something of each kind last changed."""
    _by_server: dict[str, list[Route]] = field(init=False, repr=False, compare=False, default_factory=dict)
    _templates: list[tuple[Route, Sequence[str]]] = field(init=False, repr=False, compare=False, default_factory=list)
    _skills: list["SkillRoute"] = field(init=False, repr=False, compare=False, default_factory=list)

    def visible_to(self, grants: Grants, kind: OfferKind = OfferKind.TOOL) -> list[Route]:
        """The routes to what a caller with these grants is shown."""
        if kind is OfferKind.TOOL:
            return [route for route in self.routes.values() if decide(grants, route.reach).is_listed]
        routes = (route for route in self.others.values() if route.offer.kind is kind)
        return [route for route in routes if decide(grants, route.reach).is_listed]

    def others_visible_to(self, grants: Grants) -> list[Route]:
        """The routes to what are no tools and a caller with these grants is shown."""
        return [route for route in self.others.values() if decide(grants, route.reach).is_listed]

    def find(self, kind: RequestKind, name: str) -> Route | None:
        """Where such a request for an exposed name goes, if anywhere."""
        if kind is RequestKind.CALL or kind is RequestKind.TASK:
            return self.routes.get(name) or self.quiet.get(name)
        if kind in (RequestKind.READ, RequestKind.BROWSE) and (skill := self._by_skill(kind, name)) is not None:
            return skill
        found = (self.others.get(offer_key(offered, name)) for offered in ASKED_OF[kind])
        route = next((route for route in found if route is not None), None)
        return self._by_template(name) if route is None and kind is RequestKind.READ else route

    def _by_skill(self, kind: RequestKind, name: str) -> Route | None:
        """The skill that a file, or a directory, is part of: what holds for the skill holds for it, listed by itself or
        not. Of several, one in quarantine before the others, and an inner one before those around it."""
        if not self.others:
            return None
        if not self._skills:
            skills = [SkillRoute.of(route) for route in self.others.values() if route.offer.kind is OfferKind.SKILL]
            self._skills.extend(skills or [NO_SKILL])
        is_part = SkillRoute.has_file if kind is RequestKind.READ else SkillRoute.has_directory
        fitting = [skill for skill in self._skills if is_part(skill, name)]
        best = min(fitting, key=lambda skill: (skill.is_free, -len(skill.directory)), default=None)
        return None if best is None else best.route

    def _by_template(self, name: str) -> Route | None:
        """The template that stands for a resource; of several, one in quarantine before the others. Where very many
        may, their server is left to say whether one does."""
        if not self._templates:
            routes = (route for route in self.others.values() if route.offer.kind is OfferKind.TEMPLATE)
            self._templates.extend((route, literals_of(route.name)) for route in routes)
        fitting = [route for route, literals in self._templates if may_fit(literals, name)]
        if len(fitting) <= FITTING_MAX:
            fitting = [route for route in fitting if fits_template(route.name, name)]
        return min(fitting, key=lambda route: route.held is None, default=None)

    def by_key(self, key: str) -> Route | None:
        """The route with that ``Reach.key``, if there is one."""
        return self.routes.get(key) or self.others.get(key) or self.quiet.get(key)

    def named(self, name: str) -> Route | None:
        """The offer that people mean by a name, whatever its kind: a key, a name, or the URI that clients know; where
        a tool and a prompt share a name, the tool."""
        return next((route for key in keys_for(name) if (route := self.by_key(key)) is not None), None)

    def of_server(self, server: str) -> list[Route]:
        """The routes to one server; native tools are under the empty name."""
        if not self._by_server:
            for route in self.routes.values():
                self._by_server.setdefault(route.server, []).append(route)
        return self._by_server.get(server, [])

    def counts(self) -> tuple[int, int]:
        """How many native and how many MCP tools there are."""
        native = sum(1 for route in self.routes.values() if not route.server)
        return native, len(self.routes) - native


@dataclass(frozen=True, slots=True)
class SkillRoute:
    """The way to a skill, with the exposed names of what it is made of."""

    route: Route | None
    directory: str = ""
    files: frozenset[str] = frozenset()
    is_dynamic: bool = False

    @classmethod
    def of(cls, route: Route) -> "SkillRoute":
        """What a skill is made of."""
        prefix = route.name.removesuffix(route.offer.name)
        files = frozenset(prefix + str(one["uri"]) for one in files_of(route.offer.extra))
        return cls(route, directory_of(route.name), files, route.offer.extra.get("resources") == DYNAMIC)

    @property
    def is_free(self) -> bool:
        """Whether it is not in quarantine."""
        return self.route is not None and self.route.held is None

    def has_file(self, name: str) -> bool:
        """Whether a resource is one of its files."""
        return name in self.files or (self.is_dynamic and name.startswith(f"{self.directory}/"))

    def has_directory(self, name: str) -> bool:
        """Whether a directory is its own, or one in it."""
        return self.route is not None and f"{name}/".startswith(f"{self.directory}/")


NO_SKILL = SkillRoute(None)


def is_for_apps(shown: Mapping[str, Any]) -> bool:
    """Whether a tool says that only its app, and no model, is to call it."""
    meta = shown.get("_meta")
    about = meta.get("ui") if isinstance(meta, Mapping) else None
    seen_by = about.get("visibility") if isinstance(about, Mapping) else None
    return isinstance(seen_by, list) and "app" in seen_by and "model" not in seen_by


def has_app(shown: Mapping[str, Any]) -> bool:
    """Whether a tool's result is to be shown by an app, by either spelling of its resource."""
    meta = shown.get("_meta")
    about = meta.get("ui") if isinstance(meta, Mapping) else None
    is_told = isinstance(about, Mapping) and "resourceUri" in about
    return is_told or (isinstance(meta, Mapping) and "ui/resourceUri" in meta)


__all__ = ["FORMATS", "MCP", "DialectOffer", "Options", "offer_routes", "signature_of"]

MCP = "mcp"
FORMATS = (MCP, *DIALECTS)


def offer_routes(routes: Iterable[Route], format: str, options: Options | None = None) -> DialectOffer:  # noqa: A002
    """Tools in a provider's own form; what it would refuse is left out, with the reason."""
    if format not in FORMATS:
        hint = did_you_mean(str(format), FORMATS) or f"Known formats: {', '.join(FORMATS)}."
        raise CallerError(f"No tool format named {format!r}.", hint=hint)
    if format == MCP:
        return _as_they_are(list(routes))
    fit = (route for route in routes if not is_for_apps(route.offer.extra))
    return dialect_of(format, options).offer(replace(route.tool, name=route.name) for route in fit)


def _as_they_are(routes: list[Route]) -> DialectOffer:
    """MCP takes every definition as its server gave it."""
    definitions = [route.to_mcp() for route in routes]
    same = {route.name: route.name for route in routes}
    return DialectOffer(definitions, definitions, NameTable(same, same))


def signature_of(route: Route) -> str:
    """The tool in one line that a model can call from; of what is no tool, a line to ask for it by."""
    offer = route.offer
    said = offer.description or offer.title
    if offer.kind in (OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.SKILL):
        told = about(said or str(offer.extra.get("name") or ""))
        return f"{route.uri} - {told}" if told else route.uri
    return signature(route.name, offer.input_schema, said)
