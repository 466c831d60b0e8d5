"""What a confined program may read without being granted it: enough to start, nothing that is anybody's own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

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
