"""One worker: a pytest session that collects and runs the files it is handed, and tells what became of each test.

Session fixtures live as long as the worker. It speaks with the runner in lines of JSON over two pipes.
"""

import gc
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import collect_one_node

Message = dict[str, Any]


class Line:
    """The two pipes to the runner."""

    def __init__(self, reading: int, writing: int) -> None:
        os.set_inheritable(reading, False)
        os.set_inheritable(writing, False)
        self._reader = os.fdopen(reading, "r")
        self._writing = writing

    def tell(self, event: str, **said: Any) -> None:
        data = json.dumps({"event": event, **said}).encode() + b"\n"
        while data:
            data = data[os.write(self._writing, data) :]

    def ask(self, event: str, **said: Any) -> Message:
        """Tell, and wait for the answer; a runner that is gone wants nothing more."""
        self.tell(event, **said)
        answer: Message = json.loads(self._reader.readline() or "{}")
        return answer


LINE: list[Line] = []
"""The line of this process, where it is a worker."""


def borrow_engine(name: str) -> int | None:
    """The port of the engine that all workers share; none where this is no worker."""
    return int(LINE[0].ask("engine", name=name)["port"]) if LINE else None


def worker_number() -> int:
    """Which worker this is; 0 where there are none."""
    return int(os.environ.get("TOOLCRIB_TEST_WORKER", "0"))


class Worker:
    """The pytest plugin."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._nodes: dict[Path, list[pytest.Collector]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        """Nothing is collected before it is handed out."""
        self._root: pytest.Collector = session.ihook.pytest_collect_directory(
            path=session.config.rootpath, parent=session
        )
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        queue: deque[tuple[str, pytest.Item]] = deque()
        is_more = True
        while queue or is_more:
            while is_more and len(queue) < 2:
                is_more = self._take_on(session, queue)
            if queue:
                self._run_first(queue)
        return True

    def _take_on(self, session: pytest.Session, queue: "deque[tuple[str, pytest.Item]]") -> bool:
        """Ask for a file and collect it; false where there is none."""
        asked = self._line.ask("ready")
        if not (path := asked.get("path")):
            return False
        only, without = asked["only"], set(asked["without"])
        gc.disable()  # a finalizer that runs while a file is parsed makes Python 3.11 lose count of the parser's depth
        try:
            items = list(self._collect(session, Path(session.config.rootpath / path)))
        finally:
            gc.enable()
        session.config.hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
        session.items = items
        chosen = [item for item in items if item.nodeid not in without and (not only or item.nodeid in only)]
        self._line.tell("collected", path=path, count=len(chosen))
        if not chosen:
            self._tell_done(path)
        queue.extend((path, item) for item in chosen)
        return True

    def _run_first(self, queue: "deque[tuple[str, pytest.Item]]") -> None:
        path, item = queue.popleft()
        following = queue[0][1] if queue else None
        self._line.tell("start", path=path, id=item.nodeid)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if not queue or queue[0][0] != path:
            self._tell_done(path)

    def _tell_done(self, path: str) -> None:
        """Wait until it was seen what the file left: what the next one starts must not be taken for it."""
        self._line.ask("done", path=path, kept=_kept(), launchers=_launchers())

    def _collect(self, session: pytest.Session, path: Path) -> Iterator[pytest.Item]:
        """The tests of a file, by way of the nodes of its folders."""
        node = self._root
        for part in [*reversed(path.parents), path]:
            if part.is_relative_to(self._root.path) and part != self._root.path:
                node = next(child for child in self._children(node) if child.path == part)
        return session.genitems(node)

    def _children(self, folder: pytest.Collector) -> list[pytest.Collector]:
        """Collected once: the fixtures of a conftest belong to the node of its folder."""
        if folder.path not in self._nodes:
            report = collect_one_node(folder)
            if report.failed:
                self._tell_report(report, "collect")
            self._nodes[folder.path] = list(report.result)
        return self._nodes[folder.path]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell_report(report, "collect")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tell_report(report, report.when)

    def _tell_report(self, report: "pytest.TestReport | pytest.CollectReport", when: str) -> None:
        is_bad = report.failed
        sections = [f"--- {title}\n{text}" for title, text in report.sections] if is_bad else []
        text = "\n".join([report.longreprtext, *sections]) if is_bad else ""
        was_expected = hasattr(report, "wasxfail")
        outcome = "passed" if was_expected and not is_bad else report.outcome
        self._line.tell("report", id=report.nodeid, when=when, outcome=outcome, text=text[-20_000:])


def _kept() -> list[int]:
    """The programs of fixtures that live on."""
    from tests.fleet.running import UNDER_WAY

    return [process.pid for process in UNDER_WAY]


def _launchers() -> list[int]:
    """The processes whose children are ours."""
    from tests.fleet.launcher import launcher_pids

    return launcher_pids()


def main(reading: str, writing: str, *options: str) -> int:
    LINE.append(Line(int(reading), int(writing)))
    LINE[0].tell("hello", pid=os.getpid())
    return int(pytest.main(list(options), plugins=[Worker(LINE[0])]))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    # The module of this name, not ``__main__``, is what fixtures import.
    from tests.running import worker

    raise SystemExit(worker.main(*sys.argv[1:]))
