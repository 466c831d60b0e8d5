"""Which files of tests are run, and in which order: the longest first, so that none is alone at the end."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.running.crew import ROOT, Task
from tests.running.tally import last_times

QUICK_VARIABLE = "QUICK_TESTS"
"""Set in the environment of a quick run, which tries fewer examples of each property."""
QUICK = (
    "tests/agents",
    "tests/calls",
    "tests/catalog",
    "tests/config",
    "tests/core",
    "tests/server/identity",
    "tests/server/test_router.py",
    "tests/server/test_threshold.py",
    "tests/server/mcp",
    "tests/server/views",
    "tests/models",
    "tests/platform",
    "tests/schema",
    "tests/search",
    "tests/testing",
    "tests/wire",
    "tests/test_architecture.py",
    "tests/crib/test_crib.py",
    "tests/test_public_api.py",
    "tests/crib/test_layers.py",
)
"""Folders of tests that start no programs."""
FIRST = (
    "tests/stores/test_faults.py",
    "tests/journeys/test_large_results.py",
    "tests/browser/test_every_page.py",
    "tests/hostile/test_evil.py",
    "tests/adapters/test_conversations.py",
    "tests/journeys/test_real_servers.py",
    "tests/cli/test_kb.py",
    "tests/hostile/test_company.py",
    "tests/journeys/test_knowledge.py",
    "tests/hostile/test_servers.py",
    "tests/server/web/test_schema_form.py",
    "tests/adapters/test_over_mcp.py",
    "tests/journeys/test_exposure.py",
    "tests/server/rest/test_openapi.py",
    "tests/journeys/test_approval.py",
    "tests/browser/test_small_stories.py",
    "tests/journeys/test_balancing.py",
    "tests/contracts/test_knowledge.py",
    "tests/knowledge/test_fill.py",
    "tests/test_docs.py",
    "tests/workspace/test_hostile_paths.py",
    "tests/hostile/test_leaky.py",
    "tests/knowledge/test_teamwork.py",
    "tests/stores/postgres/test_knowledge.py",
    "tests/knowledge/test_builder.py",
    "tests/contracts/test_worklist.py",
    "tests/stores/postgres/test_audit.py",
    "tests/journeys/test_workspace.py",
    "tests/stores/postgres/test_cuts.py",
    "tests/journeys/test_replicas.py",
    "tests/contracts/test_coordination.py",
    "tests/cli/test_tools.py",
    "tests/cli/test_serving.py",
    "tests/browser/test_whole_story.py",
    "tests/transports/test_stdio.py",
    "tests/cli/test_kb_shared.py",
    "tests/cli/test_db.py",
    "tests/contracts/test_tokens.py",
    "tests/journeys/test_isolation.py",
    "tests/cli/test_audit.py",
    "tests/workspace/test_shell.py",
    "tests/server/web/test_tools_page.py",
    "tests/cli/test_main.py",
    "tests/schema/dialects/test_widening.py",
    "tests/knowledge/parse/test_bombs.py",
    "tests/knowledge/test_ingest.py",
    "tests/journeys/test_leaving.py",
    "tests/cli/test_chat.py",
    "tests/server/web/test_kb_page.py",
    "tests/stores/postgres/test_verify.py",
    "tests/server/rest/test_projects.py",
    "tests/sources/native/test_running.py",
    "tests/stores/postgres/test_coordination.py",
    "tests/stores/postgres/test_copying.py",
    "tests/config/foreign/test_hostile.py",
    "tests/server/web/test_server_form_page.py",
    "tests/server/web/test_audit_page.py",
    "tests/test_deploy.py",
    "tests/server/web/test_pages.py",
    "tests/stores/test_lockfile_answers.py",
    "tests/server/web/test_calls_page.py",
    "tests/contracts/test_sessionbook.py",
    "tests/stores/test_durability.py",
    "tests/journeys/test_unreadable_results.py",
)
"""The longest files, where it is not remembered how long each takes."""


def test_files(below: Path) -> list[str]:
    found = [below] if below.is_file() else sorted(below.rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in found]


def everything() -> list[Task]:
    """All files."""
    return by_length(test_files(ROOT / "tests"))


def quick() -> list[Task]:
    """The files that catch most for their time."""
    return by_length(path for folder in QUICK for path in test_files(ROOT / folder))


def named(names: Sequence[str]) -> list[Task]:
    """Files, folders, or tests by their ids."""
    ids: dict[str, list[str]] = defaultdict(list)
    whole = []
    for name in names:
        path, _, test = name.partition("::")
        if test:
            ids[path].append(name)
        else:
            whole += test_files(ROOT / path)
    return [*by_length(whole), *(Task(path, tuple(only)) for path, only in ids.items() if path not in whole)]


def by_length(paths: Iterable[str]) -> list[Task]:
    """The longest first."""
    times = last_times() or {path: float(len(FIRST) - place) for place, path in enumerate(FIRST)}
    return [Task(path) for path in sorted(set(paths), key=lambda path: (-times.get(path, 0.0), path))]
