"""Finding out what a server speaks, by the table in ``wire.eras``."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core import skills
from toolcrib.core.errors import ProtocolError, RemoteError
from toolcrib.core.kinds import EraChoice
from toolcrib.core.long_work import declares_tasks
from toolcrib.sources.mcp.link import Link, ServerRequest
from toolcrib.sources.mcp.questions import AskingRule
from toolcrib.wire import eras, messages
from toolcrib.wire.eras import ProbeOutcome, ProbeStep
from toolcrib.wire.jsonrpc import encode

_LISTED = ("tools", "resources", "prompts")


@dataclass(frozen=True, slots=True)
class Agreement:
    """What both sides settled on."""

    version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    server_info: Mapping[str, Any] = field(default_factory=dict)
    instructions: str = ""

    @property
    def tells_of_changes(self) -> bool:
        """Whether the server announces that what it offers changed."""
        return any(_object(self.capabilities.get(kind)).get("listChanged") is True for kind in _LISTED)

    @property
    def features(self) -> tuple[str, ...]:
        """What the server can do besides its offers: ``completions``, ``logging``, ``subscribe``, ``tasks``, ``skills``
        and ``directories`` of them."""
        extensions = _object(self.capabilities.get("extensions"))
        can_subscribe = _object(self.capabilities.get("resources")).get("subscribe") is True
        has = {
            "completions": "completions" in self.capabilities,
            "logging": "logging" in self.capabilities,
            "subscribe": can_subscribe,
            "tasks": self._knows_tasks,
            "skills": skills.EXTENSION in extensions,
            "directories": _object(extensions.get(skills.EXTENSION)).get("directoryRead") is True,
        }
        return tuple(name for name, is_there in has.items() if is_there)

    @property
    def _knows_tasks(self) -> bool:
        """Whether it may answer a call later, in the way of its era."""
        if eras.is_modern(self.version):
            return declares_tasks(self.capabilities)
        requests = _object(_object(self.capabilities.get("tasks")).get("requests"))
        return "call" in _object(requests.get("tools"))


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """What toolcrib says of itself to a server."""

    info: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    asking: AskingRule = field(default_factory=AskingRule)
    """Who answers what the server may ask."""
    era: EraChoice = EraChoice.AUTO
    """In which era the server is to be spoken to."""
    is_transparent: bool = False
    """Whether the server is to see its clients themselves wherever it can."""


_object_of = msgspec.json.Decoder(dict[str, Any])


class HandshakePatience:
    """How long one attempt may take: at first only until something is answered at all, then for the whole handshake.

    A server behind an address that says nothing is given up early, and tried again; a program gets all the time for its
    first answer, because it may have to install itself before it.
    """

    def __init__(self, first_s: float | None, whole_s: float) -> None:
        self.allowed_s = min(whole_s if first_s is None else first_s, whole_s)
        """What it may take as things stand."""
        self._whole_s, self._begun = whole_s, asyncio.get_running_loop().time()
        self._is_counting = True
        self.limit = asyncio.timeout(self.allowed_s)

    @property
    def is_whole(self) -> bool:
        """Whether there is no time for another attempt within one discovery once this one ran out."""
        return self.allowed_s == self._whole_s

    def note_answer(self) -> None:
        """The server says something, whatever it is."""
        self.allowed_s = self._whole_s
        if self._is_counting:
            self.limit.reschedule(self._begun + self._whole_s)

    def hold(self) -> None:
        """Let it not count for now: the command fetches what it runs."""
        self._is_counting = False
        self.limit.reschedule(None)

    def release(self) -> None:
        """Let it count from now on, all of it."""
        loop = asyncio.get_running_loop()
        self._is_counting, self._begun = True, loop.time()
        if not self.limit.expired():
            self.limit.reschedule(self._begun + self.allowed_s)


async def negotiate(
    link: Link, offer: ClientIdentity, remembered: str, patience: HandshakePatience | None = None
) -> Agreement:
    """Walk the table until both sides speak the same era; begins with what was remembered."""
    step = eras.first_step(remembered, offer.era) if link.discover_patience_s else ProbeStep.INITIALIZE
    refusal: RemoteError | None = None
    while True:
        try:
            result, outcome = await _try_step(link, offer, step)
        except RemoteError as error:
            result, outcome = {}, eras.judge_refusal(error.rpc_code, error.data)
            refusal = refusal or (error if step is not ProbeStep.DISCOVER else None)
        if patience is not None and outcome is not ProbeOutcome.SILENT:
            patience.note_answer()
        if step is ProbeStep.DISCOVER_AGAIN and outcome is not ProbeOutcome.ACCEPTED and refusal is not None:
            raise refusal
        step = eras.advance(step, outcome)
        if not eras.allows(offer.era, step):
            raise refusal or ProtocolError(
                f"The server does not speak the {offer.era} era, which is configured for it.",
                hint='Remove `era` from its configuration, or set it to "auto".',
            )
        if step is ProbeStep.MODERN:
            return _agree_modern(link, result)
        if step is ProbeStep.HANDSHAKE:
            return _agree_handshake(link, result)


async def _try_step(link: Link, offer: ClientIdentity, step: ProbeStep) -> tuple[Mapping[str, Any], ProbeOutcome]:
    """What one question came to; a server's refusal is raised."""
    is_sure = step is ProbeStep.INITIALIZE or offer.era is EraChoice.STATELESS  # nothing else would be asked instead
    patience_s = None if is_sure else link.discover_patience_s
    try:
        async with asyncio.timeout(patience_s):
            result = _as_object(await link.ask(_question(link, offer, step)))
    except TimeoutError:
        return {}, ProbeOutcome.SILENT
    except ProtocolError:
        if step is ProbeStep.INITIALIZE:
            raise
        return {}, ProbeOutcome.REFUSED
    return result, ProbeOutcome.ACCEPTED if step is ProbeStep.INITIALIZE else eras.judge_discover(result)


