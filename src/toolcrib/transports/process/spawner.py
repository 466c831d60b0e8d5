"""The program that starts servers and sees to it that nothing of them stays behind.

toolcrib runs it as a program of its own (``spawn.run_program``) and never imports it. What runs then::

    guard ── keeper ─┬─ reaper ── server ── whatever that starts
                     └─ reaper ── server

The one **keeper** looks after all servers. Each message on its socket is a server to start, with four descriptors:
stdin, stdout and stderr of the server, and a control line. The fork that becomes the server's **reaper** reads from
the line what to run, and starts it. From then on the keeper listens there: any word, or the end of the line because
toolcrib died, makes it stop that server. It reports ``{"pid": 7}`` or ``{"failed": errno, "step": "exec"}``, later
``{"exit": code}``, at last ``{"gone": swept}``.

Which process belongs to which server is the kernel's word: a reaper is a sub-reaper, so whatever loses its parent
below it becomes its child, however often it forked, and it ends when it has no child left. No mark that one process
alone could read does as much: a daemon leaves its session, closes its descriptors and starts with a new environment.
A reaper in Python would take 8 MB, so it becomes the smallest program there is (``reaper.py``), and the keeper does for
it what needs thought.

If a reaper is killed, the kernel kills its server, and the keeper what that leaves. If the keeper is killed, the
kernel kills reapers and servers, and the **guard**, a sub-reaper too, what is left.

The rule: standard library only, and of that only what imports quickly. ``_signal`` and ``_socket`` are what
``signal`` and ``socket`` wrap; the wrappers take as long to import as the interpreter takes to start.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False  # what ``typing`` says, without importing it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolcrib.transports.process import confine, reaper
else:
    import confine
    import reaper

FOREVER_S, LONGEST_NAP_S, PATIENCE_S = float("inf"), 3600.0, 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 1.0
SWEEP = -1  # in place of a socket: end everything below this process
NEWS = _socket.SOCK_SEQPACKET if reaper.LINUX else _socket.SOCK_DGRAM
Table = dict[int, tuple[int, int]]  # process: its parent, its group


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


read_table = read_proc if reaper.LINUX else read_ps


def find_below(table: Table, roots: set[int]) -> set[int]:
    """All descendants of ``roots``, without these."""
    found, newest = set(roots), set(roots)
    while newest:
        newest = {pid for pid, (parent, _) in table.items() if parent in newest} - found
        found |= newest
    return found - roots


def stays_behind(pid: int) -> bool:
    """Whether it would go on if nobody ended it: not what has ended meanwhile, nor the first process of a namespace,
    bubblewrap's own, which ends after what it looked after."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:  # noqa: PTH123
            said = dict(line.split(b":", 1) for line in status if line.startswith((b"State:", b"NSpid:")))
    except OSError:
        return not reaper.LINUX
    is_over = said.get(b"State", b"").split()[:1] in ([b"Z"], [b"X"])
    return not is_over and said.get(b"NSpid", b"").split()[1:][-1:] != [b"1"]


def signal_groups(table: Table, pids: set[int], number: int) -> None:
    """Signal the groups of ``pids``: a server starts in its own session, so its groups have no other members."""
    for group in {table[pid][1] for pid in pids} - {os.getpgrp()}:
        try:
            os.killpg(group, number)
        except OSError:  # ended meanwhile, or runs as somebody else
            continue


