"""Commands that fetch what they run: which they are, whose turn it is, and when they are done.

Such a command is given minutes as long as anything moves in it, because to end a package manager in the middle of its
work leaves a damaged cache to everybody. Cold installs of one package manager come one after the other, among all
toolcribs of the user.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from toolcrib.sources.mcp.link import ExitTrace, Link
from toolcrib.transports.process.activity import TreeLook, look_at

SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
PLAIN = re.compile(r"[\w@%+=:,./ '\"^~<>!\[\]-]+")
"""A shell's script that is one command."""


class Manager(NamedTuple):
    """A way to run what must be fetched first."""

    words: tuple[str, ...]
    """How its commands begin."""
    name: str
    """Installs of managers of one name wait for each other."""
    runs: str
    """What the command line of the server itself looks like, below the manager; empty: nobody can tell."""
    fetches: str = ""
    """Only when it writes this, it fetches; empty: it always may."""
    takes: frozenset[str] = frozenset()
    """Options that have a value."""


_NPM_VALUES = frozenset({"--registry", "--cache", "--userconfig", "--prefix", "-c", "--call", "--loglevel"})
_UV_VALUES = frozenset(
    {"--with", "--python", "-p", "--index", "--index-url", "--default-index", "--extra-index-url", "--cache-dir"}
)
_DOCKER_VALUES = frozenset(
    {"-e", "--env", "-v", "--volume", "--name", "--mount", "--network", "--net", "-p", "--publish", "--env-file"}
    | {"-u", "--user", "-w", "--workdir", "--entrypoint", "--platform", "--memory", "-m", "--cpus", "-l", "--label"}
)
_BIN = r"node_modules/"
_PULLS = r"Unable to find image|Pulling from|Trying to pull"
MANAGERS: tuple[Manager, ...] = (
    Manager(("npx",), "npm", _BIN, takes=_NPM_VALUES),
    Manager(("npm", "exec"), "npm", _BIN, takes=_NPM_VALUES),
    Manager(("npm", "x"), "npm", _BIN, takes=_NPM_VALUES),
    Manager(("pnpm", "dlx"), "pnpm", _BIN),
    Manager(("pnpx",), "pnpm", _BIN),
    Manager(("yarn", "dlx"), "yarn", _BIN),
    Manager(("bunx",), "bun", _BIN),
    Manager(("bun", "x"), "bun", _BIN),
    Manager(("uvx",), "uv", r"/(?:archive-v\d+|tools)/[^/ ]+/bin/", takes=_UV_VALUES),
    Manager(("uv", "tool", "run"), "uv", r"/(?:archive-v\d+|tools)/[^/ ]+/bin/", takes=_UV_VALUES),
    Manager(("pipx", "run"), "pipx", r"/pipx/(?:\.cache/)?[0-9a-f]{8,}/bin/"),
    Manager(("docker", "run"), "docker", "", _PULLS, takes=_DOCKER_VALUES),
    Manager(("podman", "run"), "podman", "", _PULLS, takes=_DOCKER_VALUES),
    Manager(("go", "run"), "go", r"/go-build\S*/exe/"),
    Manager(("dnx",), "dotnet", r"/\.nuget/packages/"),
)
_PACKAGE_OPTIONS = ("--package", "-p", "--from")


@dataclass(frozen=True, slots=True)
class Fetch:
    """What a server's command fetches before it runs."""

    manager: Manager
    package: str
    entry: Path | None = None
    """Where npm keeps what it fetched for exactly this command."""
    cache: Path | None = None
    """Where uv keeps all it fetched."""
    program: str = ""
    """What is run of it."""

    @property
    def words(self) -> str:
        """What is done, in one line."""
        return f"{' '.join(self.manager.words)} fetches {self.package}"

    @property
    def is_there(self) -> bool:
        """Whether it is known that nothing has to be fetched."""
        return self.entry is not None and (self.entry / "node_modules" / ".package-lock.json").is_file()


