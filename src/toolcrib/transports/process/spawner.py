"""The program that starts servers and sees to it that nothing of them stays behind.

Run by its path as ``python -I -S -E spawner.py FD``; toolcrib itself never imports it. The one **spawner** forks a
**keeper** for each message on its socket, and gives it the four descriptors that came along: stdin, stdout and stderr
of a server, and a control socket. There the keeper reads what to run (nobody else sees that environment) and reports
``{"pid": 7}`` or ``{"failed": errno, "step": "exec"}``, later ``{"exit": code}``, at last ``{"gone": swept}``. Any
word on the control socket, or its end because toolcrib died, makes the keeper stop its server.

Both are sub-reapers: whatever loses its parent becomes their child, so who has no child has no descendant.

What confines a server lies next door in ``confine.py``, which is imported when the first such start is asked for.

The rule: standard library only, and of that only what imports quickly. ``_signal`` and ``_socket`` are what
``signal`` and ``socket`` wrap; the wrappers take as long to import as the interpreter takes to start.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import os
import select
import sys
import time
import warnings  # noqa: F401  ``os.execvpe`` would import it in every new child

TYPE_CHECKING = False  # what ``typing`` says, without importing it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolcrib.transports.process import confine

LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
FOREVER_S, LONGEST_NAP_S, PATIENCE_S = float("inf"), 3600.0, 60.0
CONFINED = b"c"  # the word for a keeper whose server is confined; any other asks for a plain one
Table = dict[int, tuple[int, int]]  # process: its parent, its group

if LINUX:
    import ctypes

    prctl = ctypes.CDLL(None).prctl


def set_trait(option: int, value: int) -> None:
    """``prctl`` where there is one."""
    if LINUX:
        prctl(option, value, 0, 0, 0)


def read_proc() -> Table:
    """Every process there is; those that end while the table is read are left out."""
    table = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123
                _state, parent, group = stat.read().rpartition(b") ")[2].split(maxsplit=3)[:3]
        except OSError:
            continue
        table[int(name)] = int(parent), int(group)
    return table


def read_ps() -> Table:
    """The same where there is no ``/proc``."""
    with os.popen("/bin/ps -axo pid=,ppid=,pgid=") as rows:  # noqa: S605
        numbers = [tuple(map(int, row.split())) for row in rows]
    return {pid: (parent, group) for pid, parent, group in numbers}


read_table = read_proc if LINUX else read_ps


def find_below(table: Table, roots: set[int]) -> set[int]:
    """All descendants of ``roots``, without these."""
    found, newest = set(roots), set(roots)
    while newest:
        newest = {pid for pid, (parent, _) in table.items() if parent in newest} - found
        found |= newest
    return found - roots


def is_init(pid: int) -> bool:
    """Whether it is the first process of a namespace: bubblewrap's own, which ends after what it looked after."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:  # noqa: PTH123
            return any(line.startswith(b"NSpid:") and line.split()[2:][-1:] == [b"1"] for line in status)
    except OSError:
        return False


def signal_groups(table: Table, pids: set[int], number: int) -> None:
    """Signal the groups of ``pids``: a server starts in its own session, so its groups have no other members."""
    for group in {table[pid][1] for pid in pids} - {os.getpgrp()}:
        try:
            os.killpg(group, number)
        except OSError:  # ended meanwhile, or runs as somebody else
            continue


