"""What a child gets to know of the gateway's environment."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.transports.processes import FAMILY, MARKER, Recorder, marked, new_marker, until

from toolcrib.transports.process.environment import child_environment, is_inherited
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec
from toolcrib.transports.stdio import open_stdio

HARMLESS = {
    "HOME": "/home/ada", "PATH": "/bin", "LANG": "C.UTF-8", "LC_ALL": "C", "TZ": "UTC", "TMPDIR": "/tmp",
    "XDG_CACHE_HOME": "/c", "SSL_CERT_FILE": "/ca.pem", "HTTPS_PROXY": "http://proxy", "no_proxy": "localhost",
    "npm_config_cache": "/npm", "NPM_CONFIG_REGISTRY": "https://npm", "UV_CACHE_DIR": "/uv", "PIP_INDEX_URL": "https://i",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
}  # fmt: skip
SECRET = {
    "ANTHROPIC_API_KEY": "s", "TOOLCRIB_TOKEN": "s", "AWS_SECRET_ACCESS_KEY": "s", "DATABASE_URL": "s",
    "PYTHONPATH": "/x", "LD_PRELOAD": "/x.so", "NODE_OPTIONS": "--require x", "XDG_SESSION_ID": "4", "path": "/x",
    "UV_PUBLISH_TOKEN": "s", "UV_INDEX_PRIVATE_PASSWORD": "s", "npm_config__authToken": "s",
}  # fmt: skip


def test_a_child_gets_what_it_needs_to_run_and_no_secret():
    """An allow-list: what is not on it stays here, and so do secrets under allowed prefixes."""
    assert child_environment({}, HARMLESS | SECRET) == HARMLESS


def test_declared_variables_come_on_top():
    """What the user wrote for this server wins, and may be anything."""
    declared = {"PATH": "/opt/bin", "GITHUB_TOKEN": "t"}

    assert child_environment(declared, {"PATH": "/bin", "HOME": "/h"}) == {"HOME": "/h", **declared}


def test_exported_shell_functions_are_left_out():
    """Their value is code."""
    assert child_environment({}, {"LANG": "() { :; }; echo hacked", "USER": "ada"}) == {"USER": "ada"}


@pytest.mark.parametrize("name", sorted(SECRET))
def test_a_secret_is_not_inherited(name):
    """Each of them by itself."""
    assert not is_inherited(name)


async def test_a_server_has_exactly_the_environment_it_was_given():
    """Neither the gateway's variables nor any of the processes in between show up."""
    marker, sink, spawner = new_marker(), Recorder(), Spawner()
    env = {MARKER: marker, "EMPTY": "", "LINES": "a\nb=c", "ODD": "ä\udcff"}
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    await open_stdio(spawner, ProcessSpec((sys.executable, "-I", "-S", "-X", "utf8", "-c", script), env), sink)
    await sink.end()
    await spawner.close()

    assert {**json.loads(sink.messages[0]), "LC_CTYPE": ""} == {**env, "LC_CTYPE": ""}
    assert marked(marker) == set()


GATEWAY = """
import asyncio, os, sys
from tests.transports.processes import Recorder, python
from toolcrib.transports.process.environment import forbid_inspection
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec
from toolcrib.transports.stdio import open_stdio

SPY = '''
import os, sys
for pid in sys.argv[1:]:
    try:
        open(f"/proc/{pid}/environ", "rb").read()
        print("{} read")
    except PermissionError:
        print("[] refused")
'''

async def start(argv, sink):
    return await open_stdio(spawner, ProcessSpec(argv, dict(os.environ), stop_grace_s=0.2, kill_grace_s=0.2), sink)

async def main():
    print("worked" if forbid_inspection() else "not possible")
    spy, family = Recorder(), Recorder()
    transport = await start(python(os.environ["FAMILY"]), family)
    await family.messages_until(1)
    await start(python(SPY, str(os.getpid()), str(spawner.pid), str(transport.pid)), spy)
    await spy.end()
    await spawner.close()
    print(b" ".join(spy.messages).decode(), len(family.ends))

spawner = Spawner()
asyncio.run(main())
"""


def ordinary_user() -> tuple[str, dict[str, int]]:
    """An interpreter an ordinary user can run, and who that is; root could read everything anyway."""
    if os.geteuid() != 0:
        return sys.executable, {}
    system = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    if system is None:
        pytest.skip("running as root, and no interpreter that another user may run")
    return system, {"user": 65534, "group": 65534}


@pytest.fixture
def readable_copy() -> Iterator[Path]:
    """What the gateway below imports, where every user can read it: a checkout may be closed to others."""
    root = Path(__file__).parents[3]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(root / "src" / "toolcrib", Path(folder, "toolcrib"), ignore=shutil.ignore_patterns("*.pyc"))
        Path(folder, "tests", "transports").mkdir(parents=True)
        shutil.copy(root / "tests" / "transports" / "processes.py", Path(folder, "tests", "transports"))
        for entry in (Path(folder), *Path(folder).rglob("*")):
            entry.chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can")
async def test_a_server_cannot_look_into_the_gateway(readable_copy):
    """Once hardened, gateway and spawner refuse; servers stay visible, and are still ended with all they started."""
    interpreter, user = ordinary_user()
    marker = new_marker()
    env = {
        MARKER: marker,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(readable_copy),
        "FAMILY": FAMILY,
    }

    done = subprocess.run(
        [interpreter, "-c", GATEWAY], check=False, env=env, cwd="/", capture_output=True, text=True, timeout=60, **user
    )

    assert done.stdout.split("\n") == ["worked", "[] refused [] refused {} read 1", ""], done.stderr
    await until(lambda: not marked(marker))
