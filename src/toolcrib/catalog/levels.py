"""How far a tool reaches: by the user's word, else by its name; what a server claims may only raise it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from toolcrib.config.model import ServerConfig
from toolcrib.config.rules import as_place, is_stricter_policy, level_said, policy_said
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.kinds import Policy
from toolcrib.core.names import uri_of_name
from toolcrib.core.offers import Offer, OfferKind, SecurityLevel

READ_ONLY, WRITE, ADMIN, SYSTEM = SecurityLevel
_RESOURCES = (OfferKind.RESOURCE, OfferKind.TEMPLATE, OfferKind.SKILL)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Not "query": what is queried in SQL or GraphQL is changed by the same tool.
_READING = _words(
    "check compare count describe diff display echo explain fetch find get head info inspect list log look lookup peek"
    " ping preview read resolve search select show stat stats status summarize tail validate verify view"
)
_WRITING = _words(
    "accept add alter append apply approve archive assign ban block book buy cancel change charge clear click close"
    " commit copy create delete disable edit enable erase execute fill flush forward import insert install invite"
    " invoke kill launch lock merge modify move mutate open order overwrite patch pay post press publish purchase push"
    " put reboot refund register reject remove rename replace reply reset restart restore rotate run save send set"
    " share sign spawn start stop store submit subscribe terminate transfer trigger truncate type unlock unregister"
    " unsubscribe update upload upsert withdraw write"
)
_ADMIN = _words("admin deploy destroy drop grant impersonate purge revoke shutdown uninstall wipe")
_SYSTEM = _words("bash cmd eval exec powershell shell sudo terminal")
_RUNNING = _words("execute run start")
_RUNNABLE = _words("code command commands process program python script")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Leveled:
    """A level, and why it is that one."""

    level: SecurityLevel
    reason: str
    is_configured: bool = False
    """Whether it is the user's own word."""

    @property
    def may_run_twice(self) -> bool | None:
        """What only reads by the user's word does no harm when it is made again; a name's suggestion is not enough."""
        return True if self.is_configured and self.level is READ_ONLY else None


@dataclass(frozen=True, slots=True)
class Policed:
    """A policy, and why it is that one."""

    policy: Policy
    reason: str


class ToolRules:
    """Levels and policies of one server's tools (``None`` for native tools, whose authors state their level)."""

    def __init__(self, server: ServerConfig | None, security: SecurityConfig) -> None:
        self._server = "" if server is None else server.name
        self._is_native = server is None
        self._is_own = server is not None and server.is_own
        self._own, self._places = as_place(server, security), security.places
        self._general = Policed(Policy(security.policy), "")

    def level(self, name: str, tool: Offer) -> Leveled:
        """The level of a tool under its exposed name; where several files give it one, the highest counts."""
        uri = self._uri(name, tool)
        said = level_said(self._own, name, self._server, tool.name, uri=uri)
        found = self._by_source(tool) if said is None else Leveled(*said, is_configured=True)
        for place in self._places:
            other = level_said(place, name, self._server, tool.name, uri=uri)
            if other is not None and other[0].rank > found.level.rank:
                found = Leveled(other[0], f"{other[1]}, in {place.where}", is_configured=True)
        is_own = (self._server, tool.name) in self._own.tool_levels or not self._own.levels.keys().isdisjoint(
            (name, uri)
        )
        return found if self._is_native or is_own else _heeding_claims(found, tool.annotations)

    def _uri(self, name: str, offer: Offer) -> str:
        """What clients call a resource, for rules that name it so; empty for all else."""
        return uri_of_name(name, self._server) if offer.kind in _RESOURCES else ""

    def _by_source(self, tool: Offer) -> Leveled:
        if self._is_native:
            return Leveled(tool.security_level, "stated by the native tool itself")
        if tool.kind is not OfferKind.TOOL:
            return Leveled(tool.security_level, f"a {tool.kind} only reads")
        named = level_of_name(tool.name)
        if self._is_own and (tool.security_level is READ_ONLY or tool.security_level.rank >= named.level.rank):
            return Leveled(tool.security_level, "stated by the program's own source")
        return named

    def policy(self, name: str, tool: Offer) -> Policed:
        """The policy of a tool: its own, else the most careful pattern's, else its server's, else the general one.

        Where several files have something to say of it, each by that order, the strictest counts.
        """
        uri = self._uri(name, tool)
        said = policy_said(self._own, name, self._server, tool.name, uri=uri)
        found = self._general if said is None else Policed(Policy(said[0]), said[1])
        for place in self._places:
            other = policy_said(place, name, self._server, tool.name, uri=uri)
            if other is not None and is_stricter_policy(other[0], found.policy):
                found = Policed(other[0], f"{other[1]}, in {place.where}")
        return found


def level_of(name: str, tool: Offer, server: ServerConfig | None, security: SecurityConfig) -> Leveled:
    """The level of a single tool."""
    return ToolRules(server, security).level(name, tool)


def policy_of(name: str, tool: Offer, server: ServerConfig | None, security: SecurityConfig) -> Policed:
    """The policy of a single tool."""
    return ToolRules(server, security).policy(name, tool)


@lru_cache(maxsize=8192)
def level_of_name(name: str) -> Leveled:
    """What the words of a name suggest; a name that suggests nothing counts as ``write``."""
    words = [word.lower() for word in _WORD.findall(name)]
    every = frozenset(words)
    if found := every & _SYSTEM or (every & _RUNNABLE if every & _RUNNING else frozenset()):
        return Leveled(SYSTEM, f"its name speaks of {min(found)!r}")
    if found := every & _ADMIN:
        return Leveled(ADMIN, f"its name speaks of {min(found)!r}")
    if (found := _READING & frozenset(words[:2])) and not every & _WRITING:
        return Leveled(READ_ONLY, f"its name speaks of {min(found)!r} and of no change")
    return Leveled(WRITE, "nothing in its name says that it only reads")


def _heeding_claims(found: Leveled, claims: Mapping[str, Any]) -> Leveled:
    """A server that warns of its own tool is believed; one that reassures is not."""
    if found.level is not READ_ONLY:
        return found
    if claims.get("destructiveHint") is True:
        return Leveled(WRITE, "the server says that it can destroy")
    if claims.get("readOnlyHint") is False:
        return Leveled(WRITE, "the server says that it does not only read")
    return found