def fetch_of(argv: Sequence[str], env: Mapping[str, str]) -> Fetch | None:
    """What a command fetches before it runs, if it does."""
    words = list(_unwrapped(argv))
    if not words:
        return None
    program = Path(words[0]).name.removesuffix(".cmd").removesuffix(".exe")
    plain = [program, *words[1:]]
    for manager in MANAGERS:
        count = len(manager.words)
        if tuple(plain[:count]) == manager.words:
            packages, program = _packages(manager, plain[count:])
            entry = npx_entry(packages, env) if manager.name == "npm" and packages else None
            cache = uv_cache(plain, env) if manager.name == "uv" else None
            return Fetch(manager, packages[0] if packages else "what it runs", entry, cache, program)
    return None


def _unwrapped(argv: Sequence[str]) -> Sequence[str]:
    """The command behind ``env``, ``cmd /c`` and a shell that runs nothing else."""
    words = list(argv)
    while words:
        program = Path(words[0]).name.lower().removesuffix(".exe")
        if program == "env":
            rest = [word for word in words[1:] if not word.startswith("-")]
            words = list(_without_variables(rest))
        elif program == "cmd" and len(words) > 2 and words[1].lower() in ("/c", "/s"):
            words = words[2:]
        elif program in SHELLS and len(words) == 3 and words[1] in ("-c", "-lc") and PLAIN.fullmatch(words[2]):
            words = _split(words[2].removeprefix("exec "))
        else:
            break
    return words


def _without_variables(words: Sequence[str]) -> Sequence[str]:
    begins = next((index for index, word in enumerate(words) if "=" not in word), len(words))
    return words[begins:]


def _split(script: str) -> list[str]:
    try:
        return list(_without_variables(shlex.split(script)))
    except ValueError:
        return []


def _packages(manager: Manager, words: Sequence[str]) -> tuple[list[str], str]:
    """The packages that are named, or else the first word that is no option; and that word."""
    named: list[str] = []
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        if manager.name in ("npm", "uv", "pipx", "pnpm", "yarn", "bun") and option in _PACKAGE_OPTIONS:
            named.append(value if has_value else next(rest, ""))
        elif word in manager.takes:
            next(rest, None)
        elif word == "--" or not word.startswith("-"):
            first = next(rest, "") if word == "--" else word
            return named or [first], first
    return named, ""


def npx_entry(packages: Sequence[str], env: Mapping[str, str]) -> Path:
    """Where npm keeps what it fetched for these packages: by the digest of their names, as npm makes it."""
    cache = env.get("npm_config_cache") or env.get("NPM_CONFIG_CACHE") or str(Path(env.get("HOME") or "~") / ".npm")
    digest = hashlib.sha512("\n".join(sorted(packages)).encode()).hexdigest()[:16]
    return Path(cache).expanduser() / "_npx" / digest


def uv_cache(words: Sequence[str], env: Mapping[str, str]) -> Path:
    """Where uv keeps what it fetched."""
    named = dict(pairwise(words)).get("--cache-dir") or env.get("UV_CACHE_DIR")
    usual = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or "~") / ".cache") / "uv"
    return Path(named or usual).expanduser()


class Delayable(Protocol):
    """A limit that can be put off."""

    def hold(self) -> None:
        """Let it not count for now."""

    def release(self) -> None:
        """Let it count from now on, all of it."""


@dataclass(frozen=True, slots=True)
class InstallLimits:
    """How patiently installs are watched."""

    tick_s: float = 0.25
    quiet_s: float = 300.0
    """When nothing at all has moved for so long, it counts as any server that does not answer."""
    look: Callable[[int], TreeLook | None] = look_at


