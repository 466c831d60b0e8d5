"""From the name in a call to its route: servers nobody has asked yet are asked, within the call's own time."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from toolcrib.calls.layers.audit import clean_name, shape_of, unknown_call
from toolcrib.calls.layers.permit import not_open
from toolcrib.calls.pipeline import Subject, compose
from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.current import Current
from toolcrib.catalog.merge import configured_view, native_view
from toolcrib.catalog.pins import APP_SCHEME
from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.refresh import Refresher
from toolcrib.catalog.standing import failure_on
from toolcrib.config.rules import is_stricter_policy
from toolcrib.core import events
from toolcrib.core.access import EVERYTHING, Caller, decide, may_know
from toolcrib.core.errors import (
    CallCancelled,
    CallTimeout,
    InvalidArguments,
    InvalidName,
    SignInNeeded,
    SourceUnavailable,
    ToolcribError,
    UnknownTool,
)
from toolcrib.core.events import Event
from toolcrib.core.kinds import DiscoveryStatus, FailureKind, PinMode, Policy
from toolcrib.core.names import SEPARATOR, check_exposed_name, climbs_out, plain_uri, split_name
from toolcrib.core.offers import (
    ASKED_OF,
    Offer,
    OfferKind,
    Prompt,
    RequestKind,
    Resource,
    ResourceTemplate,
    SecurityLevel,
    Skill,
    Tool,
    offer_key,
)
from toolcrib.core.requests import Request, Result, told_of
from toolcrib.crib.layers import checking_layers
from toolcrib.crib.servers import Parts
from toolcrib.sources.native.functions import to_result

_NAMED = (RequestKind.CALL, RequestKind.GET)
"""What is asked for by a name of two parts; resources have addresses."""

_UNDESCRIBED: Mapping[OfferKind, type[Offer]] = {
    OfferKind.TOOL: Tool,
    OfferKind.RESOURCE: Resource,
    OfferKind.TEMPLATE: ResourceTemplate,
    OfferKind.PROMPT: Prompt,
    OfferKind.SKILL: Skill,
}


class Finder:
    """Finds the route of what is asked for for the first time."""

    def __init__(self, refresher: Refresher, current: Current, parts: Parts) -> None:
        self._fresh, self._current, self._parts = refresher, current, parts

    def _catalog(self) -> Catalog:
        return self._current.catalog

    async def find(self, call: Request) -> Route:
        """The route, after its server was asked once in this run: what an earlier run accepted may have changed since.

        A server that cannot be asked keeps what was accepted of it.
        """
        route = self._catalog().find(call.kind, call.name)
        shelf = self._fresh.shelves.get(route.server) if route is not None else None
        if shelf is not None and not shelf.is_compared:
            with suppress(TimeoutError):
                async with asyncio.timeout(call.timeout_s):
                    await self._fresh.compare(shelf)
            route = self._catalog().find(call.kind, call.name)
        if route is None:
            route = self._given(call) or await self._search(call)
        if route.name == call.name:
            return route
        try:
            return self._concrete(route, call)
        except ToolcribError as error:
            self.note_unknown(call, error)
            raise

    def unlisted(self, call: Request, template: Route | None) -> Route | None:
        """The way to a resource that no list contains: by its template, by a link that its caller was given, or at a
        server that lists none; refused if the rules say so."""
        route = template or self._given(call) or self.undescribed(call)
        return route if route is None else self._concrete(route, call)

    def _given(self, call: Request) -> Route | None:
        """The server of a resource that no list contains, for a caller who was given its link in a result."""
        if call.kind is not RequestKind.READ:
            return None
        shelf = self._fresh.shelves.get(self._parts.links.owner(call.caller.id, call.name))
        if shelf is None or self._fresh.quarantine.mode_of(shelf) is PinMode.STRICT:
            return None
        return Route("", shelf.config.name, Resource(""), shelf.source, held=shelf.barred)

    def undescribed(self, call: Request) -> Route | None:
        """The way to what no list contains, where there is one server whose names are kept, and it lists nothing of
        that kind: then there is nobody else who could be meant, and no definition that this could go around. With
        ``unlisted`` also of a server that does list some."""
        shelf = next(iter(self._fresh.shelves.values()), None)
        if self._parts.prefix or shelf is None or len(self._fresh.shelves) > 1 or not shelf.is_known or shelf.barred:
            return None
        catalog, kinds = self._catalog(), ASKED_OF[call.kind]
        routes = (*catalog.routes.values(), *catalog.others.values())
        is_listed = any(route.server and route.offer.kind in kinds for route in routes)
        if (
            (is_listed and not shelf.config.unlisted)
            or shelf.held
            or any(offer_key(kind, call.name) in catalog.left_out for kind in kinds)
        ):
            return None
        if self._fresh.quarantine.mode_of(shelf) is PinMode.STRICT:
            return None
        view = configured_view(shelf.config, self._current.security)
        offer, policy = view(call.name, _UNDESCRIBED[kinds[0]](call.name))
        if is_listed and call.kind is RequestKind.CALL and offer.security_level.rank < SecurityLevel.ADMIN.rank:
            offer = replace(offer, security_level=SecurityLevel.ADMIN)  # why it is not listed nobody knows
        if policy is Policy.DISABLE:
            return None
        is_part = call.kind in (RequestKind.READ, RequestKind.BROWSE)
        return Route("" if is_part else call.name, shelf.config.name, offer, shelf.source, policy)

    def _concrete(self, found: Route, call: Request) -> Route:
        """The way to one resource of a template: what the rules say of either holds, in whatever way it is written,
        and what is listed under another spelling is in quarantine under this one, too."""
        name, plain = call.name, plain_uri(call.name)
        if climbs_out(name):
            raise _nothing_there(call)
        shelf, security = self._fresh.shelves.get(found.server), self._current.security
        view = native_view(security) if shelf is None else configured_view(shelf.config, security)
        uri = name.removeprefix(f"{found.server}{SEPARATOR}") if self._parts.prefix and found.server else name
        shown, policy = view(name, Resource(uri, found.offer.description, extra=found.offer.extra))
        other, other_policy = view(plain, replace(shown, name=plain_uri(uri)))
        listed = found if plain == name else self._catalog().find(call.kind, plain) or found
        levels = (each.security_level for each in (shown, other, found.offer, listed.offer))
        level = max(levels, key=lambda one: one.rank)
        for stricter in (other_policy, found.policy, listed.policy):
            policy = stricter if is_stricter_policy(stricter, policy) else policy
        if policy is Policy.DISABLE:
            raise _nothing_there(call)
        offer = replace(shown, security_level=level)
        return Route(name, found.server, offer, found.source, policy, found.held or listed.held)

    def subject_of(self, route: Route, kind: RequestKind) -> Subject:
        """The offer that a chain of layers is to be built for."""
        shelf = self._fresh.shelves.get(route.server)
        renew = None if shelf is None else partial(self._fresh.renew_if_stale, shelf)
        subject, uri = Subject(route.name, route.server, route.offer, route.reach, renew, kind), route.offer.name
        if shelf is not None and kind is RequestKind.READ and uri.startswith(APP_SCHEME):
            subject.settle = partial(self._fresh.settle_app, shelf, uri)
        subject.is_transparent = shelf is not None and shelf.config.transparent
        return subject

    async def rehearse(self, call: Request, catalog: Catalog) -> Result:
        """What the tool would be given, if it took these arguments; nothing runs, and nothing is told."""
        route = catalog.find(call.kind, call.name)
        if route is None or not decide(call.caller.grants, route.reach).is_listed:
            raise UnknownTool(call.name, known=[each.name for each in catalog.visible_to(call.caller.grants)])
        return await compose(checking_layers(self._parts), self.subject_of(route, call.kind), _taken)(call)

    async def _search(self, call: Request) -> Route:
        """The call's own limit holds for finding its tool, too; what comes of it is told like any call."""
        if not may_know(call.caller.grants, call.name):
            self.note_unknown(call, refused := not_open())
            raise refused
        try:
            async with asyncio.timeout(call.timeout_s):
                return await self._discover_for(call)
        except TimeoutError:
            late = CallTimeout(f"{call.name} was not found within {call.timeout_s:g} s: its server is still starting.")
            self._tell_not_begun(call, late)
            raise late from None
        except asyncio.CancelledError:
            self.note_unknown(call, CallCancelled("The caller gave up before the tool was found."))
            raise
        except UnknownTool as error:
            self._parts.emit(Event("call.unknown", "warning", {"tool": call.name[:200]}))
            told = error if call.caller.grants == EVERYTHING else not_open()
            self.note_unknown(call, told)
            raise told from None
        except ToolcribError as error:
            self._tell_not_begun(call, error)
            raise

    def _tell_not_begun(self, call: Request, error: ToolcribError) -> None:
        fields = {**told_of(call), "caller": call.caller.id, "seconds": 0.0, "code": error.code}
        self._parts.emit(Event(events.CALL_FINISHED, "warning", fields))
        self.note_unknown(call, error)

    def note_unknown(self, call: Request, error: ToolcribError) -> None:
        """What never reaches the layers leaves an entry, too."""
        self._parts.metrics.count_unknown(error.code)
        self._parts.log.note(unknown_call(call, error.code))
        if self._parts.live is not None:
            self._parts.live.note(call, clean_name(call.name, 200), error, shape_of(call.arguments))

    async def _discover_for(self, call: Request) -> Route:
        """What nobody has seen yet may belong to a server nobody has asked yet."""
        name, caller = call.name, call.caller
        unknown = [shelf for shelf in self._possible_shelves(name) if not shelf.is_known]
        asking = [asyncio.ensure_future(self._fresh.first_record(shelf)) for shelf in unknown]
        try:
            for finding in asyncio.as_completed(asking):
                record = await finding
                if self._catalog().find(call.kind, name) is not None:
                    break
                if record.status is DiscoveryStatus.FAILED and self._parts.prefix:
                    raise _not_found_at(self._fresh.shelves[record.server])
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        route = self._catalog().find(call.kind, name) or self.undescribed(call)
        if route is None:
            # Who may not know of all tools hears of none, so no similar name is looked for.
            catalog, may_know_all = self._catalog(), caller.grants == EVERYTHING
            kinds = ASKED_OF[call.kind] if may_know_all else ()
            known = [route.name for kind in kinds for route in catalog.visible_to(EVERYTHING, kind)]
            if self._parts.prefix and call.kind in _NAMED:
                check_exposed_name(name, known)
            raise UnknownTool(name, known=known, kind=ASKED_OF[call.kind][0])
        return route

    def _possible_shelves(self, name: str) -> list[ServerShelf]:
        shelves = self._fresh.shelves
        if not self._parts.prefix:
            return list(shelves.values())
        try:
            shelf = shelves.get(split_name(name)[0])
        except InvalidName:
            return []
        return [shelf] if shelf else []


