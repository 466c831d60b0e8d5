"""Bringing in the servers of other programs: what is there, what would change, and the one edit that does it.

Nothing is printed here and nothing is asked; the command line, the page and the REST door all use this.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
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
from toolcrib.config.model import Config, Layer, ServerConfig, ToolConfig, config_hash
from toolcrib.config.parse import parse
from toolcrib.config.references import resolve_server, variables_in
from toolcrib.config.secrets import shown_args, shown_entry, shown_url, with_references
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.errors import CallerError, ConfigError, did_you_mean
from toolcrib.core.names import join_name, to_server_name
from toolcrib.core.offers import Tool
from toolcrib.core.places import CONFIG_NAME
from toolcrib.crib.loading import config_files
from toolcrib.project.secrets import is_free, names_from
from toolcrib.stores.files import locked, read_text
from toolcrib.stores.foreign import ForeignSource, FoundHere, Origins, exists, read_source
from toolcrib.stores.lockfile import write_config
from toolcrib.stores.paths import NEW_FILE, Environment, state_directory, user_config_path
from toolcrib.stores.secrets import SecretStore

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
    along: tuple[ImportCandidate, ...] = ()
    """What is served now from a file that the one to be written would hide: it comes along, whatever is taken."""

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
    layers, in_use = _layers(around, wanted.target), _stands_for(wanted.target, around)
    config = _settings(*layers.values())
    scoped = [_in_scope(place, foreign, around.cwd) for place, foreign in found]
    target = str(wanted.target)
    served = _as_written(_parsed(in_use)) if in_use else {}
    is_named = in_use is not None and in_use in {_path_of(word, around) for word in wanted.words}
    sides = Sides(
        here=_as_written(layers.get(target)),
        elsewhere=({} if is_named else served) | {
            name: server for where, layer in layers.items() if where != target
            for name, server in _as_written(layer).items()
        },
        remembered=remembered,
        readable=frozenset(readable),
        is_sync=wanted.is_sync,
        in_use=str(in_use or ""),
    )  # fmt: skip
    planned = plan(gather(scoped, _own_urls(config)), sides)
    hidden = _come_along(in_use, served) if in_use else []
    naming = _Naming(around, sides)
    along = tuple(naming.referring(candidate) for candidate in hidden)
    candidates = tuple(naming.referring(candidate) for candidate in planned)
    return ImportPlan(candidates, tuple(problems), tuple(readable), along)


def _stands_for(target: Path, around: Environment) -> Path | None:
    """Another program's file that toolcrib reads at present, and no longer once the target is written."""
    here, files = around.cwd.absolute(), config_files(None, around)
    if files.is_chosen or files.project is None or files.project.suffix == ".toml" or not exists(files.project):
        return None
    return files.project if target.name == CONFIG_NAME and target.parent in (here, *here.parents) else None


def _come_along(path: Path, served: Mapping[str, ServerConfig]) -> list[ImportCandidate]:
    """The servers of a file as they are served from it, with where they stand there."""
    source, places = ForeignSource(client_of(path), path, _folder_of(path)), dict[str, FoundAt]()
    with suppress(ConfigError):  # then it is not followed later
        places = {to_server_name(place.name): place for place, _ in read_source(source, sys.platform)}
    return [
        ImportCandidate(name, "same", server, (places.get(name) or FoundAt(source.client.id, str(path), name),))
        for name, server in served.items()
    ]


