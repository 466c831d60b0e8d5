"""Everything that goes out goes through the proxy, as the environment or ``[network]`` names it.

The proxy refuses whatever it is asked for: what it was asked tells who came, and each of them must name it.
"""

import pytest
from tests.transports.http.proxying import proxying

from toolcrib.agents.errands import agent
from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, ConnectConfig, ServerConfig
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import (
    AuthConfig,
    EmbedderConfig,
    KbConfig,
    ModelConfig,
    NetworkConfig,
    PlatformConfig,
    WorkspaceConfig,
)
from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.network import Network
from toolcrib.core.requests import SubAgentTask
from toolcrib.crib.builder import open_crib
from toolcrib.crib.library import make_embedder, make_library
from toolcrib.crib.sources import SourceMaker, sub_agents_of
from toolcrib.knowledge.survey import Adding, Page
from toolcrib.platform.supply import PlatformSupply
from toolcrib.project.checks import check_network
from toolcrib.server.identity.authentication import AuthContext, make_authentication
from toolcrib.stores.paths import Environment, for_network

SECRET = "me:very-hidden-word"
OUT = "https://out.example"
PUBLIC = "https://93.184.215.14"


class NoTools:
    """An errand's, of which it has none."""

    tools = ()


async def of_a_server(config, around):
    server = ServerConfig("far", url=f"{OUT}/mcp")
    whole = Config(servers={"far": server}, connect=ConnectConfig(1, (0.0,)), network=config.network)
    async with open_crib(whole, surroundings=around) as crib:
        return (await crib.refresh("far"))["far"].error


async def of_url_fetch(config, around):
    workspace = WorkspaceConfig(enabled=True, tools=("url_fetch",))
    async with open_crib(Config(workspace=workspace, network=config.network), surroundings=around) as crib:
        return (await crib.call("url_fetch", {"url": PUBLIC})).text


async def of_a_page_for_the_knowledge_base(config, around):
    kb = KbConfig(path=str(around.cwd / "kb.db"), docs=False, embedder="none")
    library = await make_library(kb, for_network(around, config)).open()
    try:
        report = await library.ingest.add([], Adding("pages"), pages=[Page(PUBLIC)])
    finally:
        await library.close()
    return str(report.skipped)


async def of_an_embedder(config, around):
    made = make_embedder("far", EmbedderConfig("openai", "m", OUT), for_network(around, config))
    return str(await _error(made.embed_query("words")))


