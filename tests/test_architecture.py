"""The dependency rule: this table is the rule, the tests read every import."""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "toolcrib"

LEVELS = (
    {"core", "version"},
    {"wire", "schema", "search", "config"},
    {"transports", "stores"},
    {"isolate", "models", "credentials"},
    {"sources", "catalog", "calls", "knowledge", "workspace", "agents"},
    {"platform", "adapters"},
    {"crib", "compat"},
    {"project", "testing"},
    {"server/answers", "server/views", "server/mcp"},
    {"server/identity"},
    {"server/visit", "server/remote", "server/joins"},
    {"server/router"},
    {"server/rest", "server/oauth"},
    {"server/web"},
    {"server/app"},
    {"server/serve"},
    {"server/asgi"},
    {"cli"},
)
"""From the ground up; rooms of one level do not know each other."""
MAY_IMPORT = {
    "core": set(),
    "version": set(),
    "wire": {"core"},
    "schema": {"core"},
    "search": {"core"},
    "config": {"core"},
    "transports": {"core"},
    "stores": {"core", "search", "config"},
    "isolate": {"core", "transports"},
    "models": {"core", "transports"},
    "credentials": {"core", "config", "transports", "stores"},
    "sources": {"core", "wire", "schema", "config", "transports", "isolate", "credentials"},
    "catalog": {"core", "schema", "search", "config"},
    "calls": {"core", "schema", "isolate"},
    "knowledge": {"core", "search", "transports", "isolate", "models"},
    "workspace": {"core", "config", "transports", "isolate"},
    "agents": {"core", "schema", "models"},
    "platform": {"core", "config", "transports", "stores", "sources", "version"},
    "adapters": {"core", "schema", "models", "agents", "version"},
    "compat": {"core", "config", "platform"},
    "crib": {
        "core",
        "schema",
        "search",
        "config",
        "transports",
        "stores",
        "isolate",
        "models",
        "credentials",
        "sources",
        "catalog",
        "calls",
        "knowledge",
        "workspace",
        "agents",
        "platform",
        "version",
    },
    "testing": {"core", "wire", "config", "stores", "sources", "calls", "crib"},
    "project": {"core", "config", "transports", "stores", "credentials", "sources", "catalog", "calls", "crib"},
    "server/answers": {"core", "transports"},
    "server/views": {"core", "config", "stores", "credentials", "catalog", "calls", "crib", "project"},
    "server/mcp": {"core", "wire", "config", "transports", "catalog", "crib"},
    "server/identity": {"core", "config", "transports", "stores", "crib", "server/answers", "server/mcp"},
    "server/visit": {
        "core",
        "transports",
        "stores",
        "crib",
        "project",
        "server/answers",
        "server/identity",
        "server/views",
    },
    "server/remote": {"core", "config", "transports", "stores", "project", "server/identity"},
    "server/joins": {"core", "config", "stores", "project", "server/identity", "server/mcp", "version"},
    "server/router": {"core", "transports", "server/answers", "server/identity", "server/visit"},
    "server/rest": {
        "core",
        "config",
        "transports",
        "stores",
        "catalog",
        "calls",
        "project",
        "server/answers",
        "server/identity",
        "server/router",
        "server/views",
        "server/visit",
        "version",
    },
    "server/oauth": {
        "core",
        "transports",
        "stores",
        "server/answers",
        "server/identity",
        "server/router",
        "server/visit",
    },
    "server/web": {
        "core",
        "schema",
        "config",
        "transports",
        "stores",
        "catalog",
        "calls",
        "crib",
        "project",
        "server/answers",
        "server/identity",
        "server/oauth",
        "server/rest",
        "server/router",
        "server/views",
        "server/visit",
        "version",
    },
    "server/app": {
        "core",
        "config",
        "transports",
        "calls",
        "crib",
        "project",
        "server/identity",
        "server/joins",
        "server/mcp",
        "server/oauth",
        "server/rest",
        "server/router",
        "server/visit",
        "server/web",
        "version",
    },
    "server/serve": {
        "core",
        "config",
        "transports",
        "stores",
        "crib",
        "project",
        "server/app",
        "server/identity",
        "server/joins",
        "server/mcp",
        "version",
    },
    "server/asgi": {
        "core",
        "config",
        "transports",
        "crib",
        "project",
        "server/app",
        "server/identity",
        "server/mcp",
        "server/serve",
    },
    "cli": {
        "core",
        "schema",
        "config",
        "stores",
        "isolate",
        "catalog",
        "calls",
        "knowledge",
        "agents",
        "crib",
        "project",
        "server/app",
        "server/identity",
        "server/mcp",
        "server/remote",
        "server/rest",
        "server/serve",
        "server/views",
        "version",
    },
}
EVERYBODY = {"__init__", "__main__"}


