"""``toolcrib status``, ``stop``, ``restart`` and ``logs``: the toolcrib that runs for this project."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from toolcrib.cli.console import Column, Console, one_line, print_table
from toolcrib.cli.failures import OK, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.joining import wanted_here
from toolcrib.cli.logs import line_as_json, line_as_text
from toolcrib.cli.opening import load_here, wait_with_status
from toolcrib.core.errors import SourceUnavailable, ToolcribError
from toolcrib.core.kinds import ServerState
from toolcrib.schema.text import printable
from toolcrib.server.remote import ByRunFile, Remote, run_here
from toolcrib.server.rest.about import ROOT
from toolcrib.server.rest.state import PROCESS_PATH, PresentClient, ProcessView
from toolcrib.server.serve import AMONG_OTHERS_S
from toolcrib.stores.paths import Environment
from toolcrib.stores.run_files import RunFile, RunFiles, log_path, process_began, this_system

ANSWER_S = 30.0
"""How long a running toolcrib may take to answer."""
END_S = 60.0
"""How long to wait for the end of a process, beyond what is configured for that."""
LOOK_S = 0.1
FOLLOW_S = 0.25
LINES = 100
CHUNK = 1 << 20
CLIENTS = (
    Column("CLIENT", styles=("bold",)),
    Column("CALLER"),
    Column("PROTOCOL"),
    Column("CONNECTED", right=True),
    Column("IDLE", right=True),
)


class RunningView(ProcessView):
    """What runs, with what only its run file says."""

    is_background: bool
    """Whether it was started for clients over stdio, and ends some time after them."""
    since: str
    log: str


@command(
    arg("--all", action="store_true", help="every toolcrib of this user, for whichever project"),
    as_json("what runs"),
    examples="""\
examples:
  toolcrib status
  toolcrib status --json | jq -r .url""",
)
async def run_status(options: Options, console: Console) -> int:
    """Ask the one that runs here, or each of them."""
    runs = RunFiles(Environment().env).read() if options.all else [run_here(options.config, Environment())]
    views = [view for run in runs if (view := await _view(run, console, is_only=not options.all)) is not None]
    if options.json:
        console.print_json(views if options.all else views[0])
        return OK
    for view in views:
        _print(view, console)
    if not views:
        console.say("No toolcrib runs.")
    return OK


async def _view(run: RunFile, console: Console, *, is_only: bool) -> RunningView | None:
    try:
        async with _remote(run) as remote:
            said = msgspec.convert(await remote.send("GET", ROOT + PROCESS_PATH), type=ProcessView)
    except SourceUnavailable as error:
        if is_only:
            raise
        console.say(f"{run.directory}: {error}", "yellow")
        return None
    facts = {name: getattr(said, name) for name in ProcessView.__struct_fields__}
    return RunningView(**facts, is_background=run.is_background, since=_moment(run.started), log=run.log)


@asynccontextmanager
async def _remote(run: RunFile) -> AsyncIterator[Remote]:
    """A conversation with the one that wrote a run file; with nobody else."""
    remote, hint = (
        Remote(run.url, ByRunFile(run)),
        f"Process {run.pid} should; if it hangs: kill {run.pid}",
    )
    try:
        async with asyncio.timeout(ANSWER_S):
            yield remote
    except TimeoutError:
        raise SourceUnavailable(f"{run.url} has not answered after {ANSWER_S:g} s.", hint=hint) from None
    except SourceUnavailable as error:
        raise SourceUnavailable(error.message, hint=hint, details=error.details) from None
    finally:
        await remote.close()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def _print(view: RunningView, console: Console) -> None:
    for label, value in _facts(view):
        console.print(f"{console.paint(f'{label:<8}', 'dim')} {printable(value)}")
    if view.clients:
        console.print()
        print_table(console, CLIENTS, [_client_row(client) for client in view.clients])
    console.print()


def _facts(view: RunningView) -> Iterator[tuple[str, str]]:
    yield "serves", view.directory
    yield "at", view.url
    kind = "in the background, for clients over stdio" if view.is_background else "until it is stopped"
    yield "process", f"{view.pid}, {kind}, toolcrib {view.version}"
    yield "since", f"{view.since} ({_span(view.uptime_seconds)})"
    states = Counter(server.state for server in view.servers)
    tools = sum(server.tools for server in view.servers)
    told = ", ".join(f"{states[state]} {state}" for state in ServerState if states[state])
    yield "servers", f"{told}; {tools} tools" if told else "none"
    yield "clients", str(len(view.clients)) if view.clients else "none is connected"
    yield "log", view.log or "kept nowhere by toolcrib"


def _client_row(client: PresentClient) -> tuple[str, ...]:
    times = _span(client.connected_seconds), _span(client.idle_seconds)
    return (one_line(client.client) or "(unnamed)", one_line(client.caller), one_line(client.protocol), *times)


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@command(as_json("what was stopped"))
async def run_stop(options: Options, console: Console) -> int:
    """Ask it to end, and wait until it has."""
    run = run_here(options.config, Environment())
    await _ask_to(run, "stop")
    await _wait_for(lambda: _has_ended(run), _patience_s(options), console, run, "to end")
    if options.json:
        console.print_json({"url": run.url, "directory": run.directory, "pid": run.pid})
    else:
        console.say(f"The toolcrib of {run.directory} has stopped (process {run.pid}).")
    return OK


@command(as_json("what runs now"))
async def run_restart(options: Options, console: Console) -> int:
    """Ask it to begin anew, and wait until it serves again; not while its configuration cannot be used."""
    before = run_here(options.config, Environment())
    load_here(options)
    await _ask_to(before, "restart")

    def after() -> RunFile | None:
        return next((run for run in _like(before) if run.secret != before.secret), None)

    def is_over() -> bool:
        return after() is not None or _has_ended(before)

    await _wait_for(is_over, _patience_s(options), console, before, "to begin anew")
    run = after()
    if run is None:
        hint = "See `toolcrib logs`, then start it again." if before.log else "Start it again."
        raise SourceUnavailable(f"Process {before.pid} has ended and does not serve again.", hint=hint)
    if options.json:
        console.print_json({"url": run.url, "directory": run.directory, "pid": run.pid})
    else:
        console.say(f"The toolcrib of {run.directory} runs anew at {run.url} (process {run.pid}).")
    return OK


async def _ask_to(run: RunFile, deed: str) -> None:
    async with _remote(run) as remote:
        await remote.send("POST", f"{ROOT}{PROCESS_PATH}/{deed}", {"pid": run.pid})


def _like(run: RunFile) -> list[RunFile]:
    """Who serves the same now."""
    return [one for one in RunFiles(Environment().env).read() if one.config == run.config]


def _has_ended(run: RunFile) -> bool:
    """Whether it serves no more and its process is gone, as far as that can be seen from here."""
    is_there = any(one.secret == run.secret for one in _like(run))
    return not is_there and (run.system != this_system() or process_began(run.pid) != run.began)


def _patience_s(options: Options) -> float:
    with suppress(ToolcribError):
        return END_S + (load_here(options).config.drain_s or AMONG_OTHERS_S)
    return END_S + AMONG_OTHERS_S


async def _wait_for(
    has_happened: Callable[[], bool], patience_s: float, console: Console, run: RunFile, what: str
) -> None:
    async def wait() -> None:
        end = time.monotonic() + patience_s
        while not has_happened():
            if time.monotonic() > end:
                hint = f"It may wait for calls that are under way. To end it at once: kill -9 {run.pid}"
                told = f"Process {run.pid} was asked {what}, and has not after {patience_s:g} s."
                raise SourceUnavailable(told, hint=hint)
            await asyncio.sleep(LOOK_S)

    await wait_with_status(console, wait(), f"waiting for process {run.pid} {what}")


@command(
    arg("-f", "--follow", action="store_true", help="go on with what is written from now on, until Ctrl-C"),
    arg("-n", "--lines", type=int, default=LINES, metavar="COUNT", help=f"how many of the last lines [{LINES}]"),
    as_json("each line"),
    examples="""\
