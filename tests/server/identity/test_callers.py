"""From a token, a JWT or nothing to a caller: deny by default, and no doubt is decided in the caller's favour."""

from pathlib import Path

import pytest
from tests.transports.issuer import AUDIENCE, ISSUER, NOW, claims, jwks, signed

from toolcrib.config.sections import AccessConfig
from toolcrib.core.access import EVERYTHING, NOTHING, Caller, Grants
from toolcrib.core.events import drop
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity import authentication
from toolcrib.server.identity.authentication import OWNER, TOKENS_UNREADABLE, Callers, grants_of, local_caller
from toolcrib.server.identity.jwt import KEYS_PENDING, JwtGate, JwtPolicy, KeyRing
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.postgres.tokens import COUNTS_S, PgTokens
from toolcrib.testing import ManualClock

WRITE = SecurityLevel.WRITE
LIFETIMES = (("lasting", None), ("short", 80))


@pytest.mark.parametrize(
    ("scope", "grants"),
    [
        ("toolcrib:level:write", Grants(WRITE)),
        ("openid profile toolcrib:level:write", Grants(WRITE)),
        ("toolcrib:level:read_only toolcrib:level:write", Grants(WRITE)),
        (
            "toolcrib:level:write toolcrib:server:github toolcrib:tool:github__* toolcrib:capability:net",
            Grants(WRITE, ("github",), ("github__*",), frozenset({"net"})),
        ),
        ("toolcrib:level:write toolcrib:server:a toolcrib:server:b", Grants(WRITE, ("a", "b"))),
        ("", NOTHING),
        ("openid", NOTHING),
        ("toolcrib:server:github", NOTHING),
        ("toolcrib:level:root", NOTHING),
        ("toolcrib:level:root toolcrib:level:write", NOTHING),
        ("toolcrib:level:", NOTHING),
        ("toolcrib:level:WRITE", NOTHING),
        ("toolcrib:level:write toolcrib:servers:github", NOTHING),
        ("toolcrib:level:write toolcrib:", NOTHING),
        ("toolcrib:level:write toolcrib:server:", NOTHING),
        ("xtoolcrib:level:system", NOTHING),
    ],
)
def test_the_words_of_a_scope_grant_what_they_say(scope, grants):
    """Without a level nothing; a word of ours that is not understood may have been a limit, so nothing as well."""
    assert grants_of(scope.split()) == grants


def test_whoever_comes_without_a_token_is_limited_by_the_configuration():
    """Not at all by default."""
    assert local_caller(AccessConfig(), is_agent=False) == Caller("local", "local", EVERYTHING)
    assert local_caller(AccessConfig(), is_agent=False).grants is EVERYTHING
    assert local_caller(AccessConfig(WRITE, ("a",), ("b",)), is_agent=True) == Caller(
        "local", "agent", Grants(WRITE, ("a",), ("b",))
    )


class AuthContext:
    """Callers with an owner, a file of tokens and an issuer."""

    def __init__(self, path: Path, keys: KeyRing) -> None:
        self.clock = ManualClock(NOW)
        self.kept = TokenFile(path, self.clock)
        gate = JwtGate(JwtPolicy(ISSUER, AUDIENCE, ("RS256",)), keys, self.clock)
        self.callers = Callers("the-owner's-token", self.kept, gate, self.clock)


@pytest.fixture
async def here(tmp_path: Path) -> AuthContext:
    async def fetch() -> bytes:
        return jwks("rsa")

    keys = KeyRing(fetch, drop, ManualClock())
    await keys.refresh()
    return AuthContext(tmp_path / "tokens.json", keys)


async def test_each_kind_of_token_has_its_own_caller(here):
    """The owner may do everything; what is none of ours is nobody's."""
    token, text = here.kept.create(NewToken("ci", Grants(WRITE), "agent"))
    presented = [b"the-owner's-token", text.encode(), signed(claims(scope="toolcrib:level:write")), signed()]

    assert [here.callers.identify(one) for one in presented] == [
        OWNER,
        token.caller,
        Caller("jwt:ann", "token", Grants(WRITE)),
        Caller("jwt:ann", "token", NOTHING),
    ]
    assert Caller("owner", "token", EVERYTHING) == OWNER
    assert [here.callers.identify(one) for one in (b"", b"the-owner", b"tc_x_y", b"a.b.c", b"\xff")] == [None] * 5


