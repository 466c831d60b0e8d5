"""Names: ``server__tool``, one parser used everywhere.

A resource is called ``lib__memo://about`` inside toolcrib, like everything else that ``lib`` offers, so that rules for
``lib__*`` hold; clients see the URI ``memo://lib/about``: namespaced whatever other servers there are, the scheme kept.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from toolcrib.core.errors import InvalidName, did_you_mean

SEPARATOR = "__"
SERVER_NAME_MAX = 32
TOOL_NAME_MAX = 128
RESULT_READ = "result_read"
"""toolcrib's own tool that reads what a large result left out."""
KB_PREFIX = "kb_"
"""How the names of the knowledge base's tools begin."""
KB_TOOLS = (
    *("hybrid_search", "get_document", "stats", "list_collections", "list_documents", "resolve_citations", "answer"),
    *("add", "remove", "reindex", "export", "import"),
)
_SPECIFIED = {f"{KB_PREFIX}{tool}": f"kb.{tool}" for tool in KB_TOOLS}
"""The names that the specification has for them: many providers refuse a dot, so nobody is shown these."""
_ALIASES = {alias: name for name, alias in _SPECIFIED.items()}

TOOLS_FIND, TOOLS_DESCRIBE, TOOLS_CALL = "tools_find", "tools_describe", "tools_call"
META_TOOLS = (TOOLS_FIND, TOOLS_DESCRIBE, TOOLS_CALL)
"""What clients are shown in place of the whole catalogue, where it would be too much."""
RESOURCES_LIST, RESOURCE_READ = "resources_list", "resource_read"
READING_TOOLS = (RESOURCES_LIST, RESOURCE_READ)
"""What those are shown who know of tools, and not of resources."""

RESERVED = frozenset({"native", "add", "import"})
"""``native`` names the tools of this process where a server is named; the others are addresses of the page."""

_SERVER = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_TOOL = re.compile(r"(?!__proto__$)[A-Za-z0-9_-]+(?:[.:/][A-Za-z0-9_-]+)*")


def join_name(server: str, tool: str) -> str:
    """The exposed name of a server's tool."""
    return f"{server}{SEPARATOR}{tool}"


def split_name(name: str) -> tuple[str, str]:
    """Server and tool of an exposed name, split at the first ``__``."""
    server, separator, tool = name.partition(SEPARATOR)
    if not separator or not server or not tool:
        raise InvalidName(f"{name!r} is not a tool of a server.", hint="Write it as server__tool.")
    return server, tool


def check_exposed_name(name: object, known: Sequence[str] = ()) -> None:
    """Raise for what cannot be the name of anything, whoever offers it."""
    details = {"unknown": "tool"}
    if not isinstance(name, str):
        raise InvalidName(f"A tool is called by its name, a text; this is none: {name!r:.60}.", details=details)
    if name.startswith(SEPARATOR) or name.endswith(SEPARATOR):
        missing = "server" if name.startswith(SEPARATOR) else "tool"
        hint = did_you_mean(name, known) or "Write it as server__tool."
        raise InvalidName(f"{name[:TOOL_NAME_MAX]!r} names no {missing}.", hint=hint, details=details)


def check_server_name(name: str) -> str:
    """``name`` if it may name a server."""
    if name in RESERVED:
        raise InvalidName(f"{name!r} cannot name a server: the word has a meaning of its own.", hint="Choose another.")
    if len(name) > SERVER_NAME_MAX or not _SERVER.fullmatch(name):
        raise InvalidName(
            f"{name!r} cannot name a server.",
            hint=f"Use snake_case: letters, digits and single underscores, at most {SERVER_NAME_MAX}"
            f" characters, for example {to_server_name(name)!r}.",
        )
    return name


