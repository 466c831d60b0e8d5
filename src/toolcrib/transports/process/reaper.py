"""The fork of the keeper that starts one server and becomes its reaper: a part of the program ``spawner.py``.

A reaper has nothing to do but to tell how its children end, so it becomes the smallest program that can: 90 bytes of
machine code in an ELF file in memory. It takes 16 KB where the same loop in Python takes 8 MB::

    while (pid, status := wait4(-1)):      # until it has no child
        if argc == 1:
            write(1, pid, status)          # a reaper: the keeper wants to know
        elif status != 0:
            execve(argv[1], argv[1:])      # the guard: the keeper was killed, so have everything swept
    exit(0)

Who becomes it keeps being a sub-reaper, and the parent of its children: ``exec`` changes neither. Where the machine is
another one, or the system runs no program from memory, Python goes on doing the same; so it does for a server whose
connections must be looked at (``connects.py``).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import struct
import sys
import warnings  # noqa: F401  ``os.execvpe`` would import it in every new child

TYPE_CHECKING = False  # what ``typing`` says, without importing it
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from toolcrib.transports.process import confine
else:
    import confine

LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36

if LINUX:
    import ctypes

    prctl = ctypes.CDLL(None).prctl


def set_trait(option: int, value: int) -> None:
    """``prctl`` where there is one."""
    if LINUX:
        prctl(option, value, 0, 0, 0)


def describe_failure(error: OSError | ValueError, step: str) -> bytes:
    """The report that the server could not be started."""
    return b'{"failed": %d, "step": "%s"}\n' % (getattr(error, "errno", None) or 0, step.encode())


def read_request(line: _socket.socket) -> dict[str, Any] | None:
    """What to run, preceded by its length; ``None`` if toolcrib went away before it had said it."""
    size = int.from_bytes(line.recv(4, _socket.MSG_WAITALL), "big")
    text = line.recv(size, _socket.MSG_WAITALL)
    return marshal.loads(text) if text and len(text) == size else None  # noqa: S302  toolcrib itself wrote it


def become_reaper(line: _socket.socket, stdio: Sequence[int], news: _socket.socket, program: int) -> None:
    """Turn this fork into a reaper that has started its server; does not return."""
    try:
        set_trait(PR_SET_CHILD_SUBREAPER, 1)
        os.setsid()
        request = read_request(line)
        if request is None:
            return
        cell = confine.Cell(request["confinement"]) if request["confinement"] else None
        leader, outcome = start(request, cell, stdio)
        graces = request["stop_grace_s"], request["kill_grace_s"]
        news.send(marshal.dumps((*graces, leader, b"" if cell is None else cell.private)))
        report(line, outcome)  # not by way of the keeper, which would take half a millisecond more
        line.close()
        if leader:
            reap(news, -1 if cell is not None and cell.watches else program)
        os._exit(0)
    finally:
        os._exit(1)


def report(line: _socket.socket, outcome: bytes) -> None:
    """Tell toolcrib; if it is gone, the keeper will notice."""
    try:
        line.send(outcome)
    except OSError:
        return


def reap(news: _socket.socket, program: int) -> None:
    """Tell how each child ends, until there is none: as the small program, which needs no Python, if that may be."""
    if program >= 0:
        os.dup2(news.fileno(), 1)
        become_program(program, (), {})
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return
        news.send(pid.to_bytes(4, sys.byteorder) + status.to_bytes(4, sys.byteorder))


def start(request: dict[str, Any], cell: confine.Cell | None, stdio: Sequence[int]) -> tuple[int, bytes]:
    """Fork and exec the server; its process, or 0, and what to tell toolcrib."""
    step, reaper = "pipe", os.getpid()
    try:
        told, tell = os.pipe()
        if cell is not None:
            step = "private"
            cell.prepare()
        step = "fork"
        leader = os.fork()
    except OSError as error:
        return 0, describe_failure(error, step)
    if leader == 0:
        become_server(request, cell, (*stdio, tell), reaper)
    for fd in (*stdio, tell):
        os.close(fd)
    failure = os.read(told, 256)  # closed by a successful exec
    os.close(told)
    if failure:
        os.waitpid(leader, 0)
        return 0, failure
    if cell is not None:
        cell.watch()
    return leader, b'{"pid": %d}\n' % leader


def become_server(request: dict[str, Any], cell: confine.Cell | None, fds: Sequence[int], reaper: int) -> None:
    """Turn this fork into the server; does not return. Every descriptor but the three closes with ``exec``."""
    *stdio, tell = fds
    step = "exec"
    try:
        os.setsid()
        for target, fd in enumerate(stdio):
            os.dup2(fd, target)
        restore_signals()
        set_trait(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the reaper is killed, the kernel kills the server
        if os.getppid() != reaper:  # it was killed before the kernel knew
            return
        if request["cwd"]:
            step = "chdir"
            os.chdir(request["cwd"])
        if cell is not None:
            step = "confine"
            cell.enter()
        step = "exec"
        env = dict(pair.split(b"=", 1) for pair in request["env"])
        os.execvpe(request["argv"][0], request["argv"], env)  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(tell, describe_failure(error, step))
    finally:
        os._exit(127)


def restore_signals() -> None:
    """Undo what Python and this program changed: what is ignored or blocked stays so over ``exec``."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def become_program(program: int, arguments: Sequence[str], env: Mapping[str, str]) -> None:
    """Go on as the small program; returns if the system runs no program from memory."""
    try:
        os.execve(program, [NAME, *arguments], env)  # noqa: S606
    except OSError:
        return


