"""What every journey starts from: the installed fleet, things for its servers to work on, and a running gateway."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.fleet import install, servers
from tests.fleet.clients import Place
from tests.fleet.forked import forked
from tests.fleet.gateway import serving, stdio_command
from tests.journeys.workshop import Workshop, make_repository


@pytest.fixture(scope="session")
def fleet() -> None:
    """Every real server and client is installed, or the tests fail saying why."""
    install.ensure()


@pytest.fixture(scope="session")
def workshop(fleet: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    home = tmp_path_factory.mktemp("workshop").resolve()
    note = home / "note.txt"
    note.write_text("written by the test\n")
    repository = make_repository(home / "repository")
    with servers.everything_over_http() as remote:
        in_python = {"time": servers.time(), "git": servers.git(repository), "calculator": servers.calculator()}
        launches = {
            "everything": servers.everything(),
            "filesystem": servers.filesystem(home),
            "memory": servers.memory(home / "memory.jsonl"),
            **in_python,
            "remote": remote,
        }
        config = servers.write_config(home / "servers.json", launches)
        yield Workshop(home, note, repository, config, launches, in_python)


@pytest.fixture(scope="session")
def quick_config(workshop: Workshop) -> Iterator[Path]:
    """The same servers for gateways that are started again and again: those in Python are imported only once.

    It is in a home of its own, as for one user these would be other servers under the same names.
    """
    home = workshop.home / "quick"
    home.mkdir()
    with ExitStack() as life:
        sockets = Path(life.enter_context(tempfile.TemporaryDirectory()))
        launches = {name: life.enter_context(forked(launch, sockets)) for name, launch in workshop.in_python.items()}
        yield servers.write_config(home / "servers.json", {**workshop.launches, **launches})


@pytest.fixture(scope="session")
def places(workshop: Workshop, quick_config: Path) -> Iterator[dict[str, Place]]:
    """The gateway by each of its MCP doors; the one behind HTTP runs for the whole session."""
    with serving(workshop.config) as (url, _):
        yield {
            "stdio": Place(quick_config.parent, argv=stdio_command(quick_config)),
            "http": Place(workshop.home, url=url),
        }
