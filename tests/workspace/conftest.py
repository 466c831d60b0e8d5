"""A workspace with something secret beside it, and its tools over each way of opening files."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from toolcrib.isolate.plan import Host
from toolcrib.isolate.proof import Prover
from toolcrib.isolate.worker import Workers
from toolcrib.transports.process.spawn import Spawner
from toolcrib.version import VERSION
from toolcrib.workspace.beneath import kernel_open, walk_open
from toolcrib.workspace.files import FileTools
from toolcrib.workspace.listing import ListTools
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.search import SearchTools, scan_in
from toolcrib.workspace.shell import Programs

CANARY = "canary-7f3a"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What no tool may read or change."""
    place = tmp_path / "outside"
    (place / "deep").mkdir(parents=True)
    (place / "secret.txt").write_text(f"{CANARY}\n")
    (place / "deep" / "secret.txt").write_text(f"{CANARY}\n")
    return place


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (place / "a.txt").write_text("alpha\nbeta\n")
    (place / "src").mkdir()
    (place / "src" / "b.py").write_text("import os\n\n\ndef main():\n    return 1\n")
    return place


def walk_by_hand(root: int, path: str, flags: int) -> int:
    return walk_open(root, path.split("/"), flags)


def openers():
    """Each way of opening files that this machine has; the one by hand works everywhere."""
    return {"by_hand": walk_by_hand} | ({"kernel": kernel_open()} if kernel_open() else {})


@pytest.fixture(params=sorted(openers()))
def root(request, work) -> WorkspaceRoot:
    return WorkspaceRoot(work, opener=openers()[request.param])


@pytest.fixture
def files(root) -> FileTools:
    return FileTools(root)


@pytest.fixture
def lists(root) -> ListTools:
    return ListTools(root)


@pytest.fixture
async def spawner():
    spawner = Spawner()
    yield spawner
    await spawner.close()


@pytest.fixture(scope="session")
def state(tmp_path_factory):
    """What the self-test found is remembered for all tests."""
    return tmp_path_factory.mktemp("state") / "isolation.json"


@pytest.fixture
def bounds(spawner, state):
    host = Host.here(os.environ)
    return host, Prover(spawner, host, state, VERSION)


@pytest.fixture
def programs(spawner, bounds) -> Programs:
    return Programs(spawner, *bounds, {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})


@pytest.fixture
def workers(spawner, bounds) -> Workers:
    return Workers(spawner, *bounds, os.environ)


@pytest.fixture(params=["python", "ripgrep"])
def search(request, root, programs, workers) -> SearchTools:
    """The search tool with each engine; ripgrep comes with the tools of development."""
    assert shutil.which("rg", path=programs.env["PATH"]), "ripgrep is not installed: run `./dev` once"
    return SearchTools(root, programs, scan_in(workers), may_use_ripgrep=request.param == "ripgrep")
