"""Accounts where authorization servers, servers, networks and clocks are wrong: what is sent where, and what is not."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
import pytest
from tests.doubles.wrong_issuer import Asked, Told, WrongIssuer

from toolcrib import open_crib, serve
from toolcrib.config.model import Config, ConnectConfig, ServerConfig
from toolcrib.config.oauth import OAuthConfig
from toolcrib.core.errors import SignInNeeded, SourceUnavailable, ToolcribError
from toolcrib.core.events import Event
from toolcrib.core.kinds import SignInMode
from toolcrib.core.requests import Result
from toolcrib.core.tasks import TaskScope
from toolcrib.credentials.account import Account
from toolcrib.credentials.accounts import AccountSurroundings, ServerAccount
from toolcrib.credentials.oauth import CallbackRefused, Challenge, IssuerRefused, challenge_of
from toolcrib.credentials.vault import Vault, VaultKey
from toolcrib.crib.crib import Crib
from toolcrib.stores.credentials import FileCredentials
from toolcrib.stores.paths import Environment, state_directory

BACK = "http://127.0.0.1:9/oauth/callback"
REFUSED = Told({"error": "invalid_grant", "error_description": "it was revoked"}, 400)
PATIENCE_S = 150


@pytest.fixture
async def wrong() -> AsyncIterator[WrongIssuer]:
    async with WrongIssuer().listening() as issuer:
        yield issuer


@pytest.fixture
def around(tmp_path: Path) -> Environment:
    ring = "keyring.backends.null.Keyring"
    return Environment(tmp_path, {"HOME": str(tmp_path), "PYTHON_KEYRING_BACKEND": ring, "SECRET": "of-one-alone"})


def behind(wrong: WrongIssuer, **oauth: object) -> Config:
    server = ServerConfig("wrong", url=wrong.url, oauth=OAuthConfig(**oauth) if oauth else None)
    return Config(servers={"wrong": server}, connect=ConnectConfig(attempts=1))


async def begun(crib: Crib) -> dict[str, str]:
    """What the authorization server is asked in the browser."""
    return dict(parse_qsl(urlsplit((await crib.sign_ins.begin("wrong", "", redirect_uri=BACK)).url).query))


async def signed_in(crib: Crib, wrong: WrongIssuer, where: str = "one") -> dict[str, str]:
    asked = await begun(crib)
    await crib.sign_ins.answer({"code": "a-code", "state": asked["state"], "iss": wrong.issuer(where)})
    await crib.servers.refresh("wrong")
    return asked


def code_of(result: Result) -> str:
    assert result.error is not None, result
    return result.error.code


# Whose secrets go where


@pytest.mark.parametrize("client_id", ["machine", "https://me.example/client.json"])
async def test_a_clients_secret_goes_to_the_issuer_it_was_first_used_with_and_to_no_other(
    wrong: WrongIssuer, around: Environment, client_id: str
):
    """A server that was taken over names an authorization server of its own; nobody has to be there to notice."""
    machine = {"mode": SignInMode.CLIENT_CREDENTIALS, "client_id": client_id, "client_secret": "${SECRET}"}
    async with open_crib(behind(wrong, **machine), surroundings=around) as crib:
        called = await crib.call("wrong__read", {})
    wrong.issuers, wrong.good = ["two"], {}
    async with open_crib(behind(wrong, **machine), surroundings=around) as crib:
        refused = await crib.call("wrong__read", {})
    async with open_crib(behind(wrong, **machine, issuer=wrong.issuer("two")), surroundings=around) as crib:
        meant = await crib.call("wrong__read", {})

    assert called.success
    assert [each.basic for each in wrong.seen("/one/token")] == [f"{quote(client_id, safe='')}:of-one-alone"]
    assert code_of(refused) == "TOOL_AUTH_REQUIRED"
    assert "was registered at" in str(refused.error)
    assert meant.success, "the owner said that it is right"
    assert len(wrong.seen("/two/token")) == 1


async def test_a_configured_client_is_taken_to_no_other_issuer_by_a_person_either(
    wrong: WrongIssuer, around: Environment
):
    async with open_crib(behind(wrong, client_id="by-hand"), surroundings=around) as crib:
        await signed_in(crib, wrong)
        wrong.issuers, wrong.good = ["two"], {}
        await crib.servers.restart("wrong")
        with pytest.raises(IssuerRefused, match="was registered at"):
            await begun(crib)


async def test_an_account_ends_with_its_issuer_and_another_one_gets_nothing_of_it(
    wrong: WrongIssuer, around: Environment
):
    """Neither its client, nor its scopes, nor its refresh token; and the old one is asked for nothing more."""
    wrong.tokens["scope"] = "only-of-one"
    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        before = await crib.call("wrong__read", {})
        wrong.issuers, wrong.good = ["two"], {}
        refused = await crib.call("wrong__read", {})
        asked = await signed_in(crib, wrong, "two")
        after = await crib.call("wrong__read", {})

    assert before.success
    assert code_of(refused) == "TOOL_AUTH_REQUIRED"
    assert wrong.issuer("two") in str(refused.error)
    assert [each.form["grant_type"] for each in wrong.seen("/one/token")] == ["authorization_code"]
    assert asked["client_id"].startswith("two-client")
    assert "scope" not in asked
    assert after.text.startswith("ACCESS-TWO")
    sent = b"".join(each.body for each in wrong.asked if each.path.startswith("/two/"))
    assert b"one-client" not in sent
    assert b"refresh-" not in sent


async def test_a_client_is_the_address_of_its_document_only_where_that_is_looked_at(
    wrong: WrongIssuer, around: Environment
):
    config = behind(wrong, client_id="https://me.example/client.json")
    async with open_crib(config, surroundings=around) as crib:
        registered = await begun(crib)
        wrong.metadata["client_id_metadata_document_supported"] = True
        addressed = await begun(crib)

    assert registered["client_id"].startswith("one-client")
    assert addressed["client_id"] == "https://me.example/client.json"


async def test_a_client_registers_to_prove_itself_in_a_way_that_the_issuer_takes(
    wrong: WrongIssuer, around: Environment
):
    wrong.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    wrong.registered["client_secret"] = "of-the-registration"
    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)

    [registration], [redeemed] = wrong.seen("/one/register"), wrong.seen("/one/token")
    assert json.loads(registration.body)["token_endpoint_auth_method"] == "client_secret_post"
    assert redeemed.form["client_secret"] == "of-the-registration"


async def test_a_registration_that_has_ended_is_made_anew(wrong: WrongIssuer, around: Environment):
    wrong.registered |= {"client_secret": "s", "client_secret_expires_at": 1}
    async with open_crib(behind(wrong), surroundings=around) as crib:
        first, second = await begun(crib), await begun(crib)

    assert first["client_id"] != second["client_id"]


async def test_a_registration_that_is_not_known_any_more_is_made_anew_at_the_next_sign_in(
    wrong: WrongIssuer, around: Environment
):
    async with open_crib(behind(wrong), surroundings=around) as crib:
        first = await signed_in(crib, wrong)
        wrong.good.clear()
        wrong.answers["/one/token"] = Told({"error": "invalid_client"}, 401)
        refused = await crib.call("wrong__read", {})
        second = await begun(crib)

    assert code_of(refused) == "TOOL_AUTH_REQUIRED"
    assert "invalid_client" in str(refused.error)
    assert first["client_id"] != second["client_id"]


async def test_the_token_that_a_caller_has_for_toolcrib_goes_to_no_server(
    wrong: WrongIssuer, around: Environment, tmp_path: Path
):
    """A client with a token calls over MCP: what is sent on is the account's token, and only to its own server."""
    own = "a-token-that-is-for-toolcrib-alone"
    async with open_crib(behind(wrong), surroundings=around) as crib, serve(crib, port=0, token=own) as serving:
        await signed_in(crib, wrong)
        front = ServerConfig("front", url=serving.url, headers={"Authorization": f"Bearer {own}"})
        client_home = Environment(tmp_path / "client", {"HOME": str(tmp_path / "client")})
        async with open_crib(Config(servers={"front": front}), surroundings=client_home) as client:
            called = await client.call("front__wrong__read", {})

    assert called.text.startswith("ACCESS-ONE")
    assert not [each for each in wrong.asked if own in f"{each.target} {each.headers} {each.body!r}"]
    assert {each.bearer for each in wrong.seen("/mcp")} == {"", called.text.lower()}
    assert not [each for each in wrong.asked if each.path != "/mcp" and each.bearer]


