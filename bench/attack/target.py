"""The toolcrib under attack: its files, its servers good and evil, its tokens, and what must never be seen."""

import asyncio
import base64
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from bench import environments

HOSTILE = environments.ROOT / "tests" / "hostile"
ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)/")
START_S, STOP_S = 120.0, 60.0
HEALTHY = 3
EVIL_SETTINGS = "discovery_timeout = 5\ncall_timeout = 3\n"
SECRETS = {
    "ATTACK_ARG": "arg-secret/4f1d+9e&x",
    "ATTACK_ENV": "env-secret-77aa31c0",
    "ATTACK_FLAG": "flag-secret-0c55e2d1",
}
CANARY = "canary-beyond-the-workspace-51c1"
"""Stands in files that nobody may read."""


@dataclass
class Target:
    """A running toolcrib, and how it is reached."""

    home: Path
    port: int
    pid: int
    tokens: dict[str, str] = field(default_factory=dict)
    evil: tuple[str, ...] = ()
    """The names of the servers that misbehave."""

    @property
    def stalls(self) -> Path:
        """Where the longest gap of the event loop is written."""
        return self.home / "stalls"

    @property
    def longest_gap_ms(self) -> float:
        """The longest gap so far."""
        return float(self.stalls.read_text()) if self.stalls.exists() else 0.0

    def forget_gaps(self) -> None:
        """Begin to measure now: starting up is no attack."""
        self.stalls.unlink(missing_ok=True)

    def forbidden(self) -> list[bytes]:
        """What no answer may hold: secrets in every plain encoding, the owner's token, words of a crash."""
        words = [form.encode() for secret in SECRETS.values() for form in encodings(secret)]
        return [*words, CANARY.encode(), self.tokens["owner"].encode(), b"Traceback (most recent call last)"]


def encodings(secret: str) -> list[str]:
    """A secret as it is, and as servers write it."""
    data = secret.encode()
    return list(
        dict.fromkeys(
            [secret, quote(secret, safe=""), json.dumps(secret)[1:-1], base64.b64encode(data).decode(), data.hex()]
        )
    )


@asynccontextmanager
async def a_target(home: Path, modes: list[str]) -> AsyncIterator[Target]:
    """toolcrib with all these servers, until the attacks are over."""
    write_files(home, modes)
    tokens = {name: await make_token(home, name, *grants) for name, grants in TOKENS.items()}
    log = (home / "log").open("wb")
    python, launcher = str(environments.project_python()), str(Path(__file__).with_name("launcher.py"))
    argv = [python, launcher, str(home / "stalls"), "serve", "--port", "0", "--log-format", "json"]
    program = await asyncio.create_subprocess_exec(
        *argv, cwd=home, env=variables(home), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
    )
    try:
        port = await _address(home / "log", program)
        tokens["owner"] = (home / "owner").read_text()
        yield Target(home, port, program.pid, tokens, tuple(map(evil_name, modes)))
    finally:
        await _end(program)
        log.close()


async def _end(program: asyncio.subprocess.Process) -> None:
    """Let it stop in order; whatever keeps it or us from that, it does not stay."""
    if program.returncode is not None:
        return
    program.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(program.wait(), STOP_S)
    finally:
        if program.returncode is None:
            program.kill()


TOKENS: dict[str, tuple[str, ...]] = {
    "owner": ("--level", "system"),
    "reader": ("--level", "read_only", "--server", "good_0"),
    "writer": ("--level", "write", "--server", "good_1"),
    "agent": ("--agent", "--level", "read_only", "--tool", "good_2__*"),
}


async def make_token(home: Path, name: str, *grants: str) -> str:
    """A token with these grants."""
    argv = [str(environments.toolcrib_program()), "tokens", "create", name, *grants, "--json"]
    program = await asyncio.create_subprocess_exec(
        *argv, cwd=home, env=variables(home), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await program.communicate()
    if program.returncode:
        raise RuntimeError(err.decode())
    token = str(json.loads(out)["token"])
    if name == "owner":
        (home / "owner").write_text(token)
    return token


def variables(home: Path) -> dict[str, str]:
    """An environment with nobody's settings, and the secrets that the configuration refers to."""
    return {
        **environments.variables(home),
        **SECRETS,
        "TMPDIR": str(home / "tmp"),
        "XDG_RUNTIME_DIR": str(home / "run"),
    }


def write_files(home: Path, modes: list[str]) -> None:
    """The configuration, a workspace, and beside it what nobody may read or change."""
    for folder in ("tmp", "run", "ws/sub", "outside", "pids"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "run").chmod(0o700)
    (home / "outside" / "canary").write_text(CANARY)
    (home / "ws" / "notes.txt").write_text("nothing to see here\n")
    (home / "ws" / "link").symlink_to(home / "outside")
    entries = [server(f"good_{number}", "proper", home) for number in range(HEALTHY)]
    entries += [server(evil_name(mode), mode, home) + EVIL_SETTINGS for mode in modes]
    (home / "toolcrib.toml").write_text(
        "\n".join([SETTINGS, LEAKY.format(python=sys.executable, here=HOSTILE), costly(), *entries])
    )


SETTINGS = """\
[workspace]
enabled = true
root = "ws"
[connect]
attempts = 1
delays = [0]
"""
LEAKY = """\
[servers.leaky]
command = "{python}"
args = ["-I", "{here}/leaky.py", "${{ATTACK_ARG}}", "--api-key", "${{ATTACK_FLAG}}"]
env = {{ LEAKY = "${{ATTACK_ENV}}" }}
"""


def costly() -> str:
    """The entry of a server whose schemas and values are costly together."""
    program = json.dumps(str(environments.HERE / "backends" / "costly_stdio.py"))
    return f"[servers.costly]\ncommand = {json.dumps(sys.executable)}\nargs = [{program}]\ncall_timeout = 60\n"


def evil_name(mode: str) -> str:
    """What the server of a mode is called; names have 32 characters at most."""
    return f"evil_{mode}"[:32]


def server(name: str, mode: str, home: Path) -> str:
    """The entry of one of the tests' servers."""
    args = ["-I", "-S", str(HOSTILE / "servers.py"), mode, str(home / "pids" / name)]
    return f'[servers."{name}"]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n'


async def _address(log: Path, program: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(START_S):
        while True:
            found = ADDRESS.search(log.read_bytes())
            if found:
                return int(found[1])
            if program.returncode is not None:
                raise RuntimeError(f"toolcrib ended at once: {log.read_text()[-2000:]}")
            await asyncio.sleep(0.05)


def survivors(home: Path) -> list[int]:
    """Processes of the servers, or theirs, that are still there."""
    pids = [int(pid) for file in (home / "pids").iterdir() for pid in file.read_text().split()]
    return [pid for pid in pids if _is_running(pid)]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
