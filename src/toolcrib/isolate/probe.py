"""The program of the self-test: it tries what a hostile one would, and tells what it got away with.

Run by its path as ``python -I -S -E probe.py ARENA``; standard library only. With a network it tries what that must
not open, without one everything else. Whether something was reached is told by
whoever waits at the other end, so only what nobody else can see is told here.
"""

import ctypes
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

PTRACE_SEIZE = 0x4206
IN_CREATE, FAN_CLASS_NOTIF, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD = 0x100, 0, 1, 0x20, -100
FAN_REPORT_FID = 0x200
SHM_RDONLY, IPC_NOWAIT = 0o10000, 0o4000
IOPRIO = {"x86_64": (252, 251), "aarch64": (31, 30)}  # get, set
IOPRIO_WHO_PROCESS = 1
MSG_FASTOPEN = 0x20000000
MEMORY_BYTES = 1 << 30
FILE_BYTES = 80_000_000
CONNECT_S = 2.0


def attempt(act: Callable[[], Any]) -> Any:
    """What came of it; an error is told by its name, and so is what this system does not have."""
    try:
        return act()
    except (OSError, MemoryError, ValueError, AttributeError, KeyError) as error:
        return f"error: {type(error).__name__} {error}"


def read_secret(path: str) -> str:
    """The content of a file that was not granted."""
    with open(path) as file:  # noqa: PTH123
        return file.read()


def write_outside(path: str) -> None:
    """A file where nothing may be written."""
    with open(path, "w") as file:  # noqa: PTH123
        file.write("x")


def connect(family: int, address: Any) -> None:
    """A stream connection."""
    with socket.socket(family, socket.SOCK_STREAM) as line:
        line.settimeout(CONNECT_S)
        line.connect(address)


def send(address: Any) -> None:
    """A datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"x", address)


def send_through_pair(path: str) -> None:
    """A datagram to a unix socket, by turning one end of a harmless pair to another address."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.connect(path)
        ours.send(b"x")


def digest_environment(pid: int) -> str:
    """Whose environment it is; the values stay here."""
    import hashlib

    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        return hashlib.sha256(file.read()).hexdigest()


def call(function: str, *arguments: Any) -> int:
    """A function of the C library that tells its failure by a number below 0."""
    found = getattr(ctypes.CDLL(None, use_errno=True), function)
    outcome = int(found(*arguments))
    if outcome < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return outcome


def trace(pid: int) -> None:
    """Attach as a debugger does, without stopping anybody; the kernel detaches when this program ends."""
    call("ptrace", PTRACE_SEIZE, pid, None, None)


def change_limits(pid: int) -> None:
    """Set a limit of another process to what it is already."""
    import resource

    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


def change_priority(pid: int) -> list[str]:
    """Set everything that decides how much a process gets to what it is already; what was allowed."""
    get, set_ = IOPRIO[os.uname().machine]
    ways: dict[str, Callable[[], Any]] = {
        "nice": lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        "affinity": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "scheduler": lambda: os.sched_setscheduler(pid, os.sched_getscheduler(pid), os.sched_getparam(pid)),
        "io": lambda: call("syscall", set_, IOPRIO_WHO_PROCESS, pid, call("syscall", get, IOPRIO_WHO_PROCESS, pid)),
    }
    told = {name: attempt(way) for name, way in ways.items()}
    return [name for name, outcome in told.items() if not str(outcome).startswith("error: ")]


def watch_names(directory: str) -> None:
    """Ask to be told of every file that is made in a directory."""
    watcher = call("inotify_init1", 0)
    call("inotify_add_watch", watcher, directory.encode(), IN_CREATE)


def watch_files(path: str) -> None:
    """Ask to be told whenever a file is opened; ordinary users are told, too, from Linux 5.13 on."""
    watchers = [attempt(partial(call, "fanotify_init", flags, 0)) for flags in (FAN_CLASS_NOTIF, FAN_REPORT_FID)]
    given = next((each for each in watchers if isinstance(each, int)), -1)
    call("fanotify_mark", given, FAN_MARK_ADD, ctypes.c_uint64(FAN_OPEN), AT_FDCWD, path.encode())


def read_shared(number: int) -> str:
    """What stands in shared memory that another program made."""
    library = ctypes.CDLL(None, use_errno=True)
    library.shmat.restype = ctypes.c_void_p
    at = library.shmat(number, None, SHM_RDONLY)
    if at == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return ctypes.string_at(at).decode()


def write_queue(number: int) -> None:
    """A message in a queue that another program made."""
    message = ctypes.create_string_buffer((1).to_bytes(8, "little") + b"x", 16)  # its kind, then one byte
    call("msgsnd", number, message, ctypes.c_size_t(1), IPC_NOWAIT)


