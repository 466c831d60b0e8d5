"""From a wish to what the spawner does: Landlock rules, the filter, limits, or a bubblewrap around them."""

import errno
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.isolate.seccomp import MACHINES, build_connect_filter, build_filter
from toolcrib.transports.process.spec import Confinement, ProcessSpec, explain_failure, refuse

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
HARMLESS = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime", "/etc/timezone",
    "/etc/os-release", "/etc/locale.alias", "/etc/locale.conf", "/etc/mime.types", "/etc/magic",
    "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf",
    "/etc/gai.conf", "/etc/services", "/etc/protocols",
    "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
)  # fmt: skip
KERNEL = (
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
    "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/max_map_count", "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/pid_max", "/proc/sys/kernel/cap_last_cap", "/proc/sys/fs/nr_open", "/proc/sys/net/core/somaxconn",
    "/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
)  # fmt: skip
"""Of ``/proc`` only the program's own part: its neighbours' parts hold their environments."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

_LIBRARIES = ("lib", "lib64", "libexec")
_LINKS_MAX = 16


def find_program(command: str, path: str, cwd: Path) -> Path | None:
    """The file a command stands for; a relative one with a slash is seen from its working directory."""
    named = str(cwd / command) if "/" in command else command
    found = shutil.which(named, path=path)
    return Path(found).absolute() if found else None


def program_places(program: Path, path: str, home: Path) -> Iterator[Path]:
    """What belongs to a program: its directory, its prefix's libraries, and the same of whoever interprets it."""
    yield from _own_places(program, home)
    interpreter = _interpreter(program, path)
    if interpreter is not None:
        yield from _own_places(interpreter, home)


def is_too_wide(directory: Path, home: Path) -> bool:
    """Whether somebody's whole home lies in it."""
    return directory == home or directory in home.parents


def _own_places(program: Path, home: Path) -> Iterator[Path]:
    for file in _follow(program):
        directory = file.parent
        yield file if is_too_wide(directory, home) else directory
        if directory.name == "bin":
            prefix = directory.parent
            is_venv = (prefix / "pyvenv.cfg").is_file()
            yield from [prefix] if is_venv else (prefix / name for name in _LIBRARIES)


def _follow(program: Path) -> Iterator[Path]:
    """The file, and every file that it is a link to."""
    for _ in range(_LINKS_MAX):
        yield program
        if not program.is_symlink():
            break
        program = program.parent / program.readlink()
    yield program.resolve()


def _interpreter(program: Path, path: str) -> Path | None:
    """Who runs a script, by its first line."""
    with program.open("rb") as file:
        line = file.readline(512)
    if not line.startswith(b"#!"):
        return None
    words = [word for word in line[2:].decode(errors="replace").split() if not word.startswith("-")]
    if words and Path(words[0]).name == "env":
        words = words[1:]
    return find_program(words[0], path, Path("/")) if words else None


FILTER_FD = 60
"""Where bubblewrap reads the filter for system calls, which it puts on last."""


@dataclass(frozen=True, slots=True)
class Binds:
    """What a program finds inside."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    network: bool = False


def wrap(bwrap: str, binds: Binds, cwd: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command that runs ``argv`` inside; the root itself is read-only, so nothing can be put beside the binds."""
    kinds = {**dict.fromkeys(binds.read, "--ro-bind-try"), **dict.fromkeys(binds.write, "--bind")}
    # Shorter paths first, so that none covers another that lies within it.
    mounts = [word for path in sorted(kinds) for word in (kinds[path], path, path)]
    return (
        bwrap,
        *("--unshare-all", "--unshare-user", "--disable-userns"),
        *(("--share-net",) if binds.network else ()),
        *("--die-with-parent", "--new-session"),
        *("--proc", "/proc", "--dev", "/dev"),
        *mounts,
        *("--remount-ro", "/"),
        *("--seccomp", str(FILTER_FD)),
        *("--chdir", cwd),
        "--",
        *argv,
    )


