"""Bringing in the servers of other programs: what is there, what would change, and the one edit that does it.

Nothing is printed here and nothing is asked; the command line, the page and the REST door all use this.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolcrib.catalog.levels import policy_of
from toolcrib.config.edit import add_server, remove_server, replace_server
from toolcrib.config.foreign.clients import CLIENTS, UNKNOWN, client_of
from toolcrib.config.foreign.formats import is_link, read_link
from toolcrib.config.foreign.locations import Computer, Location, locations
from toolcrib.config.foreign.plan import ACTED_ON, FoundAt, ImportCandidate, ImportRecord, Sides, gather, plan, remember
from toolcrib.config.foreign.references import ForeignServer
from toolcrib.config.jsonc import read_jsonc
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, Layer, ServerConfig, ToolConfig
from toolcrib.config.parse import parse
from toolcrib.config.secrets import shown_args, shown_entry, shown_url
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.errors import CallerError, ConfigError, did_you_mean
from toolcrib.core.names import join_name
from toolcrib.core.offers import Tool
from toolcrib.core.places import CONFIG_NAME
from toolcrib.stores.files import locked, read_text
from toolcrib.stores.foreign import ForeignSource, FoundHere, Origins, exists, read_source
from toolcrib.stores.lockfile import write_config
from toolcrib.stores.paths import NEW_FILE, Environment, state_directory, user_config_path

OPEN_WEBUI_VARIABLE = "TOOL_SERVER_CONNECTIONS"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to look for, and the file it would be written to."""

    target: Path
    words: tuple[str, ...] = ()
    """Files, clients and install links; nothing is every well-known place."""
    is_sync: bool = False


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import could do."""

    candidates: tuple[ImportCandidate, ...]
    problems: tuple[str, ...] = ()
    """Files that could not be read, each with its reason."""
    files: tuple[str, ...] = ()

    def in_state(self, *states: str) -> list[ImportCandidate]:
        """The candidates in these states."""
        return [candidate for candidate in self.candidates if candidate.state in states]

    @property
    def clients(self) -> list[str]:
        """The programs that have something new, as people call them."""
        ids = [origin.client for candidate in self.in_state("new") for origin in candidate.origins]
        return [label_of(client) for client in dict.fromkeys(ids)]


def label_of(client: str) -> str:
    """What people call a client."""
    return CLIENTS[client].label if client in CLIENTS else client


def import_target(around: Environment, chosen: str | None = None, *, user: bool = False) -> Path:
    """Where imported servers are written: a toolcrib.toml, never another program's file."""
    if user:
        return user_config_path(around.env)
    if chosen:
        path = (around.cwd / Path(chosen).expanduser()).absolute()
        if path.suffix != ".toml":
            hint = "Name a toolcrib.toml, or leave --config away."
            raise ConfigError(f"{chosen!r} is not a file of toolcrib's own.", hint=hint)
        return path
    here = around.cwd.absolute()
    own = (folder / CONFIG_NAME for folder in (here, *here.parents))
    return next((path for path in own if path.is_file()), here / CONFIG_NAME)


def find_imports(around: Environment, wanted: ImportRequest) -> ImportPlan:
    """Look at the files, and compare them with what toolcrib has; nothing is changed."""
    remembered = Origins(state_directory(around.env)).of(wanted.target)
    found, problems, readable = _look(around, wanted, remembered)
    layers = _layers(around, wanted.target)
    config = _settings(*layers.values())
    scoped = [_in_scope(place, foreign, around.cwd) for place, foreign in found]
    target = str(wanted.target)
    sides = Sides(
        here=_as_written(layers.get(target)),
        elsewhere={name: server for where, layer in layers.items() if where != target
                   for name, server in _as_written(layer).items()},
        remembered=remembered,
        readable=frozenset(readable),
        is_sync=wanted.is_sync,
    )  # fmt: skip
    return ImportPlan(tuple(plan(gather(scoped, _own_urls(config)), sides)), tuple(problems), tuple(readable))


