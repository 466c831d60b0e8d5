"""The modules that decide, and the tests that should notice when one of them is broken."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "toolcrib"
TESTS = ROOT / "tests"

PATTERNS = (
    "core/access.py",
    "calls/layers/*.py",
    "calls/approvals.py",
    "calls/elicit.py",
    "calls/breaker.py",
    "calls/gate.py",
    "calls/limits.py",
    "catalog/pins.py",
    "catalog/quarantine.py",
    "catalog/levels.py",
    "schema/cost.py",
    "schema/repair.py",
    "wire/headers.py",
    "stores/audit.py",
    "stores/audit_verify.py",
    "stores/tokens.py",
    "stores/token_file.py",
    "transports/http_guard.py",
    "transports/jwt*.py",
)
WIDER = {
    "calls": ("tests/calls", "tests/test_stack.py", "tests/test_crib.py"),
    "core": ("tests/core", "tests/calls", "tests/catalog"),
    "catalog": ("tests/catalog", "tests/test_crib.py", "tests/test_servers.py"),
    "schema": ("tests/schema", "tests/calls/layers"),
    "wire": ("tests/wire", "tests/doors/mcp"),
    "stores": ("tests/stores/test_audit.py", "tests/stores/test_audit_verify.py", "tests/stores/test_tokens.py"),
    "transports": ("tests/transports", "tests/doors/http"),
}
"""Where else a fault of a room may be noticed, when the tests nearest to it pass."""


def modules() -> list[str]:
    """The modules, as paths below the package."""
    found = {path for pattern in PATTERNS for path in SOURCE.glob(pattern) if path.name != "__init__.py"}
    return sorted(str(path.relative_to(SOURCE)) for path in found)


def tests_of(module: str) -> list[list[str]]:
    """The tests to ask, nearest first: the module's own, those that import it, those of its room and above it."""
    beside = TESTS / Path(module).parent / f"test_{Path(module).name}"
    own = [str(beside.relative_to(ROOT))] if beside.is_file() else []
    dotted = "toolcrib." + module.removesuffix(".py").replace("/", ".")
    importing = [path for path, imported in _imports().items() if dotted in imported and path not in own]
    wider = [path for path in WIDER[module.split("/", maxsplit=1)[0]] if (ROOT / path).exists()]
    return [tests for tests in (own, importing, wider) if tests]


@cache
def _imports() -> dict[str, set[str]]:
    """For every test file, the modules it imports."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.is_relative_to(TESTS / "journeys") or path.is_relative_to(TESTS / "browser"):
            continue
        names = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module is not None
        }
        found[str(path.relative_to(ROOT))] = names
    return found