READ = 0b0000000000001101  # run, read files, list directories
WRITE = 0b0111011110110010 | READ  # and write, make, move and remove everything but devices
DEVICE = 0b1100000000000110
EVERYTHING = (0xFFFF, 0b11, 0b11)
"""All access to files, TCP both ways; and the scopes: abstract unix sockets, signals."""
PRIVATE_UMASK = 0o077
NAMES_PORT = 53
"""Where names are resolved, on many machines at an address of their own."""
SYS_RESOURCE = 24
LIMITED_POWERS = ((1 << 64) - 1) ^ (1 << SYS_RESOURCE)
"""Whoever has the one that is missing raises its limits as it likes."""
CONFINED_POWERS = 0b101_1111_1111
"""What root needs for files, users and its own processes, and low ports; nothing that changes the machine."""
SETFCAP = 31
ISOLATED_POWERS = CONFINED_POWERS | 1 << SETFCAP
"""The one more is what root's bubblewrap needs to make its namespace; inside, none of them reaches out of it."""
_HOME_VARIABLES = frozenset({
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """The machine, as far as isolation is concerned."""

    machine: str
    home: Path
    temporary: Path
    bwrap: str | None
    is_linux: bool = True

    @classmethod
    def here(cls, env: Mapping[str, str]) -> "Host":
        """This machine, for a user with this environment."""
        return cls(
            machine=os.uname().machine if hasattr(os, "uname") else "",
            home=Path(env.get("HOME") or Path.home()).resolve(),
            temporary=Path(env.get("TMPDIR") or "/tmp").resolve(),  # noqa: S108
            bwrap=shutil.which("bwrap", path=env.get("PATH")),
            is_linux=sys.platform.startswith("linux"),
        )


def confine(spec: ProcessSpec, wish: IsolationWanted, host: Host) -> ProcessSpec:
    """The same program within the bounds of a wish whose level is settled; raises ``SourceUnavailable``."""
    level = IsolationLevel(wish.level)
    wish = replace(wish, read=_absolute(wish.read), write=_absolute(wish.write))
    _check_wish(spec, wish, level)
    if level is IsolationLevel.NONE or sys.platform == "win32":
        return spec
    if level is IsolationLevel.LIMITS:
        return replace(spec, confinement=_limit(wish), isolation=level.value)
    return _confine_files(spec, wish, host, level)


def _limit(wish: IsolationWanted) -> Confinement:
    return Confinement(limits=wish.limits.numbers(), capabilities=LIMITED_POWERS)


def _absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(Path(path).absolute()) for path in paths)


def _check_wish(spec: ProcessSpec, wish: IsolationWanted, level: IsolationLevel) -> None:
    """Grants that nobody would hold the program to are no grants."""
    given = {"read": wish.read, "write": wish.write, "network": wish.network is False, "loopback": wish.loopback}
    asked = next((name for name, value in given.items() if value), "")
    if asked and level.rank < IsolationLevel.CONFINED.rank:
        hint = f'Set isolation = "confined", or remove {asked!r}.'
        raise for_good(refuse(spec, f"{asked!r} restricts nothing at isolation {level.value!r}.", hint=hint))
    if wish.loopback and not wish.network:
        hint = "Set network = true, or remove 'loopback'."
        raise for_good(refuse(spec, "'loopback' names ports of this machine, but it has no network.", hint=hint))
    for path in (*wish.read, *wish.write):
        if not Path(path).exists():
            hint = "Create it, or correct the path."
            raise for_good(refuse(spec, f"it is granted {path!r}, which does not exist.", hint=hint))


def for_good(error: SourceUnavailable) -> SourceUnavailable:
    """The error, marked as one that trying again does not mend."""
    error.details["final"] = True
    return error


def _confine_files(spec: ProcessSpec, wish: IsolationWanted, host: Host, level: IsolationLevel) -> ProcessSpec:
    if host.machine not in MACHINES:
        raise _no_filter(spec, host)
    private = str(host.temporary / f"toolcrib-{os.urandom(12).hex()}")
    program = _find(spec)
    cwd = private if spec.cwd is None else str(Path(spec.cwd).absolute())
    confinement = _filter(wish, host, level, private)
    inside = replace(
        spec,
        argv=(str(program), *spec.argv[1:]),
        cwd=cwd,
        env=_at_home_in(private, spec.env),
        isolation=level.value,
    )
    reads = [*_readable(spec, host, program), *wish.read]
    if level is IsolationLevel.CONFINED:
        return replace(inside, confinement=_restrict(confinement, wish, reads))
    binds = Binds(tuple(reads), (*wish.write, private), network=bool(wish.network))
    wrapped = replace(inside, argv=wrap(host.bwrap or "bwrap", binds, cwd, inside.argv), cwd=None)
    return replace(wrapped, confinement=replace(confinement, filter_fd=FILTER_FD))


def _filter(wish: IsolationWanted, host: Host, level: IsolationLevel, private: str) -> Confinement:
    machine, network, apart = MACHINES[host.machine], bool(wish.network), level is IsolationLevel.ISOLATED
    return Confinement(
        limits=wish.limits.numbers(),
        umask=PRIVATE_UMASK,
        filter=build_filter(machine, network=network, apart=apart),
        connect_filter=build_connect_filter(machine) if network else b"",
        ports=(NAMES_PORT, *wish.loopback),
        capabilities=ISOLATED_POWERS if apart else CONFINED_POWERS,
        private=private,
    )


def _at_home_in(private: str, env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program whose user's home is out of reach: many do not start where theirs is forbidden."""
    kept = {name: value for name, value in env.items() if name not in _HOME_VARIABLES}
    return kept | {"TMPDIR": private, "HOME": private}


def _restrict(confinement: Confinement, wish: IsolationWanted, reads: list[str]) -> Confinement:
    files, network, scopes = EVERYTHING
    rules = {
        **dict.fromkeys((*reads, *KERNEL), READ),
        **dict.fromkeys(DEVICES, DEVICE),
        **dict.fromkeys((*wish.write, confinement.private), WRITE),
    }
    return replace(confinement, handled=(files, 0 if wish.network else network, scopes), rules=tuple(rules.items()))


def _readable(spec: ProcessSpec, host: Host, program: Path) -> Iterator[str]:
    yield from (*SYSTEM, *HARMLESS)
    yield from map(str, program_places(program, spec.env.get("PATH", os.defpath), host.home))
    if spec.cwd is not None and not is_too_wide(Path(spec.cwd).resolve(), host.home):
        yield spec.cwd


def _find(spec: ProcessSpec) -> Path:
    """The file to run, found before the search itself is confined."""
    cwd = Path(spec.cwd or ".").absolute()
    found = find_program(spec.argv[0], spec.env.get("PATH", os.defpath), cwd)
    if found is None:
        is_there = "/" in spec.argv[0] and (cwd / spec.argv[0]).exists()
        raise explain_failure(spec, errno.EACCES if is_there else errno.ENOENT, "exec")
    return found


def _no_filter(spec: ProcessSpec, host: Host) -> SourceUnavailable:
    known = ", ".join(MACHINES)
    message = f"programs cannot be confined on {host.machine!r}."
    return for_good(refuse(spec, message, hint=f"That works on {known} with Linux."))