@dataclass(slots=True)
class InstallQueue:
    """Whose turn it is to install, for each package manager."""

    directory: Path | None = None
    """Where the lock files are that other toolcribs of this user wait for, too."""
    limits: InstallLimits = field(default_factory=InstallLimits)
    _busy_with: dict[str, str] = field(default_factory=dict)
    _waiting: dict[str, list[Callable[[str], None]]] = field(default_factory=dict)
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def take(self, fetch: Fetch, waits_for: Callable[[str], None]) -> Callable[[], None]:
        """Wait until nobody else installs with this manager; what is returned lets the next one go.

        ``waits_for`` is told who does. Where no lock file can be made, other toolcribs are not waited for.
        """
        name = fetch.manager.name
        lock = self._turns.setdefault(name, asyncio.Lock())
        waiting = self._waiting.setdefault(name, [])
        waiting.append(waits_for)
        try:
            if lock.locked():
                waits_for(f"waits: {self._busy_with.get(name, name)} first")
            await lock.acquire()
        finally:
            waiting.remove(waits_for)
        self._busy_with[name] = fetch.words
        for tell in waiting:
            tell(f"waits: {fetch.words} first")
        descriptor = None
        try:
            descriptor = self._open(name)
            while descriptor is not None and not _is_taken(descriptor):
                waits_for(f"waits: another toolcrib uses {name} first")
                await asyncio.sleep(self.limits.tick_s)
        except BaseException:
            _let_go(lock, descriptor)
            raise
        return lambda: _let_go(lock, descriptor)

    def _open(self, name: str) -> int | None:
        if self.directory is None:
            return None
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self.directory / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None


