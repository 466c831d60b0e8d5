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
    "config/rules.py",
    "config/secrets.py",
    "config/server_files.py",
    "config/strictest.py",
    "doors/http/entering.py",
    "doors/http/run_proof.py",
    "doors/http/sign_in*.py",
    "doors/http/threshold.py",
    "schema/cost.py",
    "schema/prices.py",
    "schema/repair.py",
    "sources/comeback.py",
    "sources/redactor.py",
    "wire/headers.py",
    "wire/strict.py",
    "stores/audit.py",
    "stores/audit_note.py",
    "stores/audit_verify.py",
    "stores/run_files.py",
    "stores/tokens.py",
    "stores/token_file.py",
    "transports/connects.py",
    "transports/http_guard.py",
    "transports/http_places.py",
    "transports/jwt*.py",
)
WIDER = {
    "calls": ("tests/calls", "tests/test_stack.py", "tests/test_crib.py"),
    "config": ("tests/config", "tests/catalog"),
    "core": ("tests/core", "tests/calls", "tests/catalog"),
    "doors": ("tests/doors/http",),
    "sources": ("tests/sources",),
    "catalog": ("tests/catalog", "tests/test_crib.py", "tests/test_servers.py"),
    "schema": ("tests/schema", "tests/calls/layers"),
    "wire": ("tests/wire", "tests/doors/mcp"),
    "stores": ("tests/stores/test_audit.py", "tests/stores/test_audit_verify.py", "tests/stores/test_tokens.py"),
    "transports": ("tests/transports", "tests/doors/http"),
}
"""Where else a fault of a room may be noticed, when the tests nearest to it pass."""

BESIDE = {
    "calls/layers/shelter.py": ("tests/test_stack.py",),
    "config/strictest.py": ("tests/config/test_rules.py", "tests/config/test_merge.py"),
    "doors/http/entering.py": ("tests/doors/http/test_threshold.py", "tests/doors/http/test_sign_in.py"),
    "sources/comeback.py": ("tests/sources/test_supervise.py",),
    "stores/token_file.py": ("tests/stores/test_tokens.py",),
    "transports/jwt.py": ("tests/transports/test_jwt_gate.py",),
}
"""Tests of a module that do not have its name."""
BOUNDS = "tests/test_bounds.py::test_the_bounds_of_a_module_that_decides_are_as_decided[{}]"
SLOW = ("browser", "doors/cli", "doors/web", "fleet", "hostile", "journeys", "knowledge", "stores/postgres")
"""Folders of tests that start programs, or engines: too slow to ask of every mutant."""


def modules() -> list[str]:
    """The modules, as paths below the package."""
    found = {path for pattern in PATTERNS for path in SOURCE.glob(pattern) if path.name != "__init__.py"}
    return sorted(str(path.relative_to(SOURCE)) for path in found)


def tests_of(module: str) -> list[list[str]]:
    """The tests to ask, nearest first: the module's own, those that import it, those of its room and above it."""
    beside = str(TESTS.relative_to(ROOT) / Path(module).parent / f"test_{Path(module).name}")
    own = [path for path in (beside, *BESIDE.get(module, ())) if (ROOT / path).is_file()]
    own += [BOUNDS.format(module)] if f'"{module}": ' in (TESTS / "test_bounds.py").read_text() else []
    dotted = "toolcrib." + module.removesuffix(".py").replace("/", ".")
    importing = [path for path, imported in _imports().items() if dotted in imported and path not in own]
    wider = [path for path in WIDER[module.split("/", maxsplit=1)[0]] if (ROOT / path).exists()]
    return [tests for tests in (own, importing, wider) if tests]


@cache
def _imports() -> dict[str, set[str]]:
    """For every test file, the modules it imports."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if any(path.is_relative_to(TESTS / folder) for folder in SLOW):
            continue
        names = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module is not None
        }
        found[str(path.relative_to(ROOT))] = names
    return found
