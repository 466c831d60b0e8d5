"""From configuration to sources: servers within their bounds, a program's own ones, and the model for errands."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.calls.approvals import Approvals
from toolcrib.calls.deputy import Deputy
from toolcrib.calls.pipeline import Subject
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import resolve, resolve_server
from toolcrib.config.secrets import secret_values, secrets_of, shown_values
from toolcrib.config.sections import ModelConfig
from toolcrib.config.sharing import main_idle_s
from toolcrib.core import skills
from toolcrib.core.clocks import elapsed
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import IsolationLevel, Transport
from toolcrib.core.names import APP_MIME, UI_EXTENSION
from toolcrib.core.network import PROXY_VARIABLES, Network
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result, SubAgents
from toolcrib.core.seal import Seal
from toolcrib.core.source import HandedLinks, Lane, Listing, LocalSource
from toolcrib.core.tasks import TaskScope
from toolcrib.isolate.helpers import Helpers
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.isolate.worker import Workers
from toolcrib.models.api import Model, ModelSettings
from toolcrib.models.choose import parse_model, with_surroundings
from toolcrib.models.sampling import sample_model
from toolcrib.sources.mcp.bounds import Isolator, from_file
from toolcrib.sources.mcp.comeback import Dial, SupervisorSettings
from toolcrib.sources.mcp.installing import InstallQueue, fetch_of
from toolcrib.sources.mcp.lanes import Lanes, Ready
from toolcrib.sources.mcp.link import CLIENT_NAME, Link, LinkEvents
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.questions import AskingRule
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.stdio_link import StdioLink
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.sources.native.functions import NativeTool
from toolcrib.sources.native.source import in_workers
from toolcrib.stores.paths import Environment, state_directory
from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec
from toolcrib.version import VERSION

if TYPE_CHECKING:
    from toolcrib.credentials.accounts import Accounts, ServerAccount


class LocalSources:
    """The sources of this process as one; of two tools with the same name, only that of the earlier source is left."""

    name = ""

    def __init__(self, sources: Sequence[LocalSource], emit: Emit) -> None:
        self._sources, self._emit = sources, emit
        self._owners: dict[str, LocalSource] = {}
        taken: set[str] = set()
        for source in sources:
            for tool in _callable(source):
                if tool.name in taken:
                    source.unregister(tool.name)
                taken.add(tool.name)
            source.on_change(self._arrange)
        self._arrange()

    def _arrange(self) -> None:
        self._owners = {tool.name: source for source in self._sources for tool in _callable(source)}

    @property
    def listing(self) -> Listing:
        """The tools right now."""
        listed = [source.listing for source in self._sources]
        others = tuple(offer for each in listed for offer in each.others)
        quiet = tuple(tool for each in listed for tool in each.quiet)
        return Listing(tuple(tool for each in listed for tool in each.tools), others=others, quiet=quiet)

    async def list_offers(self) -> Listing:
        """The tools right now, after each source had a look."""
        for source in self._sources:
            await source.list_offers()
        return self.listing

    def answer(self, call: Request) -> Coroutine[Any, Any, Result]:
        """Run one; no coroutine of its own, so that it costs a look-up and nothing else."""
        return self._owners.get(call.target, self._sources[0]).answer(call)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called whenever a tool comes or goes."""
        for source in self._sources:
            source.on_change(listener)

    def register(self, function: Callable[..., Any], /) -> Tool:
        """Add a tool to the first source; a taken name is replaced with a warning."""
        tool = self._sources[0].register(function)
        if any(source.unregister(tool.name) for source in self._sources[1:]):
            self._emit(Event("tools.registry.replaced", "warning", {"tool": tool.name}))
        return tool

    def unregister(self, name: str) -> bool:
        """Remove a tool; whether there was one."""
        return any(source.unregister(name) for source in self._sources)

    async def ailing(self) -> dict[str, str]:
        """The tools whose own health check fails, and why."""
        found = await asyncio.gather(*(source.ailing() for source in self._sources))
        return {name: why for each in found for name, why in each.items()}

    async def close(self) -> None:
        """Close them all, whatever becomes of one."""
        async with AsyncExitStack() as closing:
            for source in reversed(self._sources):
                closing.push_async_callback(source.close)


def _callable(source: LocalSource) -> tuple[Tool, ...]:
    return (*source.listing.tools, *source.listing.quiet)


EXTENSIONS = {UI_EXTENSION: {"mimeTypes": [APP_MIME]}, skills.EXTENSION: {}}
"""What servers are told that toolcrib knows when they list what they offer: some show more then. Whether this client
knows it, too, is said with each of its calls."""