async def test_a_code_is_of_use_to_nobody_else_and_a_token_is_for_this_server(wrong: WrongIssuer, around: Environment):
    """PKCE, and the resource letter by letter as the server publishes it, in each of the three requests."""
    about = {"resource": wrong.origin, "authorization_servers": [wrong.issuer()]}
    wrong.answers["/.well-known/oauth-protected-resource/mcp"] = Told(about)
    async with open_crib(behind(wrong), surroundings=around) as crib:
        asked = await signed_in(crib, wrong)
        wrong.good.clear()
        called = await crib.call("wrong__read", {})

    redeemed, renewed = wrong.seen("/one/token")
    assert called.success
    assert asked["code_challenge_method"] == "S256"
    assert asked["code_challenge"] == challenge_of(redeemed.form["code_verifier"])
    assert asked["redirect_uri"] == redeemed.form["redirect_uri"] == BACK
    assert {asked["resource"], redeemed.form["resource"], renewed.form["resource"]} == {wrong.origin}


async def test_an_answer_of_another_issuer_is_sent_nowhere(wrong: WrongIssuer, around: Environment):
    """Neither with a name that only looks the same, nor with none where one was promised."""
    async with open_crib(behind(wrong), surroundings=around) as crib:
        for said in (f"{wrong.issuer()}/", wrong.issuer("two"), wrong.issuer().upper(), None):
            asked = await begun(crib)
            answer = {"code": "a-code", "state": asked["state"]} | ({} if said is None else {"iss": said})
            with pytest.raises(CallbackRefused):
                await crib.sign_ins.answer(answer)

    assert not wrong.seen("/one/token")


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
async def test_an_issuer_without_pkce_is_not_used(wrong: WrongIssuer, around: Environment, methods: list[str] | None):
    wrong.metadata["code_challenge_methods_supported"] = methods
    async with open_crib(behind(wrong), surroundings=around) as crib:
        with pytest.raises(IssuerRefused, match="PKCE"):
            await begun(crib)