def take_over(found: ImportPlan, names: Collection[str], target: Path, around: Environment) -> list[ImportCandidate]:
    """Write the named candidates into the file in one edit, and remember where they came from; what was done."""
    chosen = [candidate for candidate in found.in_state(*ACTED_ON) if candidate.name in names]
    if not chosen:
        return []
    with locked(target):
        before = text = read_text(target) or NEW_FILE
        config = _settings(parse(text, str(target)))
        changes: dict[str, ImportRecord | None] = {}
        for candidate in chosen:
            text, changes[candidate.name] = _applied(text, candidate, config, str(target))
        write_config(target, before, text)
    Origins(state_directory(around.env)).update(target, changes)
    return chosen


def forget_origin(target: Path, path: Path, around: Environment) -> None:
    """Servers that were taken out of a file on purpose must not look as if its owner had removed them."""
    origins = Origins(state_directory(around.env))
    changes: dict[str, ImportRecord | None] = {}
    for name, memory in origins.of(target).items():
        left = tuple(origin for origin in memory.origins if origin[1] != str(path))
        if left != memory.origins:
            changes[name] = ImportRecord(left, memory.found, memory.written) if left else None
    if changes:
        origins.update(target, changes)


def _applied(text: str, candidate: ImportCandidate, config: Config, where: str) -> tuple[str, ImportRecord | None]:
    if candidate.server is None:
        return remove_server(text, candidate.name, where), None
    server = _fitted(candidate.server, config)
    edit = replace_server if candidate.state == "changed" else add_server
    return edit(text, server, where), remember(candidate, server)


def _fitted(server: ServerConfig, config: Config) -> ServerConfig:
    """A list of wanted tools switches the others off; it must not lift what the user's own policies say."""
    plain = replace(server, policy=None, tools={})

    def fit(name: str, tool: ToolConfig) -> ToolConfig:
        if tool.policy is None or decided_by(tool.policy) is not Decision.ALLOWED:
            return tool
        general = policy_of(join_name(server.name, name), Tool(name), plain, config.security).policy
        return replace(tool, policy=general)

    return replace(server, tools={name: fit(name, tool) for name, tool in server.tools.items()})


def _look(
    around: Environment, wanted: ImportRequest, remembered: Mapping[str, ImportRecord]
) -> tuple[FoundHere, list[str], list[str]]:
    found: FoundHere = []
    problems, readable = [], []
    for source in _sources(around, wanted, remembered):
        try:
            found += read_source(source, sys.platform)
            readable.append(str(source.path))
        except ConfigError as error:
            problems.append(str(error))
    for word in wanted.words:
        if is_link(word):
            found += [(FoundAt("cursor", "link", one.name), one) for one in read_link(word, CLIENTS["cursor"].dialect)]
    if not wanted.is_sync and (not wanted.words or "open-webui" in map(folded_client, wanted.words)):
        found += _from_environment(around.env, problems)
    return found, problems, readable


def _sources(
    around: Environment, wanted: ImportRequest, remembered: Mapping[str, ImportRecord]
) -> Iterator[ForeignSource]:
    known = locations(machine(around))
    if wanted.is_sync and not wanted.words:
        yield from _remembered_sources(remembered, known)
    elif not wanted.words:
        yield from (ForeignSource.at(location) for location in known if exists(location.path))
    for word in wanted.words:
        if not is_link(word):
            yield from _named(word, around, known)


def _remembered_sources(remembered: Mapping[str, ImportRecord], known: list[Location]) -> Iterator[ForeignSource]:
    folders = {str(location.path): location.folder for location in known}
    origins = {(client, path) for memory in remembered.values() for client, path, _, _ in memory.origins}
    for client, path in sorted(origins):
        if exists(Path(path)):
            yield ForeignSource(CLIENTS.get(client, UNKNOWN), Path(path), folders.get(path))


def _named(word: str, around: Environment, known: list[Location]) -> Iterator[ForeignSource]:
    """The files a word stands for: a client's, or the one it names."""
    path = (around.cwd / Path(word).expanduser()).absolute()
    client = folded_client(word)
    if client in CLIENTS and not exists(path):
        yield from (ForeignSource.at(place) for place in known if place.client == client and exists(place.path))
        return
    if not exists(path):
        hint = did_you_mean(word, [*CLIENTS]) or f"Clients: {', '.join(CLIENTS)}."
        raise CallerError(f"There is no file and no client {word!r}.", hint=hint)
    at_home = next((ForeignSource.at(place) for place in known if place.path == path), None)
    yield at_home or ForeignSource(client_of(path), path, _folder_of(path))


