"""From configuration to sources: servers within their bounds, and the model for errands."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from toolcrib.calls.pipeline import Subject
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import Environment, resolve, resolve_server
from toolcrib.config.secrets import secret_values, secrets_of, shown_values
from toolcrib.config.sections import ModelConfig
from toolcrib.core.call import SubAgents, ToolCall, ToolResult
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event
from toolcrib.core.tasks import TaskScope
from toolcrib.isolate.helpers import Helpers
from toolcrib.isolate.levels import IsolationLevel, IsolationWanted
from toolcrib.models.api import ModelSettings
from toolcrib.models.choose import parse_model, with_surroundings
from toolcrib.sources.mcp.bounds import Isolator, from_file
from toolcrib.sources.mcp.link import CLIENT_NAME, Link, LinkEvents
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.stdio_link import StdioLink
from toolcrib.sources.mcp.supervise import Supervisor, SupervisorSettings
from toolcrib.sources.native.functions import NativeTool
from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec
from toolcrib.version import VERSION


class SourceMaker:
    """Makes the source for a configured server; owns what all servers of a Crib share."""

    def __init__(self, config: Config, surroundings: Environment, emit: Emit) -> None:
        self._config, self._around, self._emit = config, surroundings, emit
        self.own_secrets = _own_secrets(config, surroundings)
        """What toolcrib itself is given; no server may repeat that either."""
        self._redactors: dict[str, Redactor] = {}
        self.spawner = Spawner()
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
        capabilities: dict[str, Any] = {name: {} for name in server.relay}
        offer = ClientIdentity({"name": CLIENT_NAME, "version": VERSION}, capabilities)
        connect = self._config.connect
        settings = SupervisorSettings(
            delays_s=tuple(connect.delay_before_s(number) for number in range(1, connect.attempts + 1)),
            handshake_timeout_s=0.8 * server.discovery_timeout_s,  # leaves time to tell why it failed
            idle_timeout_s=server.idle_timeout_s,
            redactor=self._redactor(server),
        )
        supervisor = Supervisor(server.name, self._dialler(server), offer, settings, self._emit)
        return McpSource(server.name, supervisor, offer, is_http=server.url is not None, helpers=self.helpers)

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
        redactor.add(self.own_secrets | secret_values(server, self._around.env))
        return redactor

    def _dialler(self, server: ServerConfig) -> Callable[[LinkEvents], Any]:
        async def dial(events: LinkEvents) -> Link:
            resolved = resolve_server(server, self._around.env)
            self._redactor(server)  # the environment may have changed
            if resolved.command is not None:
                spec = self._placed(await self.bounds.around(self._process(resolved), resolved))
                return await StdioLink.open(self.spawner, spec, events, self._tasks)
            from toolcrib.sources.mcp.http_link import HttpLink

            return await HttpLink.open(resolved, events, self._tasks)

        return dial

    def _process(self, server: ServerConfig) -> ProcessSpec:
        env = child_environment(server.env, self._around.env)
        cwd = None if server.cwd is None else from_file(server.cwd, server)
        return ProcessSpec((server.command or "", *server.args), env, cwd)

    def _placed(self, spec: ProcessSpec) -> ProcessSpec:
        """Started where the project is, as if this process were there too."""
        return replace(spec, cwd=str(self._around.cwd)) if self._around.elsewhere and spec.cwd is None else spec

    async def run_isolated(self, entry: NativeTool, call: ToolCall) -> ToolResult:
        """Run a native tool in a worker process."""
        from toolcrib.isolate.worker import Workers
        from toolcrib.sources.native.running import in_workers

        workers = Workers(self.spawner, self.bounds.host, self.bounds.prover, self._around.env)
        return await in_workers(workers)(entry, call)

    async def isolation_of(self, subject: Subject) -> IsolationLevel | None:
        """What a tool runs at; ``None`` for those of servers that are reached by an address."""
        server = self._servers.get(subject.server)
        if server is not None:
            resolved = resolve_server(server, self._around.env)
            return None if server.url is not None else await self.bounds.level_of(resolved)
        wish = self.native_wishes.get(subject.tool.name)
        return IsolationLevel.NONE if wish is None else await self.bounds.prover.settle(wish)

    async def close(self) -> None:
        """End the spawner, last of all."""
        await self._tasks.close()
        await self.spawner.close()

    def _failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("source.task.failed", "error", {"task": name, "error": type(error).__name__}))


def _own_secrets(config: Config, around: Environment) -> frozenset[str]:
    """The secrets that toolcrib itself is given: for models, embedders, the platform, and what replicas share."""
    model, platform, kb, embedders = config.model, config.platform, config.kb, config.kb.embedders.values()
    tokens = (platform.token, *platform.tokens.values())
    keys = [("key", text) for text in (*tokens, kb.key, *(one.api_key for one in embedders))]
    places = (model.url, platform.endpoint, config.store.url, config.redis.url, kb.url, *(one.url for one in embedders))
    addresses = [("", text) for text in places]
    return secrets_of([*keys, *addresses], around.env)


def model_settings(chosen: str | None, config: ModelConfig, env: Mapping[str, str]) -> ModelSettings:
    """The model of the command line, or else the configured one, with its key and address."""
    if chosen:
        return with_surroundings(parse_model(chosen), env)
    if not config.model:
        raise ConfigError(
            "There is no model to talk to.",
            hint="Name one with --model, such as --model ollama:llama3.2, or set [model] in the configuration.",
        )

    def read(name: str) -> str:
        return resolve(getattr(config, name), env, field=f"model.{name}")

    settings = ModelSettings(config.provider, read("model"), read("url"), read("key"), config.timeout_s)
    return with_surroundings(settings, env)


def model_key(config: ModelConfig, env: Mapping[str, str]) -> str:
    """The key of the configured model; empty if there is none."""
    try:
        return model_settings(None, config, env).key
    except ConfigError:
        return ""


def errands_of(config: ModelConfig, env: Mapping[str, str]) -> SubAgents | None:
    """Who runs errands: the configured model, or nobody."""
    if not config.model:
        return None
    from toolcrib.agents.errands import Errands
    from toolcrib.models.http_model import HttpModel

    return Errands(lambda: HttpModel(model_settings(None, config, env)), config.max_tokens)
