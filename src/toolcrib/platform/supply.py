"""The platform's servers as servers of a Crib. Tokens stay references, so that nothing but a dialler ever holds one."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from toolcrib.config.manifest import LISTED_IN_MANIFEST, ManifestEntry
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import resolve
from toolcrib.core.access import matches
from toolcrib.core.events import Emit, Event
from toolcrib.core.names import to_server_name
from toolcrib.core.network import Network
from toolcrib.platform.gateway import Patience, Whereabouts
from toolcrib.platform.headers import SHARED_VARIABLE, TokenPlan, variable_for
from toolcrib.platform.servers import McpServerConfig, Platform, PlatformToolOptions
from toolcrib.platform.settings import PlatformSettings

ORIGIN = "platform"


class PlatformSupply:
    """Asks the platform which servers there are, as ``[platform]`` says."""

    def __init__(
        self, whole: Config, cwd: Path, env: Mapping[str, str], emit: Emit, variables: Mapping[str, str] | None = None
    ) -> None:
        config = whole.platform
        self._variables = variables = env if variables is None else variables
        self._config, self._env, self._emit = config, env, emit
        self._call_timeout_s = whole.call_timeout_s
        settings = PlatformSettings(
            mcp_platform_endpoint=lambda: resolve(config.endpoint, variables, field="platform.endpoint"),
            use_tooling_manifest=True if config.manifest else config.development,
            env=env,
        )
        around = Whereabouts(cwd, env=env)
        self._platform = Platform(settings, ttl_s=0.0, around=around, emit=emit)

    async def __call__(self) -> dict[str, ServerConfig]:
        """The servers by name; what comes from elsewhere is taken literally, whatever it looks like."""
        config, platform = self._config, self._platform
        patience = Patience(total_timeout_s=config.timeout_s, network=Network.of(self._env))
        options = PlatformToolOptions(
            config.orchestrator, manifest=config.manifest, version=config.version, token_check=config.token_check
        )
        options = replace(options, patience=patience)
        if platform.settings.mode.is_development:
            entries = await asyncio.to_thread(platform.from_manifest, config.manifest)
            shared = f"${{{SHARED_VARIABLE}}}" if self._env.get(SHARED_VARIABLE) else ""
            plan = TokenPlan(shared or config.token, own=self._own_token)
        else:
            token = resolve(config.token, self._variables, field="platform.token")
            entries = await platform.from_gateway(config.app_id, token, options)
            plan = TokenPlan(config.token, platform.settings.endpoint, self._own_token)
        wanted = [_literal(entry) for entry in entries if self._is_wanted(entry)]
        kind = LISTED_IN_MANIFEST if platform.settings.mode.is_development else "gateway"
        headers = {entry.name: entry.headers for entry in reversed(wanted)}
        return self._named(
            (server, f"{kind}:{_hash_of(server, headers[server.mcp_server_name])}")
            for server in await platform.dressed(wanted, plan, options)
        )

    def _is_wanted(self, entry: ManifestEntry) -> bool:
        names = (entry.name, entry.unique_name, to_server_name(entry.name))
        return any(matches(name, self._config.servers) for name in names)

    def _own_token(self, entry: ManifestEntry, scope: str) -> str | None:
        del scope
        tokens, variable = self._config.tokens, variable_for(entry)
        names = (entry.name, entry.unique_name, to_server_name(entry.name))
        written = next((tokens[name] for name in names if name in tokens), None)
        return written or (f"${{{variable}}}" if self._env.get(variable) else None)

    def _named(self, found: Iterable[tuple[McpServerConfig, str]]) -> dict[str, ServerConfig]:
        servers: dict[str, ServerConfig] = {}
        for server, entry in found:
            name = to_server_name(server.mcp_server_name)
            if name in servers:
                self._emit(Event("platform.server.left_out", "warning", {"server": name, "reason": "named twice"}))
                continue
            servers[name] = ServerConfig(
                name,
                url=server.url,
                headers=server.headers,
                call_timeout_s=self._call_timeout_s,
                entry=entry,
                origin=ORIGIN,
            )
        return servers


def _hash_of(server: McpServerConfig, headers: Mapping[str, str]) -> str:
    """What the list says of a server, as SHA-256; not the headers that toolcrib adds, which change with its version."""
    said = {"url": server.url, "headers": headers, "audience": server.audience, "scope": server.scope}
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()


def _literal(entry: ManifestEntry) -> ManifestEntry:
    """An entry none of whose texts is a reference: no list from elsewhere may read this machine's environment."""
    headers = {name: _escaped(value) for name, value in entry.headers.items()}
    return replace(entry, url=_escaped(entry.url), headers=headers)


def _escaped(text: str) -> str:
    return text.replace("${", "$${")