class Keeper:
    """Attends to toolcrib's socket and to all servers; nothing here waits for one of them alone."""

    def __init__(self, line: _socket.socket, program: int) -> None:
        reaper.set_trait(reaper.PR_SET_CHILD_SUBREAPER, 1)
        self.line, self.program = line, program
        self.servers: list[Server] = []
        self.reapers: dict[int, Server] = {}
        """Those that still run."""
        self.cleaners: set[int] = set()
        self.ended, self.childless = False, True
        self.due = FOREVER_S
        """When servers that toolcrib has left have had their time."""
        self.table: Table = {}
        self.ears = select.poll()
        self.heard: dict[int, Callable[[], object]] = {}
        self.bell, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.listen(self.bell, lambda: os.read(self.bell, 4096))
        self.listen(line.fileno(), self.hear)

    def run(self) -> None:
        """Serve until toolcrib has gone and nothing is left."""
        while not self.ended or self.servers or not self.childless:
            self.turn()

    def turn(self) -> None:
        """Sleep until something happens, then see to it."""
        due = min([self.due, *(server.due for server in self.servers)])
        nap_s = max(0.0, min(due - time.monotonic(), LONGEST_NAP_S))
        for fd, _ in self.ears.poll(nap_s * 1000):
            self.heard[fd]()
        self.table = {}
        self.reap()
        if time.monotonic() >= self.due:
            self.hurry()
        for server in tuple(self.servers):
            server.proceed()

    def listen(self, fd: int, callback: Callable[[], object]) -> None:
        """Have ``callback`` called whenever there is something to read."""
        self.heard[fd] = callback
        self.ears.register(fd, select.POLLIN)

    def ignore(self, fd: int) -> None:
        """Listen there no more; doing so twice is once."""
        if self.heard.pop(fd, None) is not None:
            self.ears.unregister(fd)

    def look(self) -> Table:
        """All processes, read once a turn for all servers that are being stopped."""
        self.table = self.table or read_table()
        return self.table

    def hear(self) -> None:
        """One message is one server to start; their end is the end of toolcrib's interest."""
        word, descriptors = receive_descriptors(self.line)
        if not word:
            self.ended = True
            self.due = time.monotonic() + PATIENCE_S
            self.ignore(self.line.fileno())
        if len(descriptors) == 4:
            self.fork_reaper(_socket.socket(fileno=descriptors.pop()), descriptors)
        for fd in descriptors:
            os.close(fd)

    def fork_reaper(self, line: _socket.socket, stdio: Sequence[int]) -> None:
        """Start the process that starts a server; if the system refuses, say so in its place."""
        step = "pipe"
        try:
            news, tell = _socket.socketpair(_socket.AF_UNIX, NEWS)
            step = "fork"
            pid = self.fork()
        except OSError as error:
            line.send(reaper.describe_failure(error, step))
            return
        if pid == 0:
            reaper.become_reaper(line, stdio, tell, self.program)
        server = Server(self, pid, line, news)
        self.servers.append(server)
        self.reapers[pid] = server

    def fork(self) -> int:
        """Like ``os.fork``; the new process has nothing of the keeper's."""
        keeper = os.getpid()
        pid = os.fork()
        self.childless = False
        if pid == 0:
            reaper.set_trait(reaper.PR_SET_PDEATHSIG, signal.SIGKILL)
            if reaper.LINUX and os.getppid() != keeper:  # it was killed before the kernel knew
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in self.heard:
                os.close(fd)
        return pid

    def clear(self, path: bytes) -> int:
        """Remove a directory in a process of its own, unless it is empty: it may hold a million files."""
        if is_empty_and_removed(path):
            return 0
        try:
            cleaner = self.fork()
        except OSError:  # too many processes: then others have to wait after all
            confine.remove_tree(path)
            return 0
        if cleaner == 0:
            confine.remove_tree(path)
            os._exit(0)
        self.cleaners.add(cleaner)
        return cleaner

    def reap(self) -> None:
        """Take leave of every child that has ended; one that was not expected, or was killed, leaves others."""
        while not self.childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            server = self.reapers.pop(pid, None)
            if server is not None:
                server.lose_reaper(clean=status == 0)
            if status or (server is None and pid not in self.cleaners):
                self.kill_strays()
            self.cleaners.discard(pid)

    def find_strays(self) -> set[int]:
        """Children that were not forked here: they are of servers whose reaper was killed."""
        mine = {pid for pid, (parent, _) in self.look().items() if parent == os.getpid()}
        return mine - self.reapers.keys() - self.cleaners

    def kill_strays(self) -> None:
        """Kill them and all below; what that leaves comes here in turn."""
        strays = self.find_strays()
        signal_groups(self.look(), strays | find_below(self.look(), strays), signal.SIGKILL)

    def hurry(self) -> None:
        """End what toolcrib left and is still starting or stopping."""
        self.due = FOREVER_S
        for pid, server in self.reapers.items():
            if server.stopping or not server.leader:
                os.kill(pid, signal.SIGKILL)


