"""Names: ``server__tool``, one parser used everywhere."""

import re
import unicodedata

from toolcrib.core.errors import InvalidName

SEPARATOR = "__"
SERVER_NAME_MAX = 32
TOOL_NAME_MAX = 128
RESULT_READ = "result_read"
"""toolcrib's own tool that reads what a large result left out."""
KB_PREFIX = "kb."
"""How the names of the knowledge base's tools begin."""

TOOLS_FIND, TOOLS_DESCRIBE, TOOLS_CALL = "tools_find", "tools_describe", "tools_call"
META_TOOLS = (TOOLS_FIND, TOOLS_DESCRIBE, TOOLS_CALL)
"""What clients are shown in place of the whole catalogue, where it would be too much."""

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


def is_own(name: str) -> bool:
    """Whether a tool without a server is one that toolcrib itself puts beside those of the user."""
    return name == RESULT_READ or name.startswith(KB_PREFIX)


def is_tool_name(name: str) -> bool:
    """Whether a server may call a tool that: visible ASCII without spaces, at most 128 characters."""
    return 0 < len(name) <= TOOL_NAME_MAX and _TOOL.fullmatch(name) is not None