async def test_a_damaged_file_closes_the_door_for_its_tokens(here):
    """The answer says that it is not the client's fault; nobody else comes in by it."""
    _, text = here.kept.create(NewToken("ci", Grants(WRITE)))
    here.kept.path.write_text("{")

    assert here.callers.identify(text.encode()) is TOKENS_UNREADABLE
    assert here.callers.identify(b"tc_000000000000_") is TOKENS_UNREADABLE
    assert here.callers.identify(b"the-owner's-token") is OWNER
    assert here.callers.identify(b"") is None


async def test_callers_stay_until_their_tokens_end(here):
    """By revocation, by expiry; the owner always stays."""
    here.kept.create(NewToken("ci", Grants(WRITE)))
    _, text = here.kept.create(NewToken("short", Grants(WRITE), lifetime_s=60))
    ci = here.kept.read()[0].caller
    short, ann = here.callers.identify(text.encode()), here.callers.identify(signed())
    everyone = [OWNER, ci, short, ann]
    before = [here.callers.is_current(caller) for caller in everyone]
    here.kept.revoke("ci")
    here.clock.advance(60)
    later = [here.callers.is_current(caller) for caller in everyone]
    here.clock.advance(600)

    assert (before, later) == ([True] * 4, [True, False, False, True])
    assert not here.callers.is_current(ann)


def test_what_a_caller_has_under_way_goes_on_while_nobody_can_say_whether_its_token_still_works(store_settings):
    """Nobody comes in then; a token that ended by the last that was known is seen off all the same."""
    clock, steady = ManualClock(NOW), ManualClock(0.0)
    kept = PgTokens(store_settings, clock, steady)
    known = Callers("the-owner's-token", kept, None, clock)
    lasting, short = (kept.create(NewToken(name, Grants(WRITE), lifetime_s=end)) for name, end in LIFETIMES)
    steady.advance(COUNTS_S + 1)
    before = [known.may_stay(token.caller) for token, _ in (lasting, short)]
    clock.advance(90)

    assert [known.identify(text.encode()) for _, text in (lasting, short)] == [TOKENS_UNREADABLE] * 2
    assert not known.is_current(lasting[0].caller)
    assert (before, [known.may_stay(token.caller) for token, _ in (lasting, short)]) == ([True] * 2, [True, False])


async def test_a_fresh_jwt_keeps_its_subject_here(here):
    """Clients renew them long before a session ends."""
    ann = here.callers.identify(signed())
    here.clock.advance(500)
    here.callers.identify(signed(claims(iat=NOW + 500, exp=NOW + 1100)))
    here.clock.advance(500)

    assert here.callers.is_current(ann)


async def test_a_fresh_jwt_that_grants_less_does_not_keep_what_was_granted_before(here):
    """Whoever signed in with the wider one is out when that one ends."""
    wide = here.callers.identify(signed(claims(scope="toolcrib:level:admin")))
    here.clock.advance(500)
    narrow = here.callers.identify(signed(claims(iat=NOW + 500, exp=NOW + 1100, scope="toolcrib:level:read_only")))
    here.clock.advance(500)

    assert [here.callers.is_current(caller) for caller in (wide, narrow)] == [False, True]


async def test_the_caller_of_a_jwt_is_the_same_object_each_time(here):
    """Whoever compares callers need not compare their grants."""
    token = signed()

    assert here.callers.identify(token) is here.callers.identify(token)


async def test_expired_subjects_are_forgotten(here, monkeypatch):
    """Memory does not grow with every token that ever came in."""
    monkeypatch.setattr(authentication, "KNOWN_MAX", 3)
    here.callers._ends_max = 3
    for number in range(10):
        here.clock.advance(700)
        here.callers.identify(signed(claims(sub=f"s{number}", iat=NOW + 700 * number, exp=NOW + 700 * number + 800)))

    assert len(here.callers._subjects) <= 3
    assert len(here.callers._ends) <= 4


async def test_while_the_issuers_keys_are_fetched_others_come_in(tmp_path):
    """A slow issuer is no reason to keep the owner out."""

    async def fetch() -> bytes:
        return jwks("rsa")

    here = AuthContext(tmp_path / "tokens.json", KeyRing(fetch, drop, ManualClock()))

    assert here.callers.identify(signed()) is KEYS_PENDING
    assert here.callers.identify(b"the-owner's-token") is OWNER