examples:
  toolcrib logs
  toolcrib logs -f
  toolcrib logs --json -n 1000 | jq 'select(.level == "warning")'""",
)
async def run_logs(options: Options, console: Console) -> int:
    """Show the end of the log, of the last one if none runs."""
    if options.lines < 0:
        raise UsageError("--lines must be a number from 0 on.")
    path = _log_here(options, console)
    tail = LogTail(path)
    for line in tail.read()[-options.lines :] if options.lines else ():
        _print_line(line, options, console)
    while options.follow:
        console.out.flush()
        await asyncio.sleep(FOLLOW_S)
        for line in tail.read():
            _print_line(line, options, console)
    return OK


def _log_here(options: Options, console: Console) -> Path:
    """Where the log is of the toolcrib that runs for this project, or ran last."""
    env = Environment().env
    last = log_path(env, wanted_here(options.config, env, Path.cwd(), {}).key)
    try:
        run = run_here(options.config, Environment())
    except SourceUnavailable:
        if not last.exists():
            raise
        console.say("None runs for this project; this is what the last one wrote.", "dim")
        return last
    if not run.log:
        told = f"The toolcrib of {run.directory} keeps no log in a file; process {run.pid} writes it to its stderr."
        raise SourceUnavailable(told, hint="Its state directory could not be written when it started.")
    return Path(run.log)


def _print_line(line: str, options: Options, console: Console) -> None:
    console.print(line_as_json(line) if options.json else line_as_text(line, console))


class LogTail:
    """Reads what was added to a log, also when that was put aside and begun anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = self._inode = 0
        self._kept = b""

    def read(self) -> list[str]:
        """The whole lines since the last look; at the first one, those of its last part."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._at:
                self._at, self._kept = max(0, found.st_size - CHUNK) if not self._inode else 0, b""
                self._inode = found.st_ino
            file.seek(self._at)
            *lines, self._kept = (self._kept + file.read()).split(b"\n")
            self._at = file.tell()
            return [line.decode(errors="replace") for line in lines]
        return []
