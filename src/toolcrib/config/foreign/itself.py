"""toolcrib in another program's file: never taken for a server, or it would start itself without end."""

import re
from pathlib import PureWindowsPath

from toolcrib.config.model import ServerConfig

_LOOPBACK = re.compile(r"https?://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?P<port>:\d+)?/mcp/?", re.IGNORECASE)
_PORT = ":7337"
_RUNNERS = frozenset({"uvx", "uv", "pipx", "python", "python3", "py"})


def is_toolcrib(name: str, server: ServerConfig, own_urls: frozenset[str] = frozenset()) -> bool:
    """Whether an entry starts toolcrib or reaches it on this machine."""
    if server.url is not None:
        found = _LOOPBACK.fullmatch(server.url)
        is_ours = found is not None and (found["port"] == _PORT or name.casefold() == "toolcrib")
        return is_ours or server.url.rstrip("/") in own_urls
    return _starts_toolcrib(server)


def _starts_toolcrib(server: ServerConfig) -> bool:
    words = [_program(server.command or ""), *server.args]
    if words[0] in ("cmd", "env") and len(words) > 1:
        words = [_program(word) for word in words if word not in ("/c", "cmd", "env") and "=" not in word] or words
    if words[0] == "toolcrib":
        return True
    return is_runner(words[0]) and any(re.fullmatch(r"toolcrib(?:\[[\w,]*\])?(?:[=@<>~!].*)?", word) for word in words)


def is_runner(program: str) -> bool:
    """Whether a program runs packages of Python."""
    return program in _RUNNERS or re.fullmatch(r"python3?(?:\.\d+)?", program) is not None


def _program(command: str) -> str:
    name = PureWindowsPath(command).name.lower()  # understands both kinds of slashes
    return name.removesuffix(".exe")
