"""Runs one worker and becomes the parent of every process it orphans, so that none of them gets out of sight.

``python keeper.py COMMAND...``; ends with the worker's exit code when everything below it has ended. SIGTERM ends that.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def children_of(pid: int) -> list[int]:
    """The processes whose parent it is."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            direct = [int(child) for child in file.read().split()]
        threads = [task for task in os.listdir(f"/proc/{pid}/task") if task != str(pid)]
    except (FileNotFoundError, ProcessLookupError):
        return []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                direct += [int(child) for child in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return direct


def descendants_of(pid: int) -> list[int]:
    """All processes below it."""
    found = children_of(pid)
    for child in found:
        found.extend(children_of(child))
    return found


def cpu_s_of(pid: int) -> float:
    """The seconds of CPU that it has used, and those below it that it has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def end_all(pids: list[int]) -> None:
    """Kill each of them that is still there."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def keep(command: list[str]) -> int:
    """Run the worker, and reap all that ends until nothing is left."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: end_all(descendants_of(os.getpid())))
    # A runner in the background of a shell ignores it, and everything below would, too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    worker, code = os.posix_spawn(command[0], command, os.environ), 0
    # The runner notices the worker's end by its pipes.
    os.closerange(3, 64)
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            return code
        if ended == worker:
            code = abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    raise SystemExit(keep(sys.argv[1:]))
