"""Who needs a token, decided at start: whatever is doubtful is an error or a closed door."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.transports.issuer import jwks

from toolcrib.config.model import Config, Origin
from toolcrib.config.sections import AccessConfig, AuthConfig
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import drop
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity.authentication import NOBODY, OWNER, AuthContext, Authentication, make_authentication
from toolcrib.stores.access_tokens import TOKENS_NAME, NewToken, TokenFile
from toolcrib.stores.paths import state_directory
from toolcrib.testing import ManualClock

TOKEN = "a-token-of-my-own-choosing"
ISSUER = AuthConfig("https://issuer.example", "toolcrib", "https://issuer.example/keys")


class Start:
    """A start in an empty home."""

    def __init__(self, home: Path) -> None:
        self.home, self.env = home, {"HOME": str(home)}
        self.clock = ManualClock(1_000_000.0)

    @property
    def tokens(self) -> TokenFile:
        return TokenFile(state_directory(self.env) / TOKENS_NAME, self.clock)

    def __call__(self, config: Config | None = None, **flags: object) -> Authentication:
        return make_authentication(config or Config(), AuthContext(self.env, self.clock, self.clock, drop), **flags)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def test_on_this_machine_no_token_is_needed(start):
    """Whoever can reach it could run the tools anyway; nothing is written."""
    entrance = start()

    assert (entrance.caller, entrance.identify) == (Caller("local", "local", EVERYTHING), None)
    assert list(start.home.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "flags", "env"),
    [
        (Config(host="0.0.0.0"), {}, {}),
        (Config(), {"token": TOKEN}, {}),
        (Config(), {}, {"TOOLCRIB_TOKEN": TOKEN}),
        (Config(auth=ISSUER), {}, {}),
        (Config(auth_mode="required"), {}, {}),
    ],
    ids=["another address", "a flag", "a variable", "an issuer", "required"],
)
def test_a_token_is_needed_where_somebody_else_may_come_or_somebody_wants_it(start, config, flags, env):
    """Then the owner's token exists, and whoever has none may do nothing."""
    start.env.update(env)

    entrance = start(config, **flags)

    assert entrance.caller is NOBODY
    assert entrance.identify(entrance.owner.value.encode()) is OWNER
    assert entrance.identify(b"") is None


@pytest.mark.parametrize("end", ["active", "expired", "revoked"])
def test_a_token_is_needed_once_one_was_given_to_anybody(start, end):
    """Also after it has ended: revoking the last token must not open the door to everybody."""
    start.tokens.create(NewToken("ci", Grants(SecurityLevel.WRITE), lifetime_s=60))
    if end == "expired":
        start.clock.advance(60)
    elif end == "revoked":
        start.tokens.revoke("ci")

    assert start().identify is not None
    assert start(Config(auth_mode="none")).identify is None


def test_a_damaged_file_of_tokens_is_told_at_start(start):
    """Nothing is served, least of all without tokens."""
    start.tokens.create(NewToken("ci", Grants(SecurityLevel.WRITE)))
    start.tokens.path.write_text("{")

    with pytest.raises(ConfigError, match="damaged"):
        start()
    with pytest.raises(ConfigError, match="damaged"):
        start(Config(host="0.0.0.0"))


def test_everybody_is_let_in_from_elsewhere_only_if_that_is_said_twice(start):
    """By the file and by the flag."""
    config = Config(host="0.0.0.0", auth_mode="none")

    with pytest.raises(ConfigError, match="--insecure"):
        start(config)
    assert start(config, insecure=True).identify is None
    assert start(replace(config, auth_mode="auto"), insecure=True).identify is not None


@pytest.mark.parametrize(
    ("config", "flags", "names"),
    [
        (Config(auth_mode="none"), {"token": TOKEN}, "--token"),
        (Config(auth_mode="none", auth=ISSUER), {}, r"\[auth\]"),
    ],
)
def test_no_token_and_a_token_cannot_both_be_wanted(start, config, flags, names):
    """Both are named."""
    with pytest.raises(ConfigError, match=names):
        start(config, **flags)


@pytest.mark.parametrize("missing", ["issuer", "audience", "jwks"])
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_half_an_issuer_is_an_error(start, missing, mode):
    """A token that is checked for less than meant is worse than none."""
    with pytest.raises(ConfigError, match=missing):
        start(Config(auth_mode=mode, auth=replace(ISSUER, **{missing: ""})))


def test_what_checks_jwts_must_be_installed(start, monkeypatch):
    """The complaint says how."""
    monkeypatch.setattr("toolcrib.server.identity.jwt.find_spec", lambda _: None)

    with pytest.raises(ConfigError, match="toolcrib extras add jwt"):
        start(Config(auth=ISSUER))


def test_a_file_of_keys_is_seen_from_the_configuration(start):
    """A missing one is told at start."""
    (start.home / "keys.json").write_bytes(jwks("rsa"))
    origins = {"auth.jwks": Origin(str(start.home / "toolcrib.toml"), 3)}

    entrance = start(Config(auth=replace(ISSUER, jwks="keys.json"), origins=origins))

    assert entrance.keys is not None
    with pytest.raises(ConfigError, match=r"other\.json"):
        start(Config(auth=replace(ISSUER, jwks="other.json"), origins=origins))


def test_whoever_comes_without_a_token_is_limited_as_configured(start):
    """And may be marked as an agent."""
    config = Config(access=AccessConfig(SecurityLevel.READ_ONLY, ("docs",), ("docs__*",)))

    assert start(config, is_agent=True).caller == Caller(
        "local", "agent", Grants(SecurityLevel.READ_ONLY, ("docs",), ("docs__*",))
    )