def _question(link: Link, offer: ClientIdentity, step: ProbeStep) -> ServerRequest:
    if step is ProbeStep.INITIALIZE:
        return ServerRequest(link.new_id(), "initialize", messages.initialize_params(offer.info, offer.capabilities))
    params = messages.list_params(None, messages.modern_meta(offer.info, offer.capabilities))
    return ServerRequest(link.new_id(), "server/discover", params, version=eras.LATEST_MODERN)


def _as_object(raw: Raw) -> Mapping[str, Any]:
    try:
        return _object_of.decode(raw)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"The server answered the handshake with something that is no object: {error}.") from None


def _agree_modern(link: Link, result: Mapping[str, Any]) -> Agreement:
    version = next(version for version in reversed(eras.MODERN_VERSIONS) if version in result["supportedVersions"])
    link.agree(version)
    meta = _object(result.get("_meta"))
    return Agreement(
        version,
        _object(result.get("capabilities")),
        _object(meta.get(eras.META_SERVER_INFO)),
        str(result.get("instructions") or ""),
    )


def _agree_handshake(link: Link, result: Mapping[str, Any]) -> Agreement:
    version = result.get("protocolVersion")
    if version not in eras.HANDSHAKE_VERSIONS:
        raise ProtocolError(
            f"The server speaks protocol {version!r}; toolcrib speaks {', '.join(eras.KNOWN_VERSIONS)}."
        )
    link.agree(version)
    link.tell("notifications/initialized", b"{}")
    return Agreement(
        version,
        _object(result.get("capabilities")),
        _object(result.get("serverInfo")),
        str(result.get("instructions") or ""),
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listen_params(offer: ClientIdentity, agreement: Agreement, watched: Iterable[str] = ()) -> bytes:
    """What a server of the agreed revision is asked, to be told of changes to its lists and to these resources."""
    if not eras.is_modern(agreement.version):
        return b"{}"
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in _LISTED if kind in agreement.capabilities}
    if watched:
        wanted["resourceSubscriptions"] = sorted(watched)
    meta = messages.modern_meta(offer.info, offer.capabilities)
    return encode({"notifications": wanted or {"toolsListChanged": True}, "_meta": meta})
