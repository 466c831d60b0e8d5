"""What every journey starts from: the installed fleet, things for its servers to work on, and a running gateway."""

from collections.abc import Iterator

import pytest
from tests.fleet import install, servers
from tests.fleet.clients import Place
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
        launches = {
            "everything": servers.everything(),
            "filesystem": servers.filesystem(home),
            "memory": servers.memory(home / "memory.jsonl"),
            "time": servers.time(),
            "git": servers.git(repository),
            "calculator": servers.calculator(),
            "remote": remote,
        }
        yield Workshop(home, note, repository, servers.write_config(home / "servers.json", launches))


@pytest.fixture(scope="session")
def places(workshop: Workshop) -> Iterator[dict[str, Place]]:
    """The gateway by each of its MCP doors; the one behind HTTP runs for the whole session."""
    with serving(workshop.config) as (url, _):
        yield {
            "stdio": Place(workshop.home, argv=stdio_command(workshop.config)),
            "http": Place(workshop.home, url=url),
        }
