"""What is left when the gateway ends: nothing."""

import subprocess

import pytest
from tests.fleet import servers
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import TOOLCRIB, serving
from tests.fleet.running import until

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet


def processes_naming(words: str) -> list[str]:
    """The command lines of running processes that contain ``words``."""
    listing = subprocess.run(["ps", "-Awwo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if words in line and "ps -Awwo" not in line]


def gone(words: str) -> None:
    until(lambda: not processes_naming(words), deadline_s=150, what=f"no process left among {processes_naming(words)}")


USE_BOTH = [
    {"op": "call", "tool": "filesystem__list_allowed_directories", "arguments": {}},
    {"op": "call", "tool": "git__git_branch", "arguments": {"repo_path": "repository", "branch_type": "local"}},
]


@pytest.fixture
def config(fleet, tmp_path):
    """One Node and one Python server, both recognisable by the folder on their command lines."""
    (tmp_path / "root").mkdir()
    repository = tmp_path / "root" / "repository"
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    launches = {"filesystem": servers.filesystem(tmp_path / "root"), "git": servers.git(repository)}
    return servers.write_config(tmp_path / "servers.json", launches)


def test_a_client_that_closes_stdio_ends_every_server(config):
    """The client's end of input is enough; no signal is needed."""
    place = Place(config.parent, argv=(*TOOLCRIB, "stdio", "--alone", "--config", str(config)))

    outcomes = SdkClient(2, "legacy").converse(place, USE_BOTH)["outcomes"]

    assert all("result" in outcome for outcome in outcomes)
    gone(str(config.parent / "root"))


def test_a_terminated_gateway_ends_every_server(config):
    """SIGTERM to the gateway alone also ends what it started."""
    with serving(config) as (url, gateway):
        SdkClient(2, "modern").converse(Place(config.parent, url=url), USE_BOTH)
        assert len(processes_naming(str(config.parent / "root"))) == 2
        gateway.process.terminate()

        gone(str(config.parent / "root"))
        assert gateway.process.wait(150) == 0