def _folder_of(path: Path) -> Path | None:
    """The project a file in a hidden folder, such as ``.vscode``, belongs to."""
    return path.parent.parent if path.parent.name.startswith(".") else path.parent if path.name == ".mcp.json" else None


def folded_client(word: str) -> str:
    """The id of a client however it is written; any other word as it is."""
    plain = word.strip().casefold().replace(" ", "-").replace("_", "-")
    return {"vs-code": "vscode", "gemini-cli": "gemini", "copilot-cli": "copilot", "claude": "claude-desktop"}.get(
        plain, plain
    )


def _from_environment(env: Mapping[str, str], problems: list[str]) -> FoundHere:
    text = env.get(OPEN_WEBUI_VARIABLE, "").strip()
    if not text:
        return []
    client = CLIENTS["open-webui"]
    try:
        found = list(client.read(read_jsonc(text, OPEN_WEBUI_VARIABLE), client.dialect))
    except ConfigError as error:
        problems.append(str(error))
        return []
    return [(FoundAt(client.id, f"environment {OPEN_WEBUI_VARIABLE}", one.name), one) for one in found]


def machine(around: Environment) -> Computer:
    """What decides where files are, from where toolcrib runs."""
    home = around.env.get("HOME") or around.env.get("USERPROFILE")
    return Computer(Path(home) if home else Path.home(), around.cwd, around.env, sys.platform)


def _in_scope(place: FoundAt, foreign: ForeignServer, cwd: Path) -> tuple[FoundAt, ForeignServer]:
    here = {str(folder) for folder in (cwd.absolute(), *cwd.absolute().parents)}
    if not foreign.scope or foreign.scope in here or foreign.server is None:
        return place, foreign
    reason = f"it is for the project {foreign.scope} only; run `toolcrib import` there"
    return place, replace(foreign, server=None, left_out=reason)


def _layers(around: Environment, target: Path) -> dict[str, Layer]:
    """toolcrib's own files, weakest first: other programs' files do not count, for a toolcrib.toml hides them."""
    paths = dict.fromkeys((str(user_config_path(around.env)), str(target)))
    texts = {path: read_text(Path(path)) for path in paths}
    return {path: parse(text, path) for path, text in texts.items() if text is not None}


def _settings(*layers: Layer) -> Config:
    """What the files say besides servers: those may need what only the environment declares."""
    return merge(*(replace(layer, servers={}) for layer in layers))


def _as_written(layer: Layer | None) -> dict[str, ServerConfig]:
    """The servers of one file by themselves, without what other settings lend them."""
    if layer is None:
        return {}
    return {name: ServerConfig(name, **entry.fields) for name, entry in layer.servers.items() if not entry.adjusts}


def _own_urls(config: Config) -> frozenset[str]:
    hosts = {config.host, "localhost", "127.0.0.1"}
    return frozenset(f"http://{host}:{config.port}/mcp" for host in hosts)


def candidate_document(candidate: ImportCandidate) -> dict[str, Any]:
    """A candidate for a program or a page: secrets are masked."""
    return {
        "name": candidate.name,
        "state": candidate.state,
        "server": shown_server(candidate.server) if candidate.server else None,
        "before": shown_server(candidate.before) if candidate.before else None,
        "origins": [
            {"client": origin.client, "path": origin.path, "name": origin.name, "line": origin.line}
            for origin in candidate.origins
        ],
        "notes": list(candidate.notes),
        "reason": candidate.reason or None,
    }


def shown_server(server: ServerConfig) -> dict[str, Any]:
    """What of a server differs from the defaults, for the eye."""
    shown: dict[str, Any] = {
        "command": server.command,
        "args": shown_args(server.args),
        "env": {name: shown_entry(name, value) for name, value in server.env.items()},
        "cwd": server.cwd,
        "url": shown_url(server.url) if server.url else None,
        "headers": {name: shown_entry(name, value) for name, value in server.headers.items()},
        "call_timeout": server.call_timeout_s if server.call_timeout_s != ServerConfig("").call_timeout_s else None,
        "policy": server.policy,
        "tools": {name: tool.policy for name, tool in server.tools.items() if tool.policy},
    }
    kept = {key: value for key, value in shown.items() if value}
    return kept if server.enabled else kept | {"enabled": False}