# Scopes


async def test_scopes_that_were_asked_for_and_not_granted_are_not_asked_for_again(
    wrong: WrongIssuer, around: Environment
):
    """To sign in once more would end the same way, however often."""
    wrong.scopes_needed["write"] = "admin"
    wrong.tokens["scope"] = "read"
    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        first = await crib.call("wrong__write", {})
        asked = await signed_in(crib, wrong)
        second = await crib.call("wrong__write", {})
        other = await crib.call("wrong__read", {})

    assert code_of(first) == "TOOL_AUTH_REQUIRED"
    assert set(asked["scope"].split()) == {"read", "admin"}
    assert code_of(second) == "TOOL_PERMISSION_DENIED"
    assert "did not grant" in str(second.error)
    assert other.success


async def test_scopes_that_one_process_was_refused_for_are_asked_for_by_another(
    wrong: WrongIssuer, around: Environment
):
    """`toolcrib login` is a process of its own; the one that serves goes on with what it got, untold."""
    wrong.scopes_needed["write"] = "admin"
    async with open_crib(behind(wrong), surroundings=around) as serving:
        await signed_in(serving, wrong)
        refused = await serving.call("wrong__write", {})
        async with open_crib(behind(wrong), surroundings=around) as login:
            wrong.tokens["scope"] = "read admin"
            asked = await signed_in(login, wrong)
            later = await begun(login)
        called = await serving.call("wrong__write", {})

    assert code_of(refused) == "TOOL_AUTH_REQUIRED"
    assert set(asked["scope"].split()) == {"read", "admin"}
    assert set(later["scope"].split()) == {"read", "admin"}
    assert called.success


