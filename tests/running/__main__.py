"""Run tests in workers side by side: ``python -m tests.running [quick | failed | PATH...] [--workers N]``.

``weigh`` writes down how long each file took last time, so that other machines begin with the longest.

With any other option it is plain pytest.
Most tests wait for programs, so there are more workers than cores. Each takes the next file when it is done with one.
"""

import argparse
import compileall
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.running.crew import ROOT, Bounds, Task
from tests.running.plan import QUICK_VARIABLE, everything, named, quick, weigh
from tests.running.runner import Runner, SharedEngines
from tests.running.tally import last_failed

USUAL_WORKERS = min(2 * (os.cpu_count() or 2) + 1, 16)
INTERRUPTED = 130
IN_MEMORY = "/dev/shm"
ENOUGH_BYTES = 8_000_000_000


def compile_once() -> None:
    """Every program that a test starts would else compile what it imports anew."""
    with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for folder in ("src", "tests"):
            compileall.compile_dir(ROOT / folder, quiet=2, workers=1)


def _has_room(folder: str) -> bool:
    """A whole run writes some GB."""
    with contextlib.suppress(OSError):
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ENOUGH_BYTES
    return False


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A short path: the address of a Unix socket has room for some hundred characters.

    In memory, where there is plenty: tests wait for the disk a fifth of their time.
    """
    folder = Path(tempfile.mkdtemp(prefix="tc-", dir=IN_MEMORY if _has_room(IN_MEMORY) else None))
    folder.chmod(0o755)  # some tests have programs run by another user
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def chosen(which: Sequence[str]) -> list[Task]:
    """The files to run, the longest first."""
    if not which:
        return everything()
    if list(which) == ["quick"]:
        return quick()
    return named(last_failed() if list(which) == ["failed"] else which)


def main() -> int:
    """Parse the command line, run, and say what became of it."""
    parser = argparse.ArgumentParser(prog="./dev test", description="Run tests in workers side by side.")
    parser.add_argument(
        "which", nargs="*", help="quick, failed, weigh, or paths and ids of tests; all if none is named"
    )
    parser.add_argument("--workers", type=int, default=USUAL_WORKERS)
    options, others = parser.parse_known_args()
    if others:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
    if options.which == ["weigh"]:
        weigh()
        return 0
    if options.which == ["quick"]:
        os.environ[QUICK_VARIABLE] = "1"
    tasks = chosen(options.which)
    if not tasks:
        print("Nothing failed last time." if options.which == ["failed"] else "There are no such tests.")
        return 0 if options.which == ["failed"] else 2
    compile_once()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as life:
        runner = Runner(tasks, life.enter_context(scratch_folder()), SharedEngines(life), Bounds())
        try:
            cpu_s = runner.run(options.workers)
        except KeyboardInterrupt:
            runner.tally.say("interrupted")
            return INTERRUPTED
        return runner.tally.close(cpu_s, is_whole=not any(task.only for task in tasks))


if __name__ == "__main__":
    sys.exit(main())
