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

from tests.hostile.servers import LIBRARIES

import toolcrib
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.errors import ToolcribError, UnknownTool
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import ErrorInfo, Result
from toolcrib.crib.subscriptions import Watcher
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import in_order
from toolcrib.stores.audit.verify import verify
from toolcrib.stores.paths import Environment

SERVERS = Path(__file__).resolve().parent / "servers.py"
CALL_S = 2.0
PATIENCE_S = 60.0
READ = {
    "read": "memo://bad/page",
    "read of a template": "memo://bad/pages/7",
    "unknown": "memo://bad/nothing",
    "another server's": "memo://bad/good/page",
    "a file's": "file://bad//etc/passwd",
    "nobody's": "memo://nobody/page",
    "too long": "memo://bad/" + "x" * 10_000,
    "odd": "memo://bad/\u202e\n\x1b[31m",
    "climbing": "memo://bad/../good/page",
    "many slashes": "memo://bad/" + "a/" * 1500,
    "neighbour": "memo://good/page",
}
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
    asked: dict[str, str] = field(default_factory=dict)
    """``ok`` or the error's code, of everything else that was asked of a server with resources and prompts."""
    offered: int = 0
    """How many of the bad server's resources, templates and prompts are in the catalogue."""
    told: int = 0
    """How often a change of what is watched was told."""
    told_wrongly: int = 0
    """The same for anything else."""


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
    config.write_text(SETTINGS + entry("good", "proper_library", folder) + entry("bad", mode, folder) + bad)
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


async def visit_library(crib: Any, met: Encounter) -> None:
    """Ask a server with resources and prompts for everything, also for what it has not, and its neighbour all along."""
    met.offered = sum(route.server == "bad" for route in crib.catalog.others.values())
    for label, uri in READ.items():
        await ask(met, label, crib.read(uri, timeout_s=CALL_S))
    await ask(met, "get", crib.get("bad__greet", {"who": "you"}, timeout_s=CALL_S))
    await ask(met, "get with much", crib.get("bad__greet", {"who": "w" * 2_000_000}, timeout_s=CALL_S))
    for ref in (
        {"type": "ref/prompt", "name": "bad__greet"},
        {"type": "ref/resource", "uri": "memo://bad/pages/{number}"},
    ):
        await ask(met, f"complete {ref['type']}", crib.run(completion(crib, ref)))
    await watch(crib, met)
    await ask(met, "neighbour afterwards", crib.read("memo://good/page", timeout_s=100))


def completion(crib: Any, ref: dict[str, str]) -> Any:
    name = ref.get("name") or crib.resource_name(ref["uri"])
    asked = {"ref": ref, "argument": {"name": "who", "value": ""}}
    return crib.request(name, asked, LOCAL_USER, timeout_s=CALL_S, kind=RequestKind.COMPLETE)


async def ask(met: Encounter, label: str, asking: Any) -> None:
    """Note how it ended; what does not end in time is noted as that."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            result = await asking
    except TimeoutError:
        met.asked[label] = "HANG"
    else:
        met.asked[label] = result.error.code if result.error else "ok"


async def watch(crib: Any, met: Encounter) -> None:
    """Watch a page of the bad server and a thousand that its template stands for, and read on meanwhile."""
    name = "bad__memo://page"

    def tell(changed: str) -> None:
        met.told += changed == name
        met.told_wrongly += changed != name

    async def subscribe(number: int | None) -> Any:
        wanted = name if number is None else f"bad__memo://pages/{number}"
        try:
            route = crib.catalog.find(RequestKind.READ, wanted)
            if route is None:
                raise UnknownTool(wanted)
            await crib.subscriptions.add(route, wanted, Watcher(LOCAL_USER, tell if number is None else lambda _: None))
        except ToolcribError as error:
            return Result(error=ErrorInfo(error.code, str(error)))
        return Result()

    await ask(met, "subscribe", subscribe(None))
    await ask(met, "subscribe to a thousand", a_thousand(subscribe))
    await ask(met, "read what is watched", crib.read("memo://bad/page", timeout_s=CALL_S))


async def a_thousand(subscribe: Any) -> Result:
    """The first that fails, or the last."""
    for start in range(0, 1000, 50):
        for result in await asyncio.gather(*(subscribe(start + number) for number in range(50))):
            if result.error is not None:
                return result
    return Result()


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
        if mode in LIBRARIES:
            await visit_library(crib, met)
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
