"""The command line of bubblewrap: namespaces of its own, and of the files only what is granted."""

from dataclasses import dataclass

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