class Server:
    """One server, from the fork of its reaper until nothing of it is left."""

    def __init__(self, keeper: Keeper, pid: int, line: _socket.socket, news: _socket.socket) -> None:
        self.keeper, self.reaper, self.line, self.news = keeper, pid, line, news
        self.leader = 0
        self.private = b""
        self.stop_grace_s = self.kill_grace_s = 0.0
        self.stopping = self.exited = self.reaped = self.swept_by_reaper = False
        self.swept: set[int] = set()
        self.life = self.live()
        self.may_go_on, self.due = next(self.life)
        news.setblocking(False)
        keeper.listen(news.fileno(), self.learn)

    def live(self) -> Iterator[tuple[Callable[[], bool], float]]:
        """What is done one after the other; each pause ends when its condition holds or its time is over."""
        yield lambda: bool(self.leader) or self.reaped, FOREVER_S
        yield lambda: self.stopping or self.exited or self.reaped, FOREVER_S
        yield lambda: self.exited or self.reaped, self.stop_grace_s
        if not self.is_alone():
            self.signal_all(signal.SIGTERM)
            yield self.is_alone, self.kill_grace_s
        pause_s = FIRST_PAUSE_S
        while not self.is_alone():
            self.signal_all(signal.SIGKILL)
            yield self.is_alone, pause_s
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if self.private:
            cleaner = self.keeper.clear(self.private)
            yield lambda: cleaner not in self.keeper.cleaners, FOREVER_S
        self.report(b'{"gone": %d}\n' % len(self.swept))

    def proceed(self) -> None:
        """Take all steps for which the time has come; after the last one, forget the server."""
        while self.may_go_on() or time.monotonic() >= self.due:
            pause = next(self.life, None)
            if pause is None:
                self.close()
                return
            self.may_go_on, self.due = pause[0], time.monotonic() + pause[1]

    def close(self) -> None:
        """Be no more."""
        self.keeper.servers.remove(self)
        for end in (self.line, self.news):
            self.keeper.ignore(end.fileno())
            end.close()

    def learn(self) -> bool:
        """Take the next word of the reaper: how the start went, later how a process ended. Whether there was one."""
        try:
            word = self.news.recv(8192)
        except BlockingIOError:
            return False
        if not word:
            self.keeper.ignore(self.news.fileno())
        elif self.leader:
            self.learn_end(word)
        else:
            self.learn_start(word)
        return bool(word)

    def learn_start(self, word: bytes) -> None:
        """From here on toolcrib, which has been told already, may say when to stop."""
        told = marshal.loads(word)  # noqa: S302  our own fork wrote it
        self.stop_grace_s, self.kill_grace_s, self.leader, self.private = told
        if self.leader:
            self.keeper.listen(self.line.fileno(), self.stop)

    def learn_end(self, word: bytes) -> None:
        """Report the server's own end; of adopted processes nobody wants to hear."""
        pid, status = (int.from_bytes(half, sys.byteorder) for half in (word[:4], word[4:8]))
        if pid == self.leader:
            self.exited = True
            self.report(b'{"exit": %d}\n' % os.waitstatus_to_exitcode(status))

    def stop(self) -> None:
        """Any word means stop; so does the end of whoever could say it."""
        self.stopping = True
        self.keeper.ignore(self.line.fileno())

    def lose_reaper(self, *, clean: bool) -> None:
        """The reaper has ended: by itself when nothing was left below it, or it was killed."""
        while self.learn():
            continue
        self.reaped, self.swept_by_reaper = True, clean

    def is_alone(self) -> bool:
        """Whether nothing is left of it; without a sub-reaper orphans go elsewhere, but stay in their group."""
        if not self.reaped:
            return False
        if reaper.LINUX:
            return self.swept_by_reaper or not self.keeper.find_strays()
        return all(group != self.leader for _, group in self.keeper.look().values())

    def signal_all(self, number: int) -> None:
        """Signal everything that came of the server."""
        table = self.keeper.look()
        pids = set() if self.reaped else find_below(table, {self.reaper})
        if not reaper.LINUX:
            pids |= {pid for pid, (_, group) in table.items() if group == self.leader}
        self.swept |= {pid for pid in pids - {self.leader} if stays_behind(pid)}
        signal_groups(table, pids, number)
        if self.reaped:
            self.keeper.kill_strays()

    def report(self, line: bytes) -> None:
        """Tell toolcrib, if it is still there."""
        try:
            self.line.sendall(line)
        except OSError:
            self.stopping = True


def is_empty_and_removed(path: bytes) -> bool:
    """Remove a directory with nothing in it; whether it was one."""
    try:
        os.rmdir(path)  # noqa: PTH106
    except OSError:
        return False
    return True


def receive_descriptors(line: _socket.socket) -> tuple[bytes, list[int]]:
    """One message and the descriptors that came with it; no word when the other end is closed."""
    word, ancillary, _flags, _address = line.recvmsg(1, _socket.CMSG_SPACE(16))
    fds = [fd for _level, _kind, payload in ancillary for fd in memoryview(payload).cast("i")]
    for fd in fds:
        os.set_inheritable(fd, False)
    return word, fds


def guard(keeper: int, program: int) -> None:
    """Wait for the keeper's end; if it was killed, end everything that it looked after."""
    if program >= 0:
        command = [sys.executable, *sys.orig_argv[1:-1], str(SWEEP)]
        reaper.become_program(program, command, os.environ)
    if os.waitpid(keeper, 0)[1]:
        sweep()


def sweep() -> None:
    """Kill everything below this process, as often as it takes."""
    pause_s = FIRST_PAUSE_S
    while True:
        table = read_table()
        signal_groups(table, find_below(table, {os.getpid()}), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def main(fd: int) -> None:
    """Serve the socket ``fd``; only its end ends this program, no signal meant for toolcrib's service."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Servers run as the same user; they shall not read or trace their keeper.
    reaper.set_trait(reaper.PR_SET_DUMPABLE, 0)
    if fd == SWEEP:
        sweep()
        return
    reaper.set_trait(reaper.PR_SET_CHILD_SUBREAPER, 1)
    line = _socket.socket(fileno=fd)
    program = reaper.write_program()
    keeper = os.fork()
    if keeper == 0:
        try:
            Keeper(line, program).run()
            os._exit(0)
        finally:
            os._exit(1)
    line.close()
    guard(keeper, program)