NAME = "toolcrib-reaper"
MFD_CLOEXEC, MFD_EXEC = 1, 16
EXECUTE_ONLY = 0o111  # a program its own user cannot read is one that the user's other processes cannot trace
LOAD_AT = 0x400000
HEADERS = 64 + 56

X86_64 = """
    4883ec10      sub    $16, %rsp
                wait:                          # wait4(-1, rsp + 4, 0, 0)
    6a3d          push   $61
    58            pop    %rax
    4883cfff      or     $-1, %rdi
    488d742404    lea    4(%rsp), %rsi
    31d2          xor    %edx, %edx
    4531d2        xor    %r10d, %r10d
    0f05          syscall
    85c0          test   %eax, %eax
    783b          js     done
    890424        mov    %eax, (%rsp)
    488b4c2410    mov    16(%rsp), %rcx        # argc
    48ffc9        dec    %rcx
    750f          jne    guard
    6a01          push   $1                    # write(1, rsp, 8)
    58            pop    %rax
    89c7          mov    %eax, %edi
    4889e6        mov    %rsp, %rsi
    6a08          push   $8
    5a            pop    %rdx
    0f05          syscall
    ebcd          jmp    wait
                guard:
    8b4c2404      mov    4(%rsp), %ecx         # status
    e3c7          jrcxz  wait
    488b7c2420    mov    32(%rsp), %rdi        # execve(argv[1], argv + 1, envp)
    488d742420    lea    32(%rsp), %rsi
    488b542410    mov    16(%rsp), %rdx
    488d54d420    lea    32(%rsp,%rdx,8), %rdx
    6a3b          push   $59
    58            pop    %rax
    0f05          syscall
                done:                          # exit(0)
    6a3c          push   $60
    58            pop    %rax
    31ff          xor    %edi, %edi
    0f05          syscall
"""
AARCH64 = """
    ff4300d1      sub    sp, sp, #16
                wait:                          # wait4(-1, sp + 4, 0, 0)
    00008092      mov    x0, #-1
    e1130091      add    x1, sp, #4
    020080d2      mov    x2, #0
    030080d2      mov    x3, #0
    882080d2      mov    x8, #260
    010000d4      svc    #0
    4002f837      tbnz   w0, #31, done
    e00300b9      str    w0, [sp]
    e90b40f9      ldr    x9, [sp, #16]         # argc
    3f0500f1      cmp    x9, #1
    e1000054      b.ne   guard
    200080d2      mov    x0, #1                # write(1, sp, 8)
    e1030091      mov    x1, sp
    020180d2      mov    x2, #8
    080880d2      mov    x8, #64
    010000d4      svc    #0
    f0ffff17      b      wait
                guard:
    ea0740b9      ldr    w10, [sp, #4]         # status
    cafdff34      cbz    w10, wait
    e01340f9      ldr    x0, [sp, #32]         # execve(argv[1], argv + 1, envp)
    e1830091      add    x1, sp, #32
    220c098b      add    x2, x1, x9, lsl #3
    a81b80d2      mov    x8, #221
    010000d4      svc    #0
                done:                          # exit(0)
    000080d2      mov    x0, #0
    a80b80d2      mov    x8, #93
    010000d4      svc    #0
"""
PROGRAMS = {"x86_64": (62, X86_64), "aarch64": (183, AARCH64)}
"""By machine: its number in an ELF header, and the code as an assembler lists it."""


def write_program() -> int:
    """A descriptor from which the program can be run; -1 where it cannot be."""
    machine = os.uname().machine
    if machine not in PROGRAMS or not hasattr(os, "memfd_create"):
        return -1
    for flags in (MFD_CLOEXEC | MFD_EXEC, MFD_CLOEXEC):  # before Linux 6.3 there was no need to say that it is to run
        try:
            fd = os.memfd_create(NAME, flags)
        except OSError:
            continue
        os.write(fd, link(*PROGRAMS[machine]))
        os.fchmod(fd, EXECUTE_ONLY)
        return fd
    return -1


def link(machine: int, listing: str) -> bytes:
    """The ELF file: its header, one segment to be read and run, the code."""
    code = read_listing(listing)
    size, entry, ident = HEADERS + len(code), LOAD_AT + HEADERS, b"\x7fELF\2\1\1"
    head = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, machine, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, LOAD_AT, LOAD_AT, size, size, 0x1000) + code


def read_listing(listing: str) -> bytes:
    """The bytes of a listing; lines with a label have none."""
    return b"".join(bytes.fromhex(line.split()[0]) for line in listing.splitlines() if line[4:5].strip())