async def of_an_agent(config, around):
    env = {**for_network(around, config).env, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": OUT}
    async with open_crib(Config(), surroundings=around) as crib:
        return str(await _error(agent(crib, "openai:m", env=env).ask("Anything?")))


async def of_an_errand(config, around):
    errands = sub_agents_of(ModelConfig(model="m", url=OUT), for_network(around, config))
    return str(await _error(errands.run(SubAgentTask("look"), NoTools())))


async def of_a_platform(config, around):
    platform = PlatformConfig(app_id="app", endpoint=OUT, token="${T}", token_check="none", timeout_s=60)
    env = {**for_network(around, config).env, "T": "t"}
    return str(await _error(PlatformSupply(Config(platform=platform), around.cwd, env, lambda _: None)()))


async def of_keys_of_an_issuer(config, around):
    heard = []
    auth = AuthConfig("https://issuer.example", "toolcrib", f"{OUT}/jwks")
    here = AuthContext(around.env, lambda: 0.0, lambda: 0.0, heard.append)
    made = make_authentication(Config(auth=auth, network=config.network), here)
    await made.keys.refresh()
    return str(heard)


async def _error(work):
    with pytest.raises(ToolcribError) as caught:
        await work
    return caught.value


@pytest.mark.parametrize(
    "ask",
    [
        of_a_server,
        of_url_fetch,
        of_a_page_for_the_knowledge_base,
        of_an_embedder,
        of_an_agent,
        of_an_errand,
        of_a_platform,
        of_keys_of_an_issuer,
    ],
)
@pytest.mark.parametrize("by", ["environment", "configuration"])
async def test_whatever_goes_out_asks_the_proxy_and_names_it_when_it_refuses(ask, by, tmp_path):
    """Its password is told to nobody but the proxy."""
    async with proxying(secret=SECRET) as proxy:
        proxy.status = 403
        named = {"HTTPS_PROXY": proxy.url} if by == "environment" else {"CORPORATE": proxy.url}
        config = Config(network=NetworkConfig("" if by == "environment" else "${CORPORATE}"))
        env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin", **named}
        (tmp_path / "work").mkdir()
        told = await ask(config, Environment(tmp_path / "work", env))

    assert proxy.asked[0] in (f"CONNECT {host}:443 HTTP/1.1" for host in ("out.example", "93.184.215.14"))
    assert "proxy-authorization: Basic" in proxy.heads[0]
    assert f"The proxy 127.0.0.1:{proxy.port} refused to connect" in told
    assert "very-hidden-word" not in told


def test_what_the_configuration_says_counts_more_than_the_environment(tmp_path):
    """A certificate file is seen from the file it is written in; what is not said stays as it was."""
    text = """
    [network]
    proxy = "http://configured:1"
    no_proxy = ["inner.example", "10.0.0.0/8"]
    ca_file = "certs/own.pem"
    """
    config = merge(parse_toml(text, "/etc/own/toolcrib.toml"))
    before = {"https_proxy": "http://small:2", "HTTP_PROXY": "http://large:3", "SSL_CERT_DIR": "/certs"}
    found = Network.of(for_network(Environment(tmp_path, before), config).env)

    assert (found.http_proxy, found.https_proxy) == ("http://configured:1", "http://configured:1")
    assert found.no_proxy == ("inner.example", "10.0.0.0/8")
    assert (found.ca_file, found.ca_dir) == ("/etc/own/certs/own.pem", "/certs")
    assert not found.proxies_loopback
    assert Network.of(for_network(Environment(tmp_path, before), Config()).env).https_proxy == "http://small:2"


def test_what_is_on_this_machine_goes_through_the_proxy_if_the_configuration_asks(tmp_path):
    around = Environment(tmp_path, {"ALL_PROXY": "http://proxy:1"})
    asked = for_network(around, Config(network=NetworkConfig(loopback=True)))

    assert Network.of(asked.env).proxy_url("127.0.0.1", 80, tls=False) == "http://proxy:1"


@pytest.mark.parametrize("proxy", ["socks5://me:very-hidden@proxy", "me:very-hidden@proxy:1"])
def test_a_proxy_that_is_no_http_one_is_refused_where_it_is_written(proxy):
    with pytest.raises(ConfigError, match=r"network.proxy must be an address") as caught:
        parse_toml(f'[network]\nproxy = "{proxy}"', "toolcrib.toml")

    assert "very-hidden" not in str(caught.value)


def test_the_password_of_a_proxy_is_not_shown_with_the_configuration():
    config = merge(parse_toml(f'[network]\nproxy = "http://{SECRET}@proxy.example:3128"', "toolcrib.toml"))
    (shown,) = (entry.value for entry in explain(config) if entry.setting == "network.proxy")

    assert shown == "http://***@proxy.example:3128"
    assert "very-hidden" not in repr(config)


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_no_server_can_have_the_password_of_a_proxy_repeated(scheme, tmp_path):
    """Servers inherit the variables, and some print them."""
    around = Environment(tmp_path, {"HTTPS_PROXY": f"{scheme}{SECRET}@proxy.example:3128"})
    maker = SourceMaker(Config(), around, lambda _: None)
    maker(ServerConfig("files", command="true"))
    shown = maker.hide(f"cannot connect to {scheme}{SECRET}@proxy.example:3128")
    await maker.close()

    assert "very-hidden-word" not in shown


def test_doctor_says_which_proxy_and_certificates_are_used(tmp_path):
    def verdicts(**env):
        found = check_network(Config(), Environment(tmp_path, env))
        return [(check.level, check.message) for check in found]

    assert verdicts() == []
    assert verdicts(HTTPS_PROXY=f"http://{SECRET}@proxy.example:3128", NO_PROXY=".inner, 10.0.0.0/8") == [
        ("ok", "https through the proxy proxy.example:3128; directly to .inner, 10.0.0.0/8")
    ]
    assert verdicts(ALL_PROXY="socks5://proxy") == [("fail", "The proxy is a socks5 one, which toolcrib cannot use.")]
    assert verdicts(SSL_CERT_FILE="/nowhere.pem")[0][0] == "fail"