def to_server_name(name: str) -> str:
    """The snake_case name closest to what another program called its server."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    snake = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")[:SERVER_NAME_MAX].rstrip("_")
    if not snake:
        return "server"
    if snake in RESERVED:
        return f"{snake}_server"
    return snake if snake[0].isalpha() else f"s_{snake}"[:SERVER_NAME_MAX].rstrip("_")


def name_of_alias(name: str) -> str:
    """The name in the catalogue of what may also be called ``name``; most have no other name."""
    return _ALIASES.get(name, name)


def alias_of(name: str) -> str:
    """The other name that calls and rules may use; the same for most."""
    return _SPECIFIED.get(name, name)


def fits_pattern(name: str, pattern: str) -> bool:
    """Whether a pattern stands for a name, by whichever of its names."""
    return fnmatchcase(name, pattern) or (name in _SPECIFIED and fnmatchcase(_SPECIFIED[name], pattern))


def is_own(name: str) -> bool:
    """Whether a tool without a server is one that toolcrib itself puts beside those of the user."""
    return name == RESULT_READ or name in _SPECIFIED


def is_tool_name(name: str) -> bool:
    """Whether a server may call a tool that: visible ASCII without spaces, at most 128 characters."""
    return 0 < len(name) <= TOOL_NAME_MAX and _TOOL.fullmatch(name) is not None


URI_MAX = 4096
"""Characters of a URI; longer ones are nobody's."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?://)?")
_PUBLIC = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.\-]*:(?://)?)?)([a-z][a-z0-9]*(?:_[a-z0-9]+)*)/(.*)", re.DOTALL)
_DOTS = re.compile(r"/\.(?=/|$)")
_SLASHES = re.compile(r"(?<=[^:/])/{2,}|(?<=://)/{2,}")
_CLIMB = re.compile(r"(?:^|[/\\:=]|__)\.\.(?=[/\\;?#&]|$)")


def to_public(server: str, uri: str) -> str:
    """The URI, or URI template, of a server's resource as clients see it."""
    scheme = _SCHEME.match(uri)
    end = 0 if scheme is None else scheme.end()
    return f"{uri[:end]}{server}/{uri[end:]}"


def name_of_uri(uri: str) -> str:
    """What toolcrib calls the resource behind a public URI; one that is none stays as it is."""
    found = _PUBLIC.fullmatch(uri) if len(uri) <= URI_MAX else None
    return uri if found is None else join_name(found[2], found[1] + found[3])


def uri_of_name(name: str, server: str) -> str:
    """The public URI of what toolcrib calls ``name``; the same where names have no prefix."""
    prefix = f"{server}{SEPARATOR}"
    return to_public(server, name.removeprefix(prefix)) if server and name.startswith(prefix) else name


def plain_uri(name: str) -> str:
    """The name with nothing written in another way: rules for it hold for every spelling of it."""
    return _SLASHES.sub("/", _DOTS.sub("", _unquoted(name)))


def climbs_out(name: str) -> bool:
    """Whether a URI leads out of where its words say it is (``..``), however that is written: no rule could hold for
    it, because nobody but its server knows where it ends."""
    return ".." in (plain := _unquoted(name)) and _CLIMB.search(plain) is not None


def _unquoted(name: str) -> str:
    for _ in range(3):
        name, before = unquote(name), name
        if name == before:
            break
    return name


UI_EXTENSION = "io.modelcontextprotocol/ui"
APP_MIME = "text/html;profile=mcp-app"


def translate_app(meta: Any, to: Callable[[str], str]) -> Any:
    """A ``_meta`` object with the resource of its app, in both spellings, passed through ``to``."""
    if not isinstance(meta, dict):
        return meta
    shown = dict(meta)
    if isinstance(shown.get("ui/resourceUri"), str):
        shown["ui/resourceUri"] = to(shown["ui/resourceUri"])
    about = shown.get("ui")
    if isinstance(about, dict) and isinstance(about.get("resourceUri"), str):
        shown["ui"] = {**about, "resourceUri": to(about["resourceUri"])}
    return shown
