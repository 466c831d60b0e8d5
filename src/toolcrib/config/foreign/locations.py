"""Where programs keep their files, as a function of the machine; nothing is looked up here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.config.manifest import MANIFEST_NAME
from toolcrib.core.places import CONFIG_NAME, LOCK_NAME, OTHER_PROGRAMS


@dataclass(frozen=True, slots=True)
class Computer:
    """What decides where files are."""

    home: Path
    cwd: Path
    env: Mapping[str, str]
    platform: str = "linux"


@dataclass(frozen=True, slots=True)
class Location:
    """A file that may be there, whose it is, and the project it belongs to."""

    client: str
    path: Path
    folder: Path | None = None


def locations(machine: Computer) -> list[Location]:
    """Every known place, the project's files before the user's."""
    found = [*_of_project(machine.cwd), *(Location(client, path) for client, path in _of_user(machine))]
    return list({location.path: location for location in reversed(found)}.values())[::-1]


def _of_project(cwd: Path) -> Iterator[Location]:
    for client, name in PROJECT_FILES:
        yield Location(client, cwd / name, cwd)


PROJECT_FILES = (
    ("claude-code", ".mcp.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
    ("zed", ".zed/settings.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
    ("roo", ".roo/mcp.json"),
    ("opencode", "opencode.json"),
    ("opencode", "opencode.jsonc"),
    ("copilot", ".github/mcp.json"),
    ("kiro", ".kiro/settings/mcp.json"),
    ("librechat", "librechat.yaml"),
    ("manifest", MANIFEST_NAME),
)
"""Whose file in a project is called what."""


def _of_user(machine: Computer) -> Iterator[tuple[str, Path]]:
    home = machine.home
    yield "claude-desktop", app_folder(machine, "Claude") / "claude_desktop_config.json"
    yield "claude-code", home / ".claude.json"
    yield "cursor", home / ".cursor" / "mcp.json"
    yield from _of_vscode(machine)
    yield "windsurf", home / ".codeium" / "windsurf" / "mcp_config.json"
    yield "zed", _zed(machine) / "settings.json"
    yield "codex", _chosen(machine, "CODEX_HOME", ".codex") / "config.toml"
    yield "gemini", home / ".gemini" / "settings.json"
    yield "goose", _goose(machine) / "config.yaml"
    yield "copilot", _chosen(machine, "COPILOT_HOME", ".copilot") / "mcp-config.json"
    yield "cline", home / ".cline" / "data" / "settings" / "cline_mcp_settings.json"
    yield "opencode", config_folder(machine) / "opencode" / "opencode.json"
    yield "opencode", config_folder(machine) / "opencode" / "opencode.jsonc"
    yield "kiro", home / ".kiro" / "settings" / "mcp.json"
    yield "lmstudio", home / ".lmstudio" / "mcp.json"


def _of_vscode(machine: Computer) -> Iterator[tuple[str, Path]]:
    for name in ("Code", "Code - Insiders"):
        user = app_folder(machine, name) / "User"
        yield "vscode", user / "mcp.json"
        yield "vscode", user / "settings.json"
        kept = user / "globalStorage"
        yield "cline", kept / "saoudrizwan.claude-dev" / "settings" / "cline_mcp_settings.json"
        yield "roo", kept / "rooveterinaryinc.roo-cline" / "settings" / "mcp_settings.json"


def config_folder(machine: Computer) -> Path:
    """XDG's folder for configuration; a relative ``XDG_CONFIG_HOME`` does not count."""
    configured = Path(machine.env.get("XDG_CONFIG_HOME", ""))
    return configured if configured.is_absolute() else machine.home / ".config"


def app_folder(machine: Computer, name: str) -> Path:
    """Where an application keeps its files."""
    if machine.platform == "darwin":
        return machine.home / "Library" / "Application Support" / name
    return (_roaming(machine) if machine.platform == "win32" else config_folder(machine)) / name


def _roaming(machine: Computer) -> Path:
    given = machine.env.get("APPDATA")
    return Path(given) if given else machine.home / "AppData" / "Roaming"


def _zed(machine: Computer) -> Path:
    if machine.platform == "win32":
        return _roaming(machine) / "Zed"
    return (machine.home / ".config" if machine.platform == "darwin" else config_folder(machine)) / "zed"


def _goose(machine: Computer) -> Path:
    if machine.platform == "win32":
        return _roaming(machine) / "Block" / "goose" / "config"
    return config_folder(machine) / "goose"


def _chosen(machine: Computer, variable: str, usual: str) -> Path:
    given = machine.env.get(variable)
    return Path(given) if given else machine.home / usual


READ_AT_START = (CONFIG_NAME, LOCK_NAME, *OTHER_PROGRAMS, MANIFEST_NAME)
"""What toolcrib reads its servers from without being asked to."""
_SERVER_FILES = frozenset(
    tuple(name.casefold().split("/")) for name in (*READ_AT_START, *(name for _, name in PROJECT_FILES))
)
_LAST = frozenset(path[-1] for path in _SERVER_FILES)
_FOLDERS = frozenset(path[0] for path in _SERVER_FILES if len(path) > 1)


def is_server_file(path: Sequence[str]) -> bool:
    """Whether toolcrib would read servers from a file of this path, at its start or for an import; by its last steps,
    for it looks for them in whatever directory it is started in. Upper and lower case are one to some file systems."""
    steps = tuple(map(str.casefold, path))
    return any(steps[-size:] in _SERVER_FILES for size in (1, 2, 3))


def is_server_file_name(name: str) -> bool:
    """Whether a file of this name could be one; the quick look at very many."""
    return name.casefold() in _LAST


def is_folder_of_server_files(name: str) -> bool:
    """Whether toolcrib would look for such a file in a directory of this name."""
    return name.casefold() in _FOLDERS