async def test_a_machine_steps_up_by_itself_once(wrong: WrongIssuer, around: Environment):
    wrong.scopes_needed["write"] = "admin"
    machine = {"mode": SignInMode.CLIENT_CREDENTIALS, "client_id": "machine", "client_secret": "${SECRET}"}
    async with open_crib(behind(wrong, **machine), surroundings=around) as crib:
        called = await crib.call("wrong__write", {})
        wrong.scopes_needed["write"] = "more"
        wrong.tokens["scope"] = "admin"
        refused = [await crib.call("wrong__write", {}) for _ in range(6)]
        other = await crib.call("wrong__read", {})

    assert called.success
    assert other.success, "the server itself is well"
    assert {code_of(each) for each in refused} == {"TOOL_PERMISSION_DENIED"}
    assert [each.form.get("scope") for each in wrong.seen("/one/token")] == [None, "read admin", "read admin more"]


# Tokens


async def test_a_token_without_an_end_is_used_until_it_is_refused(wrong: WrongIssuer, around: Environment):
    wrong.tokens["expires_in"] = None
    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        [account] = await crib.sign_ins.kept()
        first = await crib.call("wrong__read", {})
        wrong.good.clear()
        second = await crib.call("wrong__read", {})

    assert account.ends_at is None
    assert first.text != second.text
    assert [each.form["grant_type"] for each in wrong.seen("/one/token")] == ["authorization_code", "refresh_token"]


async def test_a_token_that_the_server_refuses_whatever_is_done_is_no_endless_errand(
    wrong: WrongIssuer, around: Environment
):
    """One for another audience, say: it is renewed once for a call, and then somebody hears of it."""
    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        wrong.answers["/mcp"] = lambda asked: wrong.refuse(more=', error="invalid_token"')
        refused = await crib.call("wrong__read", {})

    assert code_of(refused) == "TOOL_AUTH_REQUIRED"
    assert "refuses the token" in str(refused.error)
    assert len(wrong.seen("/one/token")) == 2


async def test_what_a_renewal_gave_is_kept_before_it_is_used(wrong: WrongIssuer, around: Environment):
    """When the server first sees the new token, another process finds it already."""
    other = Vault(FileCredentials(state_directory(around.env)), VaultKey(around.env))
    kept: dict[str, str] = {}

    async def look(asked: Asked) -> Told:
        if asked.bearer not in kept:
            [(_, account)] = await other.entries("account:", Account)
            kept[asked.bearer] = account.tokens.access_token
        return wrong.serve(asked)

    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        wrong.good.clear()
        wrong.answers["/mcp"] = look
        called = await crib.call("wrong__read", {})

    assert kept[called.text.lower()] == called.text.lower()
    assert len(kept) == 2


async def test_what_fails_for_now_costs_no_token_and_the_old_one_goes_on(wrong: WrongIssuer, around: Environment):
    """It is renewed long before its end; the issuer cannot, and cuts the line instead of answering, too."""
    tried = asyncio.Event()

    def fail(_: Asked) -> Told:
        tried.set()
        return Told({"error": "temporarily_unavailable"}, 503)

    wrong.tokens["expires_in"] = 20
    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        wrong.answers["/one/token"] = fail
        first = await crib.call("wrong__read", {})
        async with asyncio.timeout(PATIENCE_S):
            await tried.wait()
        second = await crib.call("wrong__read", {})
        wrong.good.clear()
        wrong.answers["/one/token"] = cut
        third = await crib.call("wrong__read", {})
        del wrong.answers["/one/token"]
        [account] = await crib.sign_ins.kept()
        await crib.servers.refresh("wrong")
        fourth = await crib.call("wrong__read", {})

    assert first.text == second.text
    assert code_of(third) == "TOOL_UNAVAILABLE"
    assert account.tokens.refresh_token
    assert fourth.success