def room_of(module: str) -> str:
    parts = [*module.split(".")[1:], ""]
    return "/".join(parts[:2]) if parts[0] == "server" and parts[1] else parts[0] or "__init__"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Parsed once for all tests of this file."""
    return ast.parse(path.read_text())


@pytest.fixture(scope="module", autouse=True)
def forget_trees() -> Iterator[None]:
    """They are large, and whatever runs afterwards in this process would be slower."""
    yield
    tree_of.cache_clear()


def module_of(path: Path) -> str:
    return ".".join(("toolcrib", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def imports_of(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "toolcrib":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "toolcrib")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down_the_levels(path: Path):
    """A room imports itself and the rooms its line of the table names, nothing else."""
    room = room_of(module_of(path))
    if room in EVERYBODY or path.relative_to(PACKAGE).as_posix() == "server/__init__.py":
        return
    allowed = MAY_IMPORT[room] | {room}

    foreign = {room_of(module) for module in imports_of(ast.walk(tree_of(path)))} - allowed

    assert not foreign


def test_every_line_of_the_table_names_rooms_of_lower_levels_only():
    """So no room can come to need itself, however the table grows."""
    height = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

    wrong = {(room, below) for room, rooms in MAY_IMPORT.items() for below in rooms if height[below] >= height[room]}

    assert not wrong
    assert height.keys() == MAY_IMPORT.keys()


def imported_at_once(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs when the module is imported: not the bodies of functions, nor what is for the type checker."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


def test_no_module_needs_itself_to_be_imported():
    """There are no cycles among the modules."""
    paths = {module_of(path): path for path in modules()}
    needs = {}
    for module, path in paths.items():
        named = set(imports_of(imported_at_once(tree_of(path))))
        needs[module] = ({name if name in paths else name.rpartition(".")[0] for name in named} & paths.keys()) - {
            module
        }
    cycle = []
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle = error.args[1]

    assert cycle == []


def test_no_public_class_name_stands_for_two_things():
    """Whoever reads a class's name anywhere knows which one is meant."""
    found = defaultdict(list)
    for path in modules():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module_of(path))

    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_the_map_names_every_room_and_nothing_else():
    """``ARCHITECTURE.md`` has a line for each package, and every path it mentions is there; it stays a page."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    tree = text.partition("```text\n")[2].partition("```")[0]
    rooms = set(re.findall(r"^├─ (\w+)/|^└─ (\w+)/", tree, re.MULTILINE))
    mentioned = set(re.findall(r"`([a-z_]+/[a-z_/]+)(?:\.py)?`", text)) - {"server/discover"}  # a word of the protocol
    gone = {name for name in mentioned if not any((top / name).exists() for top in (PACKAGE, ROOT))}
    gone = {name for name in gone if not any((top / f"{name}.py").exists() for top in (PACKAGE, ROOT))}

    assert {name for pair in rooms for name in pair if name} == {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert not gone
    assert len(text.splitlines()) <= 150


@pytest.mark.parametrize("room", ["wire", "schema", "search", "config", "core"])
def test_pure_rooms_open_nothing_and_never_wait(room: str):
    """What decides without I/O cannot import a socket, an event loop or a subprocess; two files of ``core`` may."""
    forbidden = {"socket", "asyncio", "subprocess", "threading", "http", "urllib"}
    harmless = {"urllib.parse"}
    found = set()
    for path in (PACKAGE / room).rglob("*.py"):
        if path.name in ("tasks.py", "topic.py"):
            continue
        for node in ast.walk(tree_of(path)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            found |= {(path.name, name) for name in names if name.split(".")[0] in forbidden and name not in harmless}

    assert not found


@pytest.mark.parametrize("room", ["wire", "schema", "config"])
def test_pure_rooms_ask_neither_clock_nor_disk_nor_environment(room: str):
    """Moments, paths and variables are given to them as values; no file of theirs is an exception."""
    modules_forbidden = {"os", "time", "random", "secrets", "tempfile", "shutil", "glob", "importlib", "signal"}
    asked = {"expanduser", "exists", "is_file", "is_dir", "stat", "iterdir", "rglob", "mkdir", "unlink", "read_text"}
    asked |= {"read_bytes", "write_text", "write_bytes", "now", "utcnow", "today", "Path.cwd", "Path.home"}
    found = set()
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {(path.name, alias.name) for alias in node.names if alias.name in modules_forbidden}
            elif isinstance(node, ast.ImportFrom) and node.module in modules_forbidden:
                found.add((path.name, node.module))
            elif isinstance(node, ast.Attribute) and asked & {node.attr, ast.unparse(node)}:
                found.add((path.name, node.attr))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input"):
                found.add((path.name, node.func.id))

    assert not found
