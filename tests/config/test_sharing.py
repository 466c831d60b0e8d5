"""Who shares a server, where its configuration does not say so."""

import pytest

from toolcrib.config.model import ServerConfig
from toolcrib.config.sharing import (
    COMMAND_LANES,
    STATEFUL,
    URL_LANES,
    Sharing,
    known_stateful,
    lanes_of,
    main_idle_s,
    sharing_of,
    sharing_words,
)
from toolcrib.core.kinds import Share


def server(*words: str, **fields: object) -> ServerConfig:
    command, *args = words
    return ServerConfig("srv", command=command, args=tuple(args), **fields)


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (("npx", "-y", "@playwright/mcp@latest", "--headless"), "@playwright/mcp"),
        (("npx", "@playwright/mcp"), "@playwright/mcp"),
        (("npx", "--package=@playwright/mcp@0.0.40", "mcp-server-playwright"), "@playwright/mcp"),
        (("npx", "-p", "@playwright/mcp", "other"), "@playwright/mcp"),
        (("pnpm", "dlx", "chrome-devtools-mcp@latest"), "chrome-devtools-mcp"),
        (("bunx", "@modelcontextprotocol/server-puppeteer"), "@modelcontextprotocol/server-puppeteer"),
        (("node", "/opt/node_modules/@playwright/mcp/cli.js"), "@playwright/mcp"),
        (("C:\\node\\npx.cmd", "-y", "@Playwright/MCP"), "@playwright/mcp"),
        (("cmd", "/c", "npx", "-y", "@playwright/mcp"), "@playwright/mcp"),
        (("/home/me/.local/bin/mcp-server-playwright",), "mcp-server-playwright"),
        (("uvx", "browser-use[cli]==0.7", "--mcp"), "browser-use"),
        (("uvx", "--from", "jupyter-mcp-server>=1", "start"), "jupyter-mcp-server"),
        (("uv", "tool", "run", "mcp-python-interpreter"), "mcp-python-interpreter"),
        (("python3", "-m", "terminal_controller"), "terminal-controller"),
        (("docker", "run", "-i", "--rm", "-e", "A=b", "mcr.microsoft.com/playwright/mcp:v1"), "playwright/mcp"),
        (("docker", "run", "-i", "mcp/puppeteer"), "mcp/puppeteer"),
    ],
)
def test_servers_that_keep_state_are_known_however_they_are_started(words, package):
    """By a runner, by a path, in a container, with or without a version."""
    assert known_stateful(server(*words)) == package
    assert sharing_of(server(*words)) == Sharing(Share.SESSION, f"{package} is known to keep state")


@pytest.mark.parametrize(
    "words",
    [
        ("npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/playwright-mcp"),
        ("npx", "-y", "some-server", "@playwright/mcp"),
        ("uvx", "mcp-server-time"),
        ("docker", "run", "-v", "/home/mcp/puppeteer:/data", "mcp/time"),
        ("my-server", "browser-use"),
        ("python", "server.py"),
        ("",),
    ],
)
def test_what_only_mentions_such_a_server_is_none(words):
    """A directory or an argument of another program."""
    assert (known_stateful(server(*words)), sharing_of(server(*words)).share) == ("", Share.ALL)


def test_what_is_configured_counts_then_what_is_known():
    """A server that asks is not shared, unless it is to be."""
    browser = server("npx", "@playwright/mcp", share="all")

    assert sharing_of(browser, asks=True) == Sharing(Share.ALL, "configured")
    assert sharing_of(server("x", share="user")) == Sharing(Share.USER, "configured")
    assert sharing_of(server("x", share="auto"), asks=True).share is Share.SESSION
    assert sharing_of(ServerConfig("a", url="https://playwright.example/mcp")).share is Share.ALL


def test_there_are_more_lanes_where_no_process_is_needed():
    """Unless the configuration says how many."""
    at_url = ServerConfig("a", url="https://example.com/mcp")

    assert (lanes_of(server("x")), lanes_of(at_url)) == (COMMAND_LANES, URL_LANES) == (8, 64)
    assert lanes_of(server("x", lanes=2)) == 2


def test_a_process_that_is_only_asked_for_its_tools_is_not_kept_for_long():
    """Unless servers are to be kept running."""
    kept = [main_idle_s(server("x", share=share, idle_timeout_s=s)) for share, s in (("all", 600.0), ("user", 600.0))]

    assert kept == [600.0, 30.0]
    assert main_idle_s(server("x", share="session", idle_timeout_s=0.0)) == 0.0


@pytest.mark.parametrize("share", Share)
def test_it_can_be_said_in_a_sentence(share):
    """For a process and for a session with a server elsewhere."""
    words = [sharing_words(one, Sharing(share, "why")) for one in (server("x"), ServerConfig("a", url="https://a.b/c"))]

    assert (" process " in words[0], " process " in words[1]) == (True, False)
    assert all(word.endswith(": why.") for word in words)


def test_the_table_is_written_as_it_is_looked_up():
    """In lower case, with hyphens, without versions."""
    assert all(name == name.lower() and "_" not in name and "@" not in name[1:] for name in STATEFUL)
