"""The modules that decide, and the tests that should notice when one of them is broken."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "toolcrib"
TESTS = ROOT / "tests"

PATTERNS = (
    "calls/approvals.py",
    "calls/elicit.py",
    "calls/gate.py",
    "calls/layers/*.py",
    "catalog/levels.py",
    "catalog/pins.py",
    "catalog/records.py",
    "config/foreign/locations.py",
    "config/keys.py",
    "config/merge.py",
    "config/rules.py",
    "config/secrets.py",
    "core/access.py",
    "schema/cost.py",
    "schema/prices.py",
    "schema/repair.py",
    "server/identity/jwt.py",
    "server/identity/run_proof.py",
    "server/identity/sign_in.py",
    "server/router.py",
    "sources/mcp/comeback.py",
    "sources/mcp/redactor.py",
    "stores/access_tokens.py",
    "stores/audit/note.py",
    "stores/audit/verify.py",
    "stores/audit/writer.py",
    "stores/run_files.py",
    "transports/http/guard.py",
    "transports/http/limits.py",
    "transports/process/connects.py",
    "wire/http.py",
    "wire/strict.py",
)
WIDER = {
    "calls": (
        "tests/calls",
        "tests/crib/test_layers.py",
        "tests/crib/test_crib.py",
    ),
    "config": (
        "tests/config",
        "tests/catalog",
    ),
    "core": (
        "tests/core",
        "tests/calls",
        "tests/catalog",
    ),
    "server": (
        "tests/server/identity",
        "tests/server/test_router.py",
        "tests/server/test_threshold.py",
    ),
    "sources": ("tests/sources",),
    "catalog": (
        "tests/catalog",
        "tests/crib/test_crib.py",
        "tests/crib/test_servers.py",
    ),
    "schema": (
        "tests/schema",
        "tests/calls/layers",
    ),
    "wire": (
        "tests/wire",
        "tests/server/mcp",
    ),
    "stores": (
        "tests/stores/audit/test_writer.py",
        "tests/stores/audit/test_verify.py",
        "tests/stores/test_access_tokens.py",
    ),
    "transports": (
        "tests/transports",
        "tests/server/identity",
        "tests/server/test_router.py",
        "tests/server/test_threshold.py",
    ),
}
"""Where else a fault of a room may be noticed, when the tests nearest to it pass."""

BESIDE = {
    "calls/approvals.py": ("tests/calls/layers/test_approve.py",),
    "calls/gate.py": ("tests/calls/test_limits.py",),
    "calls/layers/breaker.py": ("tests/calls/layers/test_breakers.py",),
    "calls/layers/arguments.py": ("tests/calls/layers/test_normalise.py",),
    "calls/layers/deadline.py": ("tests/calls/layers/test_replay.py",),
    "calls/layers/limit.py": ("tests/calls/layers/test_start.py", "tests/calls/test_limits.py"),
    "calls/layers/permit.py": ("tests/crib/test_layers.py",),
    "config/foreign/locations.py": ("tests/config/foreign/test_server_files.py",),
    "catalog/pins.py": ("tests/catalog/test_disorder.py",),
    "config/keys.py": (
        "tests/config/test_rules.py",
        "tests/config/test_strictest.py",
        "tests/config/test_walks.py",
    ),
    "config/merge.py": ("tests/config/test_rules.py", "tests/config/test_strictest.py"),
    "server/identity/jwt.py": (
        "tests/server/identity/test_jwt_gate.py",
        "tests/server/identity/test_jwt_keys.py",
    ),
    "server/router.py": (
        "tests/server/identity/test_sign_in.py",
        "tests/server/test_threshold.py",
    ),
}
"""Tests of a module that do not have its name."""
BOUNDS = "tests/test_bounds.py::test_the_bounds_of_a_module_that_decides_are_as_decided[{}]"
ONLY = {
    "calls/layers/fleet_limit.py": (
        "FleetAdmission",
        "FleetBook",
        "_rated",
        "_shared",
        "fleet_limit",
    ),
    "catalog/records.py": ("Quarantine",),
    "config/foreign/locations.py": (
        "is_folder_of_server_files",
        "is_server_file",
        "is_server_file_name",
    ),
    "config/merge.py": (
        "Findings",
        "Said",
        "_origin_of",
        "_own_layers",
        "_said",
        "_said_of_server",
        "_strictest_table",
        "_strictest_tool",
        "_strictest_tools",
        "strictest_of_server",
        "strictest_settings",
    ),
    "config/secrets.py": (
        "_in_basic",
        "_in_field",
        "_in_json",
        "_in_url",
        "_is_harmless",
        "_is_place",
        "_is_plain",
        "_parts",
        "secret_values",
        "secrets_of",
    ),
    "schema/cost.py": (
        "Weight",
        "_Scale",
        "_in_place",
        "_refuse_empty_cycles",
        "_walk_in_place",
        "inspect",
        "nesting",
        "refusal",
        "refuse_oversize",
        "weigh",
    ),
    "server/identity/sign_in.py": (
        "Session",
        "SignIns",
        "SignedIn",
        "Tokens",
        "_digest",
        "_host",
        "check_word",
        "refuse_strangers",
    ),
    "server/router.py": (
        "Enterer",
        "Entering",
        "Threshold",
        "_word",
        "is_own_origin",
        "wanted_place",
    ),
    "transports/http/limits.py": (
        "Guest",
        "Places",
        "_descriptors",
        "address_of",
    ),
    "wire/http.py": (
        "_agree",
        "_checked_token",
        "_children",
        "_mismatch",
        "_render",
        "_schema_parts",
        "_text",
        "_value_at",
        "check_mirrors",
        "check_params",
        "declared_headers",
        "decode_value",
        "encode_value",
        "param_headers",
    ),
}
"""Of modules that hold other things as well, what decides."""
SLOW = (
    "browser",
    "cli",
    "server/web",
    "fleet",
    "hostile",
    "journeys",
    "knowledge",
    "stores/postgres",
)
"""Folders of tests that start programs, or engines: too slow to ask of every mutant."""


def modules() -> list[str]:
    """The modules, as paths below the package."""
    found = {path for pattern in PATTERNS for path in SOURCE.glob(pattern) if path.name != "__init__.py"}
    return sorted(str(path.relative_to(SOURCE)) for path in found)


def decides(module: str, function: str) -> bool:
    """Whether this part of the module is one to break."""
    return module not in ONLY or function.partition(".")[0] in ONLY[module]


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