class SourceMaker:
    """Makes the source for a configured server; owns what all servers of a Crib share."""

    def __init__(self, config: Config, surroundings: Environment, emit: Emit, *, prefix: bool = True) -> None:
        self.links = HandedLinks(prefix=prefix)
        """The resources that results of servers spoke of."""
        self._config, self._around, self._emit = config, surroundings, emit
        self._variables = surroundings.variables
        self.own_secrets = _own_secrets(config, surroundings)
        """What toolcrib itself is given; no server may repeat that either."""
        self.seal = Seal(elapsed)
        """For servers' own state that clients carry."""
        self.desk: Approvals | None = None
        """Where people are asked what clients cannot answer; without it nobody is."""
        self.accounts: Callable[[], Accounts] | None = None
        """The accounts at servers, loaded when one is needed; without it, servers get what is configured."""
        self._redactors: dict[str, Redactor] = {}
        self.spawner = Spawner()
        self.installs = InstallQueue(state_directory(surroundings.env) / "installs")
        """Whose turn it is among servers whose command fetches what it runs."""
        self.helpers = Helpers()
        """Processes for what would hold up the event loop, shared with the layers."""
        self.bounds = Isolator(self.spawner, surroundings.env, config.isolation, VERSION)
        self._tasks = TaskScope(self._failed)
        self._servers: dict[str, ServerConfig] = {}
        self.native_wishes: dict[str, IsolationWanted] = {}
        """How the native tools that ask for it are isolated."""

    def __call__(self, server: ServerConfig) -> McpSource:
        """The source of one server; nothing is started yet."""
        self._servers[server.name] = server
        is_plain, patience_s = server.transparent, self._config.security.ask_timeout_s
        deputy = None if self.desk is None or is_plain else self._deputy(server, self.desk)  # the client alone answers
        asking = AskingRule(server.relay, deputy, patience_s, self.seal, is_transparent=is_plain)
        known = {**asking.declared, "extensions": EXTENSIONS}
        offer = ClientIdentity({"name": CLIENT_NAME, "version": VERSION}, known, asking, server.era, is_plain)
        connect = self._config.connect
        settings = SupervisorSettings(
            delays_s=tuple(connect.delay_before_s(number) for number in range(1, connect.attempts + 1)),
            handshake_timeout_s=0.8 * server.discovery_timeout_s,  # leaves time to tell why it failed
            idle_timeout_s=main_idle_s(server),
            redactor=self._redactor(server),
            fetch=fetch_of((server.command or "", *server.args), {**self._around.env, **server.env}),
            installs=self.installs,
            first_answer_timeout_s=None if server.url is None else server.connect_timeout_s,
        )
        if server.url is not None and server.transport is None:
            settings = replace(settings, fallback=self._dialler(replace(server, transport=Transport.SSE)))
        dial = self._dialler(server)
        main, is_http = Supervisor(server.name, dial, offer, settings, self._emit), server.url is not None
        source = McpSource(server.name, main, offer, is_http=is_http, helpers=self.helpers, handed=self.links)
        source.split_into(self._lanes(server, offer, settings))
        return source

    def _deputy(self, server: ServerConfig, desk: Approvals) -> Deputy:
        """Who answers the server where a client cannot."""
        config, around = self._config.model, self._around

        async def sample(params: Mapping[str, Any]) -> Mapping[str, Any]:
            return await sample_model(open_model(None, config, around), params, config.max_tokens)

        roots = tuple((self._around.cwd / from_file(root, server)).resolve().as_uri() for root in server.roots)
        return Deputy(server.name, desk, roots, sample if config.model else None, config.sampling)

    def _lanes(self, server: ServerConfig, offer: ClientIdentity, settings: SupervisorSettings) -> Lanes:
        """Where calls go that do not share the server's process or session; none is opened yet."""

        def make(lane: Lane, ready: Ready) -> Supervisor:
            def once_ready(dial: Dial) -> Dial:
                async def dial_then(events: LinkEvents) -> Link:
                    await ready()
                    return await dial(events)

                return dial_then

            dial, sse = self._dialler(server, lane.caller), replace(server, transport=Transport.SSE)
            other = None if settings.fallback is None else once_ready(self._dialler(sse, lane.caller))
            # who closes lanes that idle is their owner, who has to forget them, too
            own = replace(settings, idle_timeout_s=0, fallback=other)
            return Supervisor(server.name, once_ready(dial), offer, own, self._emit)

        return Lanes(server, make)

    def redact(self, encoded: str) -> str:
        """Encoded arguments without what is known to be secret, or looks like it."""
        shown = shown_values(msgspec.json.decode(encoded))
        return self.hide(msgspec.json.encode(shown).decode())

    def hide(self, text: str) -> str:
        """A text without the secrets of any server."""
        for redactor in self._redactors.values():
            text = redactor.text(text)
        return text

    def _redactor(self, server: ServerConfig) -> Redactor:
        """The one of this server, with what is secret now besides what was."""
        redactor = self._redactors.setdefault(server.name, Redactor())
        redactor.add(self.own_secrets | secret_values(server, self._variables))
        return redactor

    def account_of(self, server: ServerConfig, caller: str = "") -> "ServerAccount | None":
        """The account that a caller uses at a server, if there can be one."""
        if server.url is None or self.accounts is None:
            return None
        resolved = server if "${" not in server.url else resolve_server(server, self._variables)
        return self.accounts().of(resolved, caller)

    def hide_tokens(self, server: str, tokens: tuple[str, ...]) -> None:
        """Have nobody repeat these: they are of the accounts at a server."""
        self._redactors.setdefault(server, Redactor()).add_passing(tokens)

    def _dialler(self, server: ServerConfig, caller: str = "") -> Callable[[LinkEvents], Any]:
        async def dial(events: LinkEvents) -> Link:
            resolved = resolve_server(server, self._variables)
            self._redactor(server)  # the environment may have changed
            if resolved.command is not None:
                spec = self._placed(await self.bounds.around(self._process(resolved), resolved))
                return await StdioLink.open(self.spawner, spec, events, self._tasks)
            network, account = Network.of(self._around.env), self.account_of(resolved, caller)
            if resolved.transport is Transport.SSE:
                from toolcrib.sources.mcp.sse_link import SseLink

                return await SseLink.open(resolved, events, self._tasks, network, account)
            from toolcrib.sources.mcp.http_link import HttpLink

            return await HttpLink.open(resolved, events, self._tasks, network, account)

        return dial

    def _process(self, server: ServerConfig) -> ProcessSpec:
        env = child_environment(server.env, self._around.env)
        cwd = None if server.cwd is None else from_file(server.cwd, server)
        return ProcessSpec((server.command or "", *server.args), env, cwd)

    def _placed(self, spec: ProcessSpec) -> ProcessSpec:
        """Started where the project is, as if this process were there too."""
        return replace(spec, cwd=str(self._around.cwd)) if self._around.elsewhere and spec.cwd is None else spec

    async def run_isolated(self, entry: NativeTool, call: Request) -> Result:
        """Run a native tool in a worker process."""
        return await in_workers(self.workers())(entry, call)

    def workers(self) -> Workers:
        """Who runs functions in processes of their own; none is started yet."""
        return Workers(self.spawner, self.bounds.host, self.bounds.prover, self._around.env)

    async def isolation_of(self, subject: Subject) -> IsolationLevel | None:
        """What a tool runs at; ``None`` for those of servers that are reached by an address."""
        server = self._servers.get(subject.server)
        if server is not None:
            resolved = resolve_server(server, self._variables)
            return None if server.url is not None else await self.bounds.level_of(resolved)
        wish = None if subject.server else self.native_wishes.get(subject.offer.name)
        return IsolationLevel.NONE if wish is None else await self.bounds.prover.settle(wish)

    async def close(self) -> None:
        """End the spawner, last of all."""
        await self._tasks.close()
        await self.spawner.close()

    def _failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("source.task.failed", "error", {"task": name, "error": type(error).__name__}))