def _let_go(lock: asyncio.Lock, descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
    lock.release()


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Install:
    """One attempt to run a command that fetches first: its turn, and its time for as long as it works."""

    def __init__(self, fetch: Fetch, queue: InstallQueue, patience: Delayable, tell: Callable[[str], None]) -> None:
        self._fetch, self._queue, self._patience, self._tell = fetch, queue, patience, tell
        self._let_go: Callable[[], None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_held = False

    async def begin(self, *, is_cold: bool) -> None:
        """Wait for its turn; one that was fetched before needs none."""
        if is_cold and not self._fetch.is_there and not self._fetch.manager.fetches:
            self._hold(f"{' '.join(self._fetch.manager.words)}: {self._fetch.package}")
            self._let_go = await self._queue.take(self._fetch, self._tell)
            self._tell(self._fetch.words)

    def watch(self, link: Link) -> None:
        """Put the limit off until the server itself runs, speaks, or nothing moves any more."""
        self._watch = asyncio.create_task(self._follow(link), name=f"install-{self._fetch.package}")

    async def _follow(self, link: Link) -> None:
        loop, limits = asyncio.get_running_loop(), self._queue.limits
        last, moved_at = None, loop.time()
        while loop.time() - moved_at < limits.quiet_s:
            remains = link.remains()
            look = None if remains.pid is None else limits.look(remains.pid)
            if _has_begun(self._fetch.manager, remains, look):
                break
            if look != last:
                last, moved_at = look, loop.time()
            if _is_fetching(self._fetch.manager, remains):
                self._hold(self._fetch.words)
            await asyncio.sleep(limits.tick_s)
        if self._is_held:
            self._patience.release()
        self._end()

    def _hold(self, words: str) -> None:
        if not self._is_held:
            self._is_held = True
            self._patience.hold()
        self._tell(words)

    def _end(self) -> None:
        self._is_held = False
        self._tell("")
        if self._let_go is not None:
            self._let_go()
            self._let_go = None

    async def close(self) -> None:
        """The attempt is over, in whichever way."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        self._end()

    @property
    def is_underway(self) -> bool:
        """Whether it still fetches, or waits for its turn to."""
        return self._is_held


def _has_begun(manager: Manager, remains: ExitTrace, look: TreeLook | None) -> bool:
    """Whether the server itself is there, or has said anything."""
    return remains.heard_at > 0 or (look is not None and is_server_there(manager, look))


def _is_fetching(manager: Manager, remains: ExitTrace) -> bool:
    return not manager.fetches or any(re.search(manager.fetches, line) for line in remains.stderr)


def is_server_there(manager: Manager, look: TreeLook) -> bool:
    """Whether one of the processes is the server, rather than what fetches it."""
    if manager.name == "npm" and "npx" in look.tasks:
        return True
    own = look.commands if manager.name in ("pipx", "bun", "dotnet") else look.commands[1:]
    is_npm = manager.name == "npm"  # scripts of packages run from the same directory while npm installs them
    return not is_npm and bool(manager.runs) and any(re.search(manager.runs, command) for command in own)


DAMAGED_NPM = (
    r"ERR_MODULE_NOT_FOUND|Cannot find (?:module|package)|MODULE_NOT_FOUND|ENOTEMPTY|ENOENT.*_npx"
    r"|could not determine executable to run|: (?:not found|command not found)|Permission denied.*_npx"
)
DAMAGED_UV = r"ModuleNotFoundError|ImportError|SyntaxError|Failed to spawn|bad interpreter"
_MISSING = re.compile(r"No module named '(\w+)")
_AT_FAULT = re.compile(r"site-packages/(\w+)")


class Damage(NamedTuple):
    """What a package manager keeps for a command that cannot be used as it is."""

    entry: Path
    """What is shown, and told apart by."""
    parts: tuple[Path, ...]
    """What has to go, so that it is fetched anew."""


def find_damage(fetch: Fetch | None, words: Sequence[str]) -> Damage | None:
    """What is kept for this command, if the server's last words say that it is damaged; nothing else is touched."""
    said = "\n".join(words)
    if fetch is None:
        return None
    if fetch.entry is not None and re.search(DAMAGED_NPM, said):
        is_own = fetch.entry.is_dir() and not fetch.entry.is_symlink() and fetch.entry.parent.name == "_npx"
        return Damage(fetch.entry, (fetch.entry,)) if is_own else None
    if fetch.cache is not None and re.search(DAMAGED_UV, said):
        return _find_uv_damage(fetch, fetch.cache, said)
    return None


def _find_uv_damage(fetch: Fetch, cache: Path, said: str) -> Damage | None:
    """The environment uv made for the command, and the unpacked package it copied what is broken from."""
    name = _normal(re.split(r"[\[@=<>~! ]", fetch.package)[0])
    for link in sorted(cache.glob("environments-v*/*/*")):
        made = link.resolve()
        is_own = made.is_relative_to(cache.resolve()) and (made / "pyvenv.cfg").is_file()
        if not is_own or not (f"/{made.name}/" in said or _lacks_program(made, name, fetch.program)):
            continue
        modules = {*_MISSING.findall(said), *_AT_FAULT.findall(said)[-1:]}
        broken = {name, *(owner for module in modules if (owner := _owner(made, module)))} if modules else {name}
        kept = [path for path in cache.glob("wheels-v*/*/*/*") if path.is_dir() and _normal(path.name) in broken]
        return Damage(link, (made, *kept))
    return None


def _lacks_program(environment: Path, package: str, program: str) -> bool:
    """Whether an environment was made for a package, and what is run of it is not there."""
    if not program or (environment / "bin" / program).exists():
        return False
    return any(_normal(found.name.split("-")[0]) == package for found in _records(environment))


def _owner(environment: Path, module: str) -> str:
    """The package that brought a module."""
    for found in _records(environment):
        with contextlib.suppress(OSError):
            lines = (found / "RECORD").read_text(errors="replace").splitlines()
            if any(line.startswith((f"{module}/", f"{module}.")) for line in lines):
                return _normal(found.name.split("-")[0])
    return ""


def _records(environment: Path) -> list[Path]:
    return sorted(environment.glob("lib/python*/site-packages/*.dist-info"))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def remove_entry(entry: Path) -> None:
    """Remove it, so that it is fetched anew: out of the way first, so that nobody meets half of it."""
    away = entry.with_name(f".{entry.name}.{os.getpid()}.removed")
    with contextlib.suppress(OSError):
        entry.rename(away)
        shutil.rmtree(away, ignore_errors=True)
