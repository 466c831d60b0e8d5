"""One hostile server meets a Crib in a process of its own: ``python -m tests.hostile.encounter MODE FOLDER``.

The process prints one JSON object (`Encounter`). It stands alone so that memory, event loop and processes are those
of this one encounter.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import in_order
from toolcrib.stores.audit.verify import verify
from toolcrib.stores.paths import Environment

SERVERS = Path(__file__).resolve().parent / "servers.py"
CALL_S = 2.0
SETTINGS = """\
[catalog]
grace = 8
[connect]
attempts = 1
delays = [0]
"""


@dataclass
class Encounter:
    """What a mode did to the process that met it."""

    listed: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    """``ok`` or the error's code, of each call to the bad server."""
    list_s: float = 0.0
    call_s: float = 0.0
    """The longest of the calls."""
    good_calls: int = 0
    good_failures: int = 0
    growth_mb: float = 0.0
    open_files: int = 0
    """How many more there are at the end than at the beginning."""
    audited: list[str] = field(default_factory=list)
    """How each call to the bad server ended, by the audit log."""
    left_files: list[str] = field(default_factory=list)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@asynccontextmanager
async def crib_with(mode: str, folder: Path) -> Any:
    config = folder / "toolcrib.toml"
    bad = f"discovery_timeout = 3\ncall_timeout = {CALL_S}\n"
    config.write_text(SETTINGS + entry("good", "proper", folder) + entry("bad", mode, folder) + bad)
    around = Environment(folder, {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TMPDIR": str(folder / "tmp")})
    async with toolcrib.open_crib(config, surroundings=around) as crib:
        yield crib


def entry(name: str, mode: str, folder: Path) -> str:
    args = ["-I", "-S", str(SERVERS), mode, str(folder / f"{name}.pids")]
    return f"[servers.{name}]\ncommand = {sys.executable!r}\nargs = {args!r}\n"


async def keep_calling(crib: Any, met: Encounter) -> None:
    """Use the good server all the while."""
    while True:
        result = await crib.call("good__echo", {"text": "still here"}, timeout_s=100)
        met.good_calls += 1
        met.good_failures += result.text != "still here"
        await asyncio.sleep(0.01)


async def call_bad(crib: Any, met: Encounter) -> None:
    began = time.monotonic()
    result = await crib.call("bad__echo", {"text": "hi"}, timeout_s=CALL_S)
    met.call_s = max(met.call_s, time.monotonic() - began)
    met.outcomes.append(result.error.code if result.error else "ok")


async def meet(mode: str, folder: Path) -> Encounter:
    met = Encounter()
    files_before = open_files()
    async with crib_with(mode, folder) as crib:
        await crib.refresh("good")
        await crib.call("good__echo", {"text": "warm"})
        before_mb = resident_mb()
        forget_peak()
        good = asyncio.create_task(keep_calling(crib, met))
        began = time.monotonic()
        met.listed = [tool.name for tool in await crib.tools()][:3]
        met.list_s = time.monotonic() - began
        for _ in range(2):
            await call_bad(crib, met)
        await crib.refresh("bad")
        good.cancel()
        met.growth_mb = peak_mb() - before_mb
    met.audited = audited(folder)
    met.open_files = open_files() - files_before
    met.left_files = [str(path.relative_to(folder)) for path in _files(folder)]
    return met


def audited(folder: Path) -> list[str]:
    """How the calls to the bad server ended, by the audit log, whose chain is whole."""
    with AuditFile(folder / ".local" / "state" / "toolcrib" / "audit.db").reading() as connection:
        assert verify(connection).fault is None
        entries = list(in_order(connection))
    return [entry.outcome for entry in entries if entry.event == "call" and entry.tool == "bad__echo"]


def _files(folder: Path) -> Iterator[Path]:
    expected = {"toolcrib.toml", "toolcrib.lock", ".toolcrib.lock.guard", "good.pids", "bad.pids", ".results.guard"}
    return (
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in expected and not path.name.startswith(("audit.db", "audit-"))
    )


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(meet(sys.argv[1], Path(sys.argv[2]))))))
