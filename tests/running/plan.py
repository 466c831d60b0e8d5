"""Which files of tests are run, and in which order: the longest first, so that none is alone at the end."""

from collections import Counter, defaultdict
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
WEIGHTS = Path(__file__).with_name("weights.txt")
"""How many seconds each of the longer files takes; ``python -m tests.running weigh`` writes it anew."""
LIGHT_S = 5.0
KIN = {
    "tests/journeys/test_real_servers.py": "real servers",
    "tests/journeys/test_our_client.py": "real servers",
    "tests/journeys/test_exposure.py": "real servers",
}
"""Files that share what is slow to start and lives as long as its worker: one worker runs them, one after the other."""


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
    some = [Task(path, tuple(only), kin=KIN.get(path, "")) for path, only in ids.items() if path not in whole]
    return [*by_length(whole), *some]


def by_length(paths: Iterable[str]) -> list[Task]:
    """The longest first; those that are run one after the other count together."""
    times = shipped_times() | last_times()
    lengths: Counter[str] = Counter()
    chosen = set(paths)
    for path in chosen:
        lengths[KIN.get(path, path)] += times.get(path, 0.0)

    def place(path: str) -> tuple[float, str, float, str]:
        kin = KIN.get(path, path)
        return -lengths[kin], kin, -times.get(path, 0.0), path

    return [Task(path, kin=KIN.get(path, "")) for path in sorted(chosen, key=place)]


def shipped_times() -> dict[str, float]:
    """The seconds that the longer files took when somebody weighed them."""
    pairs = (line.split() for line in WEIGHTS.read_text().splitlines())
    return {path: float(seconds) for seconds, path in pairs}


def weigh() -> None:
    """Write down how long each of the longer files took when all were run last, for machines that do not know."""
    longest = sorted(
        ((seconds, path) for path, seconds in last_times().items() if (ROOT / path).exists()), reverse=True
    )
    WEIGHTS.write_text("".join(f"{seconds:.0f} {path}\n" for seconds, path in longest if seconds >= LIGHT_S))