def raise_limits() -> None:
    """Allow itself files of any size."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def connect_by_every_name(port: int) -> list[Any]:
    """A connection to this machine by each way to name it, and by sending without connecting first."""
    names = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::ffff:127.0.0.1")]  # noqa: S104
    tries = [attempt(partial(connect, family, (name, port))) for family, name in names]
    return [*tries, attempt(lambda: send_at_once(port))]


def send_at_once(port: int) -> None:
    """Data that opens its connection on the way."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as line:
        line.sendto(b"x", MSG_FASTOPEN, ("127.0.0.1", port))


def open_sockets() -> list[str]:
    """Which of the sockets that tell about this machine it can have."""
    wanted = {
        "netlink": (socket.AF_NETLINK, socket.SOCK_RAW, 0),
        "diagnosis": (socket.AF_NETLINK, socket.SOCK_DGRAM, 4),
        "raw": (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP),
        "packet": (socket.AF_PACKET, socket.SOCK_RAW, 0),
        "vsock": (socket.AF_VSOCK, socket.SOCK_STREAM, 0),
        "crypto": (socket.AF_ALG, socket.SOCK_SEQPACKET, 0),
    }
    told = {name: attempt(partial(socket.socket, *kind)) for name, kind in wanted.items()}
    return [name for name, outcome in told.items() if isinstance(outcome, socket.socket)]


def fork_many(wanted: int) -> int:
    """How many processes it got; all of them end here."""
    children = []
    try:
        for _ in range(wanted):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError:
        return len(children)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return len(children)


def take_memory() -> int:
    """How much memory it was given at once; as long as nothing is put into it, nobody else misses it."""
    with mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        return len(memory)


def write_large(path: str) -> int:
    """How large a file it could make; the file has holes, the disk is not filled."""
    with open(path, "wb") as file:  # noqa: PTH123
        file.seek(FILE_BYTES - 1)
        file.write(b"x")
    return FILE_BYTES


def try_without_network(arena: dict[str, Any]) -> dict[str, Any]:
    """Everything that must be kept from a program to which nothing was granted."""
    parent = arena["parent"]
    large = os.path.join(os.environ.get("TMPDIR") or arena["open"], "large")  # noqa: PTH118
    return {
        "secret": attempt(lambda: read_secret(arena["secret"])),
        "write": attempt(lambda: write_outside(arena["outside"])),
        "chmod": attempt(lambda: os.chmod(arena["target"], 0o640)),  # noqa: PTH101
        "names": attempt(lambda: os.stat(arena["secret"]).st_size),  # noqa: PTH116
        "watch": attempt(lambda: watch_names(arena["open"])),
        "fanotify": attempt(lambda: watch_files(arena["target"])),
        "tcp": attempt(lambda: connect(socket.AF_INET, tuple(arena["tcp"]))),
        "udp": attempt(lambda: send(tuple(arena["udp"]))),
        **try_unix(arena),
        "environ": attempt(lambda: digest_environment(parent)),
        "signal": attempt(lambda: os.kill(parent, 0)),
        "trace": attempt(lambda: trace(parent)),
        "prlimit": attempt(lambda: change_limits(parent)),
        "priority": attempt(lambda: change_priority(parent)),
        "shared": attempt(lambda: read_shared(arena["shared"])),
        "queue": attempt(lambda: write_queue(arena["queue"])),
        "pids": attempt(lambda: os.readlink("/proc/self/ns/pid")),  # noqa: PTH115
        "memory": attempt(take_memory),
        "file": attempt(lambda: write_large(large)),
        "fork": attempt(lambda: fork_many(arena["forks"])),
        "raise": attempt(raise_limits),
    }


def try_unix(arena: dict[str, Any]) -> dict[str, Any]:
    """Both roads to unix sockets."""
    return {
        "unix": attempt(lambda: connect(socket.AF_UNIX, arena["unix"])),
        "pair": attempt(lambda: send_through_pair(arena["unix_datagram"])),
    }


def try_with_network(arena: dict[str, Any]) -> dict[str, Any]:
    """What a network must not open: this machine itself."""
    return {
        "local": connect_by_every_name(arena["tcp"][1]),
        "local_udp": attempt(lambda: send(tuple(arena["udp"]))),
        "netlink": attempt(open_sockets),
        **try_unix(arena),
    }


def main(arena: dict[str, Any]) -> dict[str, Any]:
    """Try everything; the results by probe."""
    return try_with_network(arena) if arena["network"] else try_without_network(arena)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
