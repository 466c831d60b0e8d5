"""A client that lists before a slow server is up: it is told what is still coming, and when it has come."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fleet import servers
from tests.fleet.gateway import serving, stdio_command
from tests.fleet.running import homely

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet
HERE = Path(__file__).resolve().parent


def run_client(home: Path, where: list[str]) -> dict:
    command = [servers.sdk_python(1), str(HERE / "late_client.py"), str(home / "now"), *where]
    done = subprocess.run(command, env=homely(home), cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("door", ["http", "stdio"])
@pytest.mark.usefixtures("fleet")
def test_a_real_client_that_lists_too_early_hears_of_the_rest(door: str, tmp_path: Path):
    """Its first list names the server that is missing, and is not its last."""
    config, server = tmp_path / "toolcrib.toml", [str(HERE / "late_server.py"), str(tmp_path / "now")]
    entry = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(server)}\n"
    config.write_text(f'[catalog]\ngrace = "50ms"\n[servers.late]\n{entry}')
    if door == "stdio":
        seen = run_client(tmp_path, list(stdio_command(config)))
    else:
        with serving(config) as (url, _):
            seen = run_client(tmp_path, [url])

    (missing,) = seen.pop("missing")
    assert seen == {"before": ["result_read"], "after": ["late__work", "result_read"], "left": None, "called": "worked"}
    assert (missing["server"], missing["reason"]) == ("late", "It is starting, and has not answered yet.")