class Parent:
    """A process that attends to one socket and to its children, own and adopted."""

    def __init__(self, line: _socket.socket) -> None:
        set_trait(PR_SET_CHILD_SUBREAPER, 1)
        self.line = line
        self.leader = -1
        self.childless = False
        self.swept: set[int] = set()
        self.bell, self.wake = os.pipe()
        os.set_blocking(self.wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        self.ears = select.poll()
        self.ears.register(line, select.POLLIN)
        self.ears.register(self.bell, select.POLLIN)

    def hear(self) -> None:
        """Take what the socket has to say."""
        raise NotImplementedError

    def child_ended(self, pid: int, code: int) -> None:
        """Learn that a child is no more."""
        raise NotImplementedError

    def wait(self, condition: Callable[[], bool], seconds: float = FOREVER_S) -> None:
        """Attend to everything until ``condition`` holds or the time is over."""
        end = time.monotonic() + seconds
        self.reap()
        while not condition() and (left := end - time.monotonic()) > 0:
            self.attend(left)

    def attend(self, seconds: float) -> None:
        """Sleep until something happens, then see to it."""
        ready = {fd for fd, _ in self.ears.poll(min(seconds, LONGEST_NAP_S) * 1000)}
        if self.bell in ready:
            os.read(self.bell, 4096)
        if self.line.fileno() in ready:
            self.hear()
        self.reap()

    def reap(self) -> None:
        """Take leave of every child that has ended."""
        while not self.childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            self.child_ended(pid, os.waitstatus_to_exitcode(status))

    def is_alone(self) -> bool:
        """Whether nothing is left below; without a sub-reaper orphans go elsewhere, but stay in their group."""
        return self.childless and (LINUX or all(group != self.leader for _, group in read_table().values()))

    def signal_all(self, number: int) -> None:
        """Signal everything that came of this process."""
        table = read_table()
        pids = find_below(table, {os.getpid()}) | {pid for pid, (_, group) in table.items() if group == self.leader}
        self.swept |= {pid for pid in pids - {self.leader} if not is_init(pid)}
        signal_groups(table, pids, number)

    def kill_all(self) -> None:
        """Kill everything that came of this process, as often as it takes."""
        pause_s = 0.01
        while not self.is_alone():
            self.signal_all(signal.SIGKILL)
            self.wait(self.is_alone, pause_s)
            pause_s = min(2 * pause_s, 1.0)


class ForkServer(Parent):
    """Forks keepers on request until its socket ends; then waits for them, and leaves nothing."""

    def __init__(self, line: _socket.socket) -> None:
        super().__init__(line)
        self.keepers: set[int] = set()
        self.ended = False

    def run(self) -> None:
        """The whole life of a spawner; once toolcrib is gone, keepers have their time to finish by themselves."""
        self.wait(lambda: self.ended)
        self.wait(self.is_alone, PATIENCE_S)
        self.kill_all()

    def hear(self) -> None:
        """One message is one keeper to fork."""
        word, descriptors = receive_descriptors(self.line)
        if not word:
            self.ended = True
            self.ears.unregister(self.line)
        if word == CONFINED:
            load_confine()  # here, so that every later keeper has it already
        if len(descriptors) == 4:
            self.fork_keeper(descriptors)
        for fd in descriptors:
            os.close(fd)

    def fork_keeper(self, descriptors: Sequence[int]) -> None:
        """Start a keeper; if the system refuses, say so in its place."""
        try:
            pid = os.fork()
        except OSError as error:
            os.write(descriptors[3], describe_failure(error, "fork"))
            return
        if pid == 0:
            self.become_keeper(descriptors)
        self.keepers.add(pid)
        self.childless = False

    def become_keeper(self, descriptors: Sequence[int]) -> None:
        """Turn this fork into a keeper; does not return."""
        try:
            os.setsid()
            os.close(self.bell)
            os.close(self.wake)
            self.line.close()
            Keeper(_socket.socket(fileno=descriptors[3])).run(descriptors[:3])
            os._exit(0)
        finally:
            os._exit(1)

    def child_ended(self, pid: int, code: int) -> None:
        """Kill what a keeper that was itself killed left behind; what that leaves comes here in turn."""
        if pid in self.keepers:
            self.keepers.remove(pid)
            if code == 0:
                return
        table = read_table()
        strays = {child for child, (parent, _) in table.items() if parent == os.getpid()} - self.keepers
        signal_groups(table, strays | find_below(table, strays), signal.SIGKILL)


def receive_descriptors(line: _socket.socket) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it; no word when the other end is closed."""
    word, ancillary, _flags, _address = line.recvmsg(1, _socket.CMSG_SPACE(16))
    fds = [fd for _level, _kind, payload in ancillary for fd in memoryview(payload).cast("i")]
    for fd in fds:
        os.set_inheritable(fd, False)
    return word, fds


def load_confine() -> None:
    """Make the file next door importable, behind everything else that is."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    if here not in sys.path:
        sys.path.append(here)
    import confine  # type: ignore[import-not-found,unused-ignore]  # noqa: F401


def describe_failure(error: OSError | ValueError, step: str) -> bytes:
    """The report that the server could not be started."""
    return b'{"failed": %d, "step": "%s"}\n' % (getattr(error, "errno", None) or 0, step.encode())


class ForkRequest:
    """What to run: fields separated by zero bytes, which no argument or variable can contain."""

    def __init__(self, text: bytes) -> None:
        cwd, stop_grace, kill_grace, count, given_up, *rest = text.split(b"\0")
        end = int(count) + int(given_up)
        self.cwd = cwd
        self.stop_grace_s, self.kill_grace_s = float(stop_grace), float(kill_grace)
        self.argv = rest[: int(count)]
        self.confinement = rest[int(count) : end]
        self.env = dict(pair.split(b"=", 1) for pair in rest[end:])

    def open_cell(self) -> confine.Cell | None:
        """What confines the server; ``None`` if nothing does."""
        if not self.confinement:
            return None
        load_confine()
        return sys.modules["confine"].Cell(self.confinement)  # type: ignore[no-any-return]


def read_request(line: _socket.socket) -> ForkRequest | None:
    """What to run, preceded by its length; ``None`` if toolcrib went away before it had said it."""
    size = int.from_bytes(line.recv(4, _socket.MSG_WAITALL), "big")
    text = line.recv(size, _socket.MSG_WAITALL)
    return ForkRequest(text) if text and len(text) == size else None


class Keeper(Parent):
    """Starts one server, waits for its end or for the word to stop it, and clears away what is left."""

    def __init__(self, line: _socket.socket) -> None:
        super().__init__(line)
        self.exited = False
        self.stopping = False

    def run(self, stdio: Sequence[int]) -> None:
        """The whole life of a keeper."""
        request = read_request(self.line)
        if request is None:
            return
        cell = request.open_cell()
        try:
            self.attend_server(request, cell, stdio)
        finally:
            if cell is not None:
                cell.clear()
        self.report(b'{"gone": %d}\n' % len(self.swept))

    def attend_server(self, request: ForkRequest, cell: confine.Cell | None, stdio: Sequence[int]) -> None:
        """From the start of the server to the end of everything it left."""
        if not self.start(request, cell, stdio):
            return
        self.wait(lambda: self.exited or self.stopping)
        self.wait(lambda: self.exited, request.stop_grace_s)
        if not self.is_alone():
            self.signal_all(signal.SIGTERM)
            self.wait(self.is_alone, request.kill_grace_s)
        self.kill_all()

    def start(self, request: ForkRequest, cell: confine.Cell | None, stdio: Sequence[int]) -> bool:
        """Fork and exec the server; whether it runs."""
        told, tell = os.pipe()
        keeper = os.getpid()
        step = "private"
        try:
            if cell is not None:
                cell.prepare()
            step = "fork"
            self.leader = os.fork()
        except OSError as error:
            self.report(describe_failure(error, step))
            return False
        if self.leader == 0:
            become_server(request, cell, (*stdio, tell), keeper)
        for fd in (*stdio, tell):
            os.close(fd)
        failure = os.read(told, 256)  # closed by a successful exec
        os.close(told)
        if failure:
            os.waitpid(self.leader, 0)
        elif cell is not None:
            cell.watch()
        self.report(failure or b'{"pid": %d}\n' % self.leader)
        return not failure

    def hear(self) -> None:
        """Any word means stop; so does the end of whoever could say it."""
        self.stopping = True
        self.ears.unregister(self.line)

    def child_ended(self, pid: int, code: int) -> None:
        """Report the server's own end; of adopted processes nobody wants to hear."""
        if pid == self.leader:
            self.exited = True
            self.report(b'{"exit": %d}\n' % code)

    def report(self, line: bytes) -> None:
        """Tell toolcrib, if it is still there."""
        try:
            self.line.sendall(line)
        except OSError:
            self.stopping = True


def become_server(request: ForkRequest, cell: confine.Cell | None, fds: Sequence[int], keeper: int) -> None:
    """Turn this fork into the server; does not return. Every descriptor but the three closes with ``exec``."""
    *stdio, tell = fds
    step = "exec"
    try:
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        restore_signals()
        set_trait(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the keeper is killed, the kernel kills the server
        if os.getppid() != keeper:  # it was killed before the kernel knew
            return
        if request.cwd:
            step = "chdir"
            os.chdir(request.cwd)
        if cell is not None:
            step = "confine"
            cell.enter()
        step = "exec"
        os.execvpe(request.argv[0], request.argv, request.env)  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(tell, describe_failure(error, step))
    finally:
        os._exit(127)


def restore_signals() -> None:
    """Undo what Python and this program changed: what is ignored or blocked stays so over ``exec``."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def main(fd: int) -> None:
    """Serve the socket ``fd``; only its end ends this program, no signal meant for toolcrib's service."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    set_trait(PR_SET_DUMPABLE, 0)  # servers run as the same user; they shall not read or trace their keepers
    ForkServer(_socket.socket(fileno=fd)).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