def _own_secrets(config: Config, around: Environment) -> frozenset[str]:
    """The secrets that toolcrib itself is given: for models, embedders, proxies, the platform, what replicas share."""
    model, platform, kb, embedders = config.model, config.platform, config.kb, config.kb.embedders.values()
    tokens = (platform.token, *platform.tokens.values())
    keys = [("key", text) for text in (*tokens, kb.key, *(one.api_key for one in embedders))]
    written = (value for name, value in around.env.items() if name.lower() in PROXY_VARIABLES and value)
    proxies = [value if "://" in value else f"http://{value}" for value in written]
    places = (model.url, platform.endpoint, config.store.url, config.redis.url, kb.url, *(one.url for one in embedders))
    addresses = [("", text) for text in (*places, *proxies)]
    return secrets_of([*keys, *addresses], around.variables)


def model_settings(chosen: str | None, config: ModelConfig, around: Environment) -> ModelSettings:
    """The model of the command line, or else the configured one, with its key and address."""
    if chosen:
        return with_surroundings(parse_model(chosen), around.env)
    if not config.model:
        raise ConfigError(
            "There is no model to talk to.",
            hint="Name one with --model, such as --model ollama:llama3.2, or set [model] in the configuration.",
        )

    variables = around.variables

    def read(name: str) -> str:
        return resolve(getattr(config, name), variables, field=f"model.{name}")

    settings = ModelSettings(config.provider, read("model"), read("url"), read("key"), config.timeout_s)
    return with_surroundings(settings, around.env)


def model_key(config: ModelConfig, around: Environment) -> str:
    """The key of the configured model; empty if there is none."""
    try:
        return model_settings(None, config, around).key
    except ConfigError:
        return ""


def sub_agents_of(config: ModelConfig, around: Environment) -> SubAgents | None:
    """What runs sub-agents: the configured model, or ``None``."""
    if not config.model:
        return None
    from toolcrib.agents.errands import Errands

    return Errands(lambda: open_model(None, config, around), config.max_tokens)


def open_model(chosen: str | None, config: ModelConfig, around: Environment) -> Model:
    """The model of the command line, or else the configured one, ready to be asked."""
    from toolcrib.models.http_model import HttpModel

    return HttpModel(model_settings(chosen, config, around), Network.of(around.env))