def cut(_: Asked) -> Told:
    raise ConnectionError


async def test_a_refused_renewal_is_believed_only_after_another_look(wrong: WrongIssuer, around: Environment):
    """If somebody else renewed meanwhile, theirs is used; else a person has to sign in, and hears why."""
    other = Vault(FileCredentials(state_directory(around.env)), VaultKey(around.env))

    async def renewed_elsewhere(_: Asked) -> Told:
        [(name, account)] = await other.entries("account:", Account)
        wrong.good["of-another"] = "read"
        tokens = msgspec.structs.replace(account.tokens, access_token="of-another", refresh_token="next")
        await other.put(name, msgspec.structs.replace(account, tokens=tokens))
        return REFUSED

    async with open_crib(behind(wrong), surroundings=around) as crib:
        await signed_in(crib, wrong)
        wrong.good.clear()
        wrong.answers["/one/token"] = renewed_elsewhere
        called = await crib.call("wrong__read", {})
        wrong.good.clear()
        wrong.answers["/one/token"] = REFUSED
        refused = await crib.call("wrong__read", {})
        again = await crib.call("wrong__read", {})
        [account] = await crib.sign_ins.kept()

    assert called.text == "OF-ANOTHER"
    assert code_of(refused) == code_of(again) == "TOOL_AUTH_REQUIRED"
    assert "it was revoked" in str(refused.error)
    assert "it was revoked" in account.error
    assert len(wrong.seen("/one/token")) == 3, "what was refused for good is not tried again"


async def test_a_code_that_is_refused_signs_nobody_in(wrong: WrongIssuer, around: Environment):
    wrong.answers["/one/token"] = REFUSED
    async with open_crib(behind(wrong), surroundings=around) as crib:
        with pytest.raises(IssuerRefused, match="it was revoked"):
            await signed_in(crib, wrong)
        kept = await crib.sign_ins.kept()

    assert kept == []


async def test_no_token_endpoint_hands_a_request_on(wrong: WrongIssuer, around: Environment):
    """A redirect would take code and secrets elsewhere."""
    wrong.answers["/one/token"] = Told(status=307, headers={"location": f"{wrong.origin}/two/token"})
    async with open_crib(behind(wrong), surroundings=around) as crib:
        with pytest.raises(ToolcribError):
            await signed_in(crib, wrong)

    assert not wrong.seen("/two/token")


@pytest.mark.parametrize("answer", [REFUSED, Told({"access_token": "a", "token_type": "N_A"}), Told(b"<html>")])
async def test_an_assertion_that_is_configured_is_shown_once_and_its_refusal_told(
    wrong: WrongIssuer, around: Environment, answer: Told
):
    """Of a workload: no other way is tried, and not the same again."""
    around.env["WORD"] = "who-this-is"
    workload = {"mode": SignInMode.IDENTITY_ASSERTION, "client_id": "workload", "subject_token": "${WORD}"}
    async with open_crib(behind(wrong, **workload), surroundings=around) as crib:
        called = await crib.call("wrong__read", {})
    wrong.answers["/one/token"] = answer
    wrong.asked.clear()
    wrong.good.clear()
    async with open_crib(behind(wrong, **workload), surroundings=around) as crib:
        refused = await crib.call("wrong__read", {})

    assert called.success
    assert not refused.success
    [asked] = wrong.seen("/one/token")
    assert asked.form["assertion"] == "who-this-is"
    assert asked.form["grant_type"].endswith(":jwt-bearer")


# Clocks


