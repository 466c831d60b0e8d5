"""The dependency rule: this table is the rule, the test reads every import."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "toolcrib"

MAY_IMPORT = {
    "core": set(),
    "wire": {"core"},
    "schema": {"core"},
    "search": {"core"},
    "config": {"core"},
    "transports": {"core"},
    "isolate": {"core", "transports"},
    "stores": {"core", "search", "config"},
    "sources": {"core", "wire", "schema", "transports", "config", "isolate"},
    "catalog": {"core", "search", "schema", "config"},
    "calls": {"core", "schema", "isolate"},
    "models": {"core", "transports"},
    "knowledge": {"core", "search", "transports", "isolate", "models"},
    "agents": {"core", "schema", "models"},
    "adapters": {"core", "schema", "models", "agents", "version"},
    "workspace": {"core", "config", "transports", "isolate"},
    "platform": {"core", "config", "transports", "stores", "sources", "version"},
    "compat": {"core", "config", "platform"},
    "onlookers": {"core", "config", "stores", "calls", "shared", "surroundings", "version"},
    "maker": {"core", "config", "calls", "isolate", "sources", "transports", "surroundings", "version"},
    "kb": {
        "core",
        "config",
        "stores",
        "search",
        "isolate",
        "transports",
        "sources",
        "knowledge",
        "models",
        "shared",
        "surroundings",
        "version",
    },
    "outfit": {
        "core",
        "config",
        "stores",
        "isolate",
        "transports",
        "sources",
        "workspace",
        "surroundings",
        "version",
    },
    "loading": {"core", "config", "stores", "surroundings"},
    "stack": {"core", "config", "calls", "isolate", "onlookers"},
    "oversize": {"core", "config", "calls", "stores", "sources", "shared", "surroundings"},
    "thinking": {"core", "config", "models", "agents"},
    "finding": {"core", "catalog", "calls"},
    "surroundings": set(),
    "shared": {"core", "config", "stores"},
    "keeping": {"core", "config", "stores", "shared"},
    "importing": {"core", "config", "stores", "catalog", "surroundings"},
    "connecting": {"core", "config", "stores", "importing", "surroundings"},
    "fleet": {"core", "catalog", "calls", "shared"},
    "parts": {"core", "catalog", "calls", "config", "fleet"},
    "servers": {"core", "catalog", "config", "parts"},
    "crib": {"core", "catalog", "calls", "config", "finding", "parts", "servers"},
    "bulletin": {"core", "calls", "crib"},
    "meta": {"core", "catalog"},
    "window": {"core", "schema", "config", "catalog", "calls", "crib", "meta"},
    "doors/mcp": {"core", "config", "crib", "wire", "transports", "window"},
    "project": {"core", "config", "stores", "crib", "loading", "onlookers", "surroundings", "window"},
    "dossier": {
        "core",
        "config",
        "catalog",
        "stores",
        "sources",
        "kb",
        "keeping",
        "loading",
        "outfit",
        "project",
        "surroundings",
    },
    "projects": {"core", "config", "stores", "sources", "dossier", "project"},
    "workplace": {"core", "config", "catalog", "calls", "crib", "assemble", "dossier", "loading", "project", "sources"},
    "sessions": {"core", "config", "dossier", "projects", "workplace"},
    "doors/http": {"core", "crib", "project", "sessions", "stores", "transports", "bulletin"},
    "doors/views": {"core", "crib", "catalog", "config", "stores"},
    "doors/rest": {
        "core",
        "crib",
        "calls",
        "catalog",
        "config",
        "stores",
        "project",
        "bulletin",
        "transports",
        "doors/http",
        "doors/views",
        "dossier",
        "projects",
        "sessions",
        "version",
    },
    "doors/web": {
        "importing",
        "core",
        "crib",
        "calls",
        "catalog",
        "config",
        "stores",
        "schema",
        "project",
        "doors/http",
        "doors/rest",
        "doors/views",
        "transports",
        "version",
    },
    "doors/cli": {
        "core",
        "bulletin",
        "crib",
        "catalog",
        "config",
        "stores",
        "schema",
        "sources",
        "transports",
        "isolate",
        "doors/http",
        "doors/mcp",
        "doors/rest",
        "doors/views",
        "doors/web",
        "project",
        "projects",
        "sessions",
        "calls",
        "surroundings",
        "window",
        "importing",
        "connecting",
        "assemble",
        "loading",
        "onlookers",
        "kb",
        "keeping",
        "knowledge",
        "search",
        "models",
        "agents",
        "fleet",
        "shared",
        "thinking",
        "version",
    },
    "doors": set(),
    "testing": {
        "core",
        "config",
        "wire",
        "transports",
        "sources",
        "calls",
        "crib",
        "fleet",
        "parts",
        "stores",
        "stack",
    },
    "version": set(),
}
EVERYBODY = {"assemble", "__init__", "__main__"}


def room_of(module: str) -> str:
    parts = [*module.split(".")[1:], ""]
    return "/".join(parts[:2]) if parts[0] == "doors" and parts[1] else parts[0] or "__init__"


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "toolcrib":
            if node.module == "toolcrib":
                yield from (f"toolcrib.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "toolcrib")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down_the_levels(path: Path):
    """A room imports itself and the rooms its line of the table names, nothing else."""
    relative = path.relative_to(PACKAGE)
    room = room_of(".".join(("toolcrib", *relative.with_suffix("").parts)).removesuffix(".__init__"))
    if room in EVERYBODY:
        return
    allowed = MAY_IMPORT[room] | {room}

    foreign = {room_of(module) for module in imports_of(path)} - allowed

    assert not foreign


@pytest.mark.parametrize("room", ["wire", "schema", "search", "config", "core"])
def test_pure_rooms_open_nothing_and_never_wait(room: str):
    """What decides without I/O cannot import a socket, an event loop or a subprocess; two files of ``core`` may."""
    forbidden = {"socket", "asyncio", "subprocess", "threading", "http", "urllib"}
    harmless = {"urllib.parse"}
    found = set()
    for path in (PACKAGE / room).rglob("*.py"):
        if path.name in ("tasks.py", "topic.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            found |= {(path.name, name) for name in names if name.split(".")[0] in forbidden and name not in harmless}

    assert not found
