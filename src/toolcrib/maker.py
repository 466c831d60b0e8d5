"""From the configuration of a server to a source that can start or reach it, within its bounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from toolcrib.calls.pipeline import Subject
from toolcrib.config.masks import shown_values
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import resolve_server
from toolcrib.config.secrets import secret_values, secrets_of
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.events import Emit, Event
from toolcrib.core.tasks import TaskScope
from toolcrib.isolate.grants import Wish
from toolcrib.isolate.helpers import Helpers
from toolcrib.isolate.levels import IsolationLevel
from toolcrib.sources.bounds import Bounds, from_file
from toolcrib.sources.comeback import SupervisorSettings
from toolcrib.sources.link import CLIENT_NAME, Link, LinkEvents
from toolcrib.sources.mcp import McpSource
from toolcrib.sources.native import NativeTool
from toolcrib.sources.negotiate import Offer
from toolcrib.sources.redactor import Redactor
from toolcrib.sources.stdio_link import StdioLink
from toolcrib.sources.supervise import Supervisor
from toolcrib.surroundings import Surroundings
from toolcrib.transports.environment import child_environment
from toolcrib.transports.spawn import Spawner
from toolcrib.transports.spec import ProcessSpec
from toolcrib.version import VERSION


class SourceMaker:
    """Makes the source for a configured server; owns what all servers of a Crib share."""

    def __init__(self, config: Config, surroundings: Surroundings, emit: Emit) -> None:
        self._config, self._around, self._emit = config, surroundings, emit
        self.own_secrets = _own_secrets(config, surroundings)
        """What toolcrib itself is given; no server may repeat that either."""
        self._redactors: dict[str, Redactor] = {}
        self.spawner = Spawner()
        self.helpers = Helpers()
        """Processes for what would hold up the event loop, shared with the layers."""
        self.bounds = Bounds(self.spawner, surroundings.env, config.isolation, VERSION)
        self._tasks = TaskScope(self._failed)
        self._servers: dict[str, ServerConfig] = {}
        self.native_wishes: dict[str, Wish] = {}
        """How the native tools that ask for it are isolated."""

    def __call__(self, server: ServerConfig) -> McpSource:
        """The source of one server; nothing is started yet."""
        self._servers[server.name] = server
        capabilities: dict[str, Any] = {name: {} for name in server.relay}
        offer = Offer({"name": CLIENT_NAME, "version": VERSION}, capabilities)
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
            from toolcrib.sources.http_link import HttpLink

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
        from toolcrib.sources.isolated import in_workers

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


def _own_secrets(config: Config, around: Surroundings) -> frozenset[str]:
    """The secrets that toolcrib itself is given: for models, embedders, the platform, and what replicas share."""
    model, platform, kb, embedders = config.model, config.platform, config.kb, config.kb.embedders.values()
    tokens = (platform.token, *platform.tokens.values())
    keys = [("key", text) for text in (*tokens, kb.key, *(one.api_key for one in embedders))]
    places = (model.url, platform.endpoint, config.store.url, config.redis.url, kb.url, *(one.url for one in embedders))
    addresses = [("", text) for text in places]
    return secrets_of([*keys, *addresses], around.env)
