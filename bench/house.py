"""The measures of the code itself: how many modules, how long, how entangled. ``./dev check`` holds them.

    python -m bench.house             the table
    python -m bench.house --check     exit code 1 when a limit is passed
    python -m bench.house --names     what each count is made of

A limit is what was reached last; whoever gets below it lowers it, until it is the goal.
"""

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "toolcrib"


@dataclass(frozen=True, slots=True)
class Measure:
    """One count, what it may be today and where it should go; where more is better, ``is_least``."""

    name: str
    limit: int
    goal: int
    is_least: bool = False

    def is_kept(self, value: int) -> bool:
        """Whether the value is within the limit."""
        return value >= self.limit if self.is_least else value <= self.limit


MEASURES = (
    Measure("modules", 535, 450),
    Measure("lines", 102_500, 62_000),
    Measure("lines of a module (median)", 120, 120, is_least=True),
    Measure("lines of the longest module", 500, 500),
    Measure("modules with exactly one importer", 100, 100),
    Measure("modules in cycles, late and typing imports too", 0, 0),
    Measure("imports inside functions that save no start", 8, 0),
    Measure("public class names used twice or more", 0, 0),
    Measure("rooms the command line imports", 13, 13),
)


@dataclass(slots=True)
class House:
    """What the sources of the package tell."""

    lines: dict[str, int] = field(default_factory=dict)
    importers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    late: list[tuple[str, str, str]] = field(default_factory=list)
    """Module, where, and what it imports inside a function."""
    brings: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What each module imports when it is loaded: our modules, and libraries by name."""
    classes: Counter[str] = field(default_factory=Counter)
    cli_rooms: set[str] = field(default_factory=set)

    def table(self) -> dict[str, int]:
        """Each measure's value."""
        full = [count for count in self.lines.values() if count > 1]
        values = (
            len(self.lines),
            sum(self.lines.values()),
            int(statistics.median(full)),
            max(full),
            len(self.lonely()),
            len(self.entangled()),
            len(self.unexplained()),
            len(self.twice()),
            len(self.cli_rooms),
        )
        return dict(zip((measure.name for measure in MEASURES), values, strict=True))

    def lonely(self) -> list[str]:
        """The modules that exactly one other module imports."""
        return sorted(name for name in self.lines if len(self.importers[name]) == 1)

    def entangled(self) -> list[str]:
        """The modules that need themselves, by way of others."""
        needs = {name: {other for other in self.lines if name in self.importers[other]} for name in self.lines}
        return sorted(name for name in needs if name in _reached(needs, name))

    def unexplained(self) -> list[str]:
        """Imports inside functions that keep nothing heavy out of the start: those are glue."""
        return sorted(
            f"{where} {imported}" for module, where, imported in self.late if not self._saves(module, imported)
        )

    def _saves(self, module: str, imported: str) -> bool:
        """Whether an import inside a function brings a heavy library, or one of an extra, that its module lacks."""
        target = imported if imported in self.lines else imported.rpartition(".")[0]
        return bool((self._libraries(target) - self._libraries(module)) & KEPT_LATE)

    def _libraries(self, module: str) -> set[str]:
        needed = _reached(self.brings, module) | {module}
        return {library for name in needed for library in self.brings.get(name, ()) if library not in self.lines}

    def twice(self) -> list[str]:
        """Public class names that stand for several classes."""
        return sorted(name for name, count in self.classes.items() if count > 1)


def survey() -> House:
    """Read every module of the package."""
    house = House()
    paths = {_module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    for name, path in paths.items():
        text = path.read_text()
        house.lines[name] = text.count("\n")
        tree = ast.parse(text)
        house.classes.update(_public_classes(tree))
        house.brings[name].update(_loaded_with(tree, paths))
        for imported, line, is_late in _imports(tree):
            target = imported if imported in paths else imported.rpartition(".")[0]
            if target in paths and target != name:
                house.importers[target].add(name)
            if is_late and not _may_be_late(name):
                house.late.append((name, f"{path.relative_to(PACKAGE)}:{line}", imported))
            if name.startswith("toolcrib.cli"):
                house.cli_rooms.add(_room_of(imported))
    house.cli_rooms -= {"", "cli"}
    return house


EXTRAS = (
    "joserfc",
    "onnxruntime",
    "opentelemetry",
    "psycopg",
    "psycopg_pool",
    "pypdfium2",
    "redis",
    "selectolax",
    "yaml",
)
KEPT_LATE = frozenset({"apsw", "ctypes", "httptools", "jinja2", "numpy", "ssl", *EXTRAS})
"""What takes a start longest (``python -X importtime``), and what comes with an extra."""


def _loaded_with(tree: ast.Module, paths: Mapping[str, Path]) -> Iterator[str]:
    """What a module loads when it is loaded itself: our modules, and libraries by name."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in paths else node.module for name in named)
            if not node.module.startswith("toolcrib"):
                yield node.module.split(".")[0]


def _reached(needs: Mapping[str, set[str]], start: str) -> set[str]:
    """All that a module needs, whatever way it takes."""
    reached: set[str] = set()
    waiting = [*needs.get(start, ())]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += needs.get(name, ())
    return reached


def _may_be_late(module: str) -> bool:
    """The lazy public names and the table of commands."""
    return module in ("toolcrib", "toolcrib.__main__", "toolcrib.cli.main")


def _module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room_of(module: str) -> str:
    return "".join(module.split(".")[1:2])


def _public_classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def _imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Every import of our own, where it stands, and whether inside a function."""
    late = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "toolcrib":
            yield from ((f"{node.module}.{alias.name}", node.lineno, id(node) in late) for alias in node.names)
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if alias.name.split(".")[0] == "toolcrib")
            yield from ((name, node.lineno, id(node) in late) for name in ours)


def main(argv: list[str]) -> int:
    """Print the table; with ``--check``, tell of passed limits only."""
    house = survey()
    table = house.table()
    passed = [measure for measure in MEASURES if not measure.is_kept(table[measure.name])]
    if "--names" in argv:
        for title, names in (
            ("late", house.unexplained()),
            ("twice", house.twice()),
            ("lonely", house.lonely()),
            ("entangled", house.entangled()),
        ):
            print(f"{title}:", *names, sep="\n  ")
    for measure in passed if "--check" in argv else MEASURES:
        sign = "at least" if measure.is_least else "at most"
        mark = "  <- beyond its limit" if measure in passed else ""
        print(f"{measure.name:50}{table[measure.name]:>8}  {sign} {measure.limit}, goal {measure.goal}{mark}")
    return int(bool(passed) and "--check" in argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