class _Naming:
    """Puts references in the place of secrets, each under a name that means nothing else here."""

    def __init__(self, around: Environment, sides: Sides) -> None:
        self._env, self._store, self._variables = around.env, SecretStore(around.env), around.variables
        self._mine = {**sides.elsewhere, **sides.here}
        self._given: dict[str, str] = {}

    def referring(self, candidate: ImportCandidate) -> ImportCandidate:
        """The candidate as it would be written; one that is the same as another then is no longer ``used``."""
        server = candidate.server
        is_here = candidate.state == "same" and (candidate.twin or candidate.before)
        if server is None or is_here or candidate.state in ("edited", "left out"):
            return candidate
        taken, own = dict[str, str](), self._own_names(candidate)

        def name_for(wanted: str, value: str) -> str:
            name = next(name for name in names_from(wanted) if self._is_free(name, value, own))
            self._given[name] = taken[name] = value
            return name

        twin = self._mine.get(candidate.twin)
        if candidate.state == "used" and twin is not None and self._resolved(server) == self._resolved(twin):
            return replace(candidate, name=candidate.twin, state="same")
        written = with_references(server, name_for)
        return replace(candidate, server=written, found=server, secrets=taken, notes=(*candidate.notes, *_told(taken)))

    def _resolved(self, server: ServerConfig) -> str:
        """What tells whether two servers are started alike, whether their secrets are written out or referred to."""
        try:
            return config_hash(resolve_server(server, self._variables))
        except ConfigError:
            return config_hash(server)

    def _own_names(self, candidate: ImportCandidate) -> set[str]:
        """What only the server itself refers to, so that a new value may stand there."""
        if candidate.before is None:
            return set()
        others = [server for name, server in self._mine.items() if name != candidate.name]
        return variables_in(candidate.before) - variables_in(others)

    def _is_free(self, name: str, value: str, own: set[str]) -> bool:
        known = self._given.get(name)
        if known is None and name not in own:
            known = self._store.get(name)
        return is_free(name, value, self._env, known)


def _told(secrets: Collection[str]) -> Iterator[str]:
    if secrets:
        yield f"Secrets stay out of the file: toolcrib keeps {', '.join(secrets)} (`toolcrib secrets ls`)."


def take_over(found: ImportPlan, names: Collection[str], target: Path, around: Environment) -> list[ImportCandidate]:
    """Write the named candidates into the file in one edit, and remember where they came from; what was done."""
    chosen = [candidate for candidate in found.in_state(*ACTED_ON, "used") if candidate.name in names]
    if not chosen:
        return []
    written = {(origin.path, to_server_name(origin.name)) for candidate in chosen for origin in candidate.origins}
    chosen += [one for one in found.along if (one.origins[0].path, one.name) not in written]
    with locked(target):
        before = text = read_text(target) or NEW_FILE
        config = _settings(parse(text, str(target)))
        changes: dict[str, ImportRecord | None] = {}
        for candidate in chosen:
            text, changes[candidate.name] = _applied(text, candidate, config, str(target))
        _keep_secrets(chosen, around)
        write_config(target, before, text)
    Origins(state_directory(around.env)).update(target, changes)
    return chosen


def _keep_secrets(chosen: Iterable[ImportCandidate], around: Environment) -> None:
    """Before anything refers to them."""
    values = {name: value for candidate in chosen for name, value in candidate.secrets.items()}
    replacing = {name for candidate in chosen for name in variables_in(candidate.before) & values.keys()}
    SecretStore(around.env).put(values, replacing)


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
    path = _path_of(word, around)
    client = folded_client(word)
    if client in CLIENTS and not exists(path):
        yield from (ForeignSource.at(place) for place in known if place.client == client and exists(place.path))
        return
    if not exists(path):
        hint = did_you_mean(word, [*CLIENTS]) or f"Clients: {', '.join(CLIENTS)}."
        raise CallerError(f"There is no file and no client {word!r}.", hint=hint)
    at_home = next((ForeignSource.at(place) for place in known if place.path == path), None)
    yield at_home or ForeignSource(client_of(path), path, _folder_of(path))


def _path_of(word: str, around: Environment) -> Path:
    return (around.cwd / Path(word).expanduser()).absolute()


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
    """toolcrib's own files, weakest first."""
    paths = dict.fromkeys((str(user_config_path(around.env)), str(target)))
    texts = {path: read_text(Path(path)) for path in paths}
    return {path: parse(text, path) for path, text in texts.items() if text is not None}


def _parsed(path: Path) -> Layer | None:
    """Another program's file as toolcrib reads it; one that is broken serves nothing."""
    try:
        return parse(read_text(path) or "", str(path))
    except ConfigError:
        return None


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
        "secrets": sorted(candidate.secrets),
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
