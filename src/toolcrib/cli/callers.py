"""Whoever comes in: from a token, a JWT or nothing at all to a caller and what that caller may reach."""

import hmac
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from toolcrib.config.sections import AccessConfig
from toolcrib.core.access import EVERYTHING, NOTHING, OWNER_ID, Caller, Grants
from toolcrib.core.errors import ConfigError, StoreUnavailable
from toolcrib.core.tool import SecurityLevel
from toolcrib.stores.access_tokens import PREFIX, TokenBook
from toolcrib.transports.http.message import Refusal

if TYPE_CHECKING:
    from toolcrib.server.identity.jwt import Claims, JwtGate

OWNER = Caller(OWNER_ID, "token", EVERYTHING)
PERSON = Caller("owner@page", "local", EVERYTHING)
"""The owner at the page: somebody else than the clients that carry the owner's token."""
NOBODY = Caller("nobody", "token", NOTHING)
SCOPE = "toolcrib:"
KNOWN_MAX = 1024
_OURS = PREFIX.encode()

TOKENS_UNREADABLE = Refusal(
    503,
    "HTTP_TOKENS_UNREADABLE",
    "The server cannot read its tokens right now, so none of them is accepted. Tell whoever runs it.",
    ((b"retry-after", b"30"),),
)


def local_caller(access: AccessConfig, *, is_agent: bool) -> Caller:
    """Whoever comes without a token, where none is needed."""
    wanted = Grants(access.level, access.servers, access.tools)
    return Caller("local", "agent" if is_agent else "local", EVERYTHING if wanted == EVERYTHING else wanted)


def grants_of(scope: Iterable[str]) -> Grants:
    """What the words of a JWT's scope grant; without a level, or with a word of ours nobody knows, nothing.

    A word that is not understood may have been meant as a limit, so it must not be passed over.
    """
    found: dict[str, list[str]] = {"level": [], "server": [], "tool": [], "capability": []}
    for word in scope:
        kind, _, value = word.removeprefix(SCOPE).partition(":")
        if not word.startswith(SCOPE):
            continue
        if kind not in found or not value:
            return NOTHING
        found[kind].append(value)
    levels = [level for level in SecurityLevel if level in found["level"]]
    if len(levels) != len(set(found["level"])) or not levels:
        return NOTHING
    return Grants(
        level=levels[-1],
        servers=tuple(found["server"]) or ("*",),
        tools=tuple(found["tool"]) or ("*",),
        capabilities=frozenset(found["capability"]) if found["capability"] else None,
    )


class Callers:
    """Everybody who may come in with a token."""

    def __init__(self, owner: str, kept: TokenBook, jwt: "JwtGate | None", now: Callable[[], float]) -> None:
        self._owner, self._kept, self._jwt, self._now = owner.encode(), kept, jwt, now
        self._subjects: dict[Claims, Caller] = {}
        self._ends: dict[tuple[str, Grants], int] = {}
        """When the last token of each subject that came in expires, by what it grants."""
        self._ends_max = KNOWN_MAX

    def identify(self, presented: bytes) -> Caller | Refusal | None:
        """Who sends this token; ``None`` for nobody."""
        if presented.startswith(_OURS):
            try:
                found = self._kept.identify(presented)
            except (ConfigError, StoreUnavailable):
                return TOKENS_UNREADABLE
            if found is not None:
                return found
        if hmac.compare_digest(presented, self._owner):
            return OWNER
        return self._subject(presented) if self._jwt is not None and presented.count(b".") == 2 else None

    def is_current(self, caller: Caller) -> bool:
        """Whether a caller that came in some time ago may still do so."""
        kind, _, rest = caller.id.partition(":")
        if kind == "token":
            return self._kept.is_active(rest)
        return kind != "jwt" or self._ends.get((caller.id, caller.grants), 0) > self._now()

    def may_stay(self, caller: Caller) -> bool:
        """Whether what a caller has under way goes on: not knowing for certain is no reason to end it."""
        kind, _, token_id = caller.id.partition(":")
        return not self._kept.has_ended(token_id) if kind == "token" else self.is_current(caller)

    def _subject(self, presented: bytes) -> Caller | Refusal | None:
        claims = self._jwt.check(presented) if self._jwt is not None else None
        if claims is None or isinstance(claims, Refusal):
            return claims
        return self._subjects.get(claims) or self._remember(claims)

    def _remember(self, claims: "Claims") -> Caller:
        caller = Caller(f"jwt:{claims.subject}", "token", grants_of(claims.scope))
        if len(self._subjects) >= KNOWN_MAX:
            self._subjects.clear()
        if len(self._ends) >= self._ends_max:
            now = self._now()
            self._ends = {subject: end for subject, end in self._ends.items() if end > now}
            self._ends_max = max(KNOWN_MAX, 2 * len(self._ends))
        self._subjects[claims] = caller
        known = caller.id, caller.grants
        self._ends[known] = max(claims.expires, self._ends.get(known, 0))
        return caller