def _not_found_at(shelf: ServerShelf) -> SourceUnavailable:
    """Why nothing is known of a server; it may want somebody to sign in only once it is asked for its list."""
    status, trouble = shelf.source.status(), shelf.trouble
    if isinstance(trouble, SignInNeeded):
        return SignInNeeded(trouble.message, hint=trouble.hint, details=trouble.details)
    wants_sign_in = failure_on(shelf.record).kind is FailureKind.SIGN_IN  # the record may be of another process
    kind = SignInNeeded if wants_sign_in or status.details.get("sign_in") else SourceUnavailable
    return kind(status.error or shelf.record.error, details=status.details)


def check_request(name: object, arguments: object, caller: object, timeout_s: object) -> None:
    """Raise for what a program cannot have meant: types do not stop it, and the layers rely on them."""
    if not isinstance(name, str):
        check_exposed_name(name)
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"{name}: the arguments must be an object, not {arguments!r:.60}.")
    if not isinstance(caller, Caller):
        raise InvalidArguments(f"{name}: the caller must be a toolcrib.Caller, not {caller!r:.60}.")
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise InvalidArguments(f"{name}: timeout_s must be a number of seconds above 0, not {timeout_s!r:.60}.")


def _nothing_there(call: Request) -> ToolcribError:
    """What whoever asks for a resource is told that cannot be had; who may not know of all learns no more than that."""
    is_whole = call.caller.grants == EVERYTHING
    return UnknownTool(call.name, kind=OfferKind.RESOURCE) if is_whole else not_open()


async def _taken(call: Request) -> Result:
    """What came through the checks."""
    return to_result(call.arguments)