class Clocks:
    """Both clocks of a machine that somebody sets, or that sleeps."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1_000_000.0, 0.0


class SleepyStore(FileCredentials):
    """Of a machine that falls asleep as soon as it was given the right to renew."""

    def __init__(self, directory: Path, clocks: Clocks) -> None:
        super().__init__(directory)
        self._clocks, self.sleeps_s = clocks, 0.0

    async def claim(self, name: str, owner: str, for_s: float) -> bool:
        given = await super().claim(name, owner, for_s)
        self._clocks.steady_s += self.sleeps_s
        return given


class Machine:
    """An account without a Crib around it."""

    def __init__(self, wrong: WrongIssuer, around: Environment) -> None:
        self.clocks, self.told = Clocks(), list[Event]()
        self.store = SleepyStore(state_directory(around.env), self.clocks)
        vault = Vault(self.store, VaultKey(around.env))
        surroundings = AccountSurroundings(
            vault, around.env, self.told.append, lambda: self.clocks.wall_s, lambda: self.clocks.steady_s
        )
        self.tasks = TaskScope(lambda name, error: None)
        self.account = ServerAccount(ServerConfig("wrong", url=wrong.url), "owner", surroundings, self.tasks)

    async def keep(self, wrong: WrongIssuer, **tokens: object) -> None:
        """An account that was signed in to a moment ago."""
        about = {"provider": wrong.about("one"), "client": {"client_id": "me"}}
        times = {"obtained_at": self.clocks.wall_s, "signed_in_at": self.clocks.wall_s}
        said = {"access_token": "first", "refresh_token": "r", "life_s": 1000.0, **tokens}
        whose = {"server": "wrong", "url": wrong.url, "user": "owner"}
        made = msgspec.convert({**whose, **about, **times, "tokens": said}, Account)
        await self.account.surroundings.vault.put(self.account.name, made)


@pytest.mark.parametrize(("wall_off_s", "is_ended"), [(-500_000.0, False), (999.0, False), (1001.0, True)])
async def test_a_clock_that_is_off_ends_no_token_late_and_makes_none_immortal(
    wrong: WrongIssuer, around: Environment, wall_off_s: float, is_ended: bool
):
    """Set back, the token lives no longer than it was given for; set forward, it is renewed before it is used."""
    machine = Machine(wrong, around)
    await machine.keep(wrong)
    machine.clocks.wall_s += wall_off_s
    line = await machine.account.ready()
    machine.account.close()
    await machine.tasks.close()

    assert (line != b"Bearer first") is is_ended
    assert len(wrong.seen("/one/token")) == is_ended


async def test_who_slept_while_it_could_renew_does_not_spend_what_another_may_have_spent(
    wrong: WrongIssuer, around: Environment
):
    machine = Machine(wrong, around)
    await machine.keep(wrong)
    machine.store.sleeps_s = 3600.0
    with pytest.raises(SourceUnavailable, match="not renewed in time"):
        await machine.account.after_refusal(b"Bearer first", Challenge("invalid_token"))
    spent = wrong.seen("/one/token")
    machine.store.sleeps_s = 0.0
    line = await machine.account.after_refusal(b"Bearer first", Challenge("invalid_token"))
    machine.account.close()
    await machine.tasks.close()

    assert spent == []
    assert line.startswith(b"Bearer access-one")


async def test_nobody_to_renew_with_means_that_somebody_signs_in(wrong: WrongIssuer, around: Environment):
    machine = Machine(wrong, around)
    await machine.keep(wrong, refresh_token="")
    with pytest.raises(SignInNeeded, match="needs somebody to sign in"):
        await machine.account.after_refusal(b"Bearer first", Challenge("invalid_token"))
    await machine.tasks.close()

    assert wrong.seen("/one/token") == []


async def test_a_line_to_the_issuer_that_is_cut_is_no_lost_call(wrong: WrongIssuer, around: Environment):
    """Else a call that its server refused, and so never carried out, would be told as one that may have run."""
    machine = Machine(wrong, around)
    await machine.keep(wrong)
    wrong.answers["/one/token"] = cut
    with pytest.raises(SourceUnavailable) as caught:
        await machine.account.after_refusal(b"Bearer first", Challenge("invalid_token"))
    machine.account.close()
    await machine.tasks.close()

    assert type(caught.value) is SourceUnavailable
    assert len(wrong.seen("/one/token")) == 1
