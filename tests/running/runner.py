"""Hands out files of tests to workers until all are done.

A worker that says nothing for too long is ended with everything it started, its test is named, and another goes on.
"""

import contextlib
import itertools
import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.fleet import engines
from tests.running.crew import Bounds, Message, Task, WorkerProcess, start_worker
from tests.running.tally import Tally

TICK_S = 0.5


class SharedEngines:
    """The engines that all workers share, each started when the first asks for it."""

    def __init__(self, life: contextlib.ExitStack) -> None:
        self._life = life
        self._ports: dict[str, int] = {}

    def port_of(self, name: str) -> int:
        if name not in self._ports:
            self._ports[name] = self._life.enter_context(ENGINES[name]()).port
        return self._ports[name]


ENGINES: dict[str, Callable[[], "contextlib.AbstractContextManager[engines.Postgres | engines.Redis]"]] = {
    "postgres": engines.a_postgres,
    "redis": engines.a_redis,
    "valkey": lambda: engines.a_redis(engines.valkey_program()),
}


class Runner:
    """Hands out files until all are done."""

    def __init__(self, tasks: Sequence[Task], scratch: Path, shared: SharedEngines, bounds: Bounds) -> None:
        self._tasks = deque(tasks)
        self._homes: dict[str, int] = {}
        """Which worker runs the files of one kin."""
        self._bounds = bounds
        self._scratch = scratch
        self._shared = shared
        self._workers: list[WorkerProcess] = []
        self._selector = selectors.DefaultSelector()
        self._cpu_s = 0.0
        self._numbers = itertools.count()
        self.tally = Tally(len(tasks))
        self._answers: dict[str, Callable[[WorkerProcess, Message], None]] = {
            "hello": self._hear_hello,
            "ready": self._hear_ready,
            "engine": self._hear_engine,
            "collected": lambda worker, said: None,
            "start": self._hear_start,
            "report": lambda worker, said: self.tally.note(said),
            "done": self._hear_done,
        }

    def run(self, count: int) -> float:
        """Run all; returns the seconds of CPU it took."""
        for _ in range(min(count, len(self._tasks))):
            self._add_worker()
        try:
            while self._workers:
                for key, _ in self._selector.select(TICK_S):
                    self._hear(key.data)
                self._look_after()
        finally:
            for worker in list(self._workers):
                self._lose(worker)
        return self._cpu_s

    def _add_worker(self) -> None:
        worker = start_worker(next(self._numbers), self._bounds, self._scratch, environment(self._scratch))
        self._workers.append(worker)
        self._selector.register(worker.reading, selectors.EVENT_READ, worker)

    def _hear(self, worker: WorkerProcess) -> None:
        messages = worker.messages()
        if messages is None:
            self._bury(worker)
            return
        for said in messages:
            self._answers[said["event"]](worker, said)

    def _hear_hello(self, worker: WorkerProcess, said: Message) -> None:
        worker.pid = said["pid"]

    def _hear_ready(self, worker: WorkerProcess, said: Message) -> None:
        task = self._next_for(worker)
        if task is None:
            worker.answer()
            return
        self._tasks.remove(task)
        worker.given[task.path] = task
        worker.answer(path=task.path, only=task.only, without=task.without)

    def _next_for(self, worker: WorkerProcess) -> Task | None:
        """The first file that no other worker must run; one whose kin this worker has run before all others."""
        free = [task for task in self._tasks if self._homes.get(task.kin, worker.number) == worker.number]
        task = next((task for task in free if task.kin in self._homes), free[0] if free else None)
        if task is not None and task.kin:
            self._homes[task.kin] = worker.number
        return task

    def _hear_engine(self, worker: WorkerProcess, said: Message) -> None:
        worker.answer(port=self._shared.port_of(said["name"]))

    def _hear_start(self, worker: WorkerProcess, said: Message) -> None:
        worker.test = said["id"]
        worker.finished.setdefault(said["path"], []).append(said["id"])

    def _hear_done(self, worker: WorkerProcess, said: Message) -> None:
        path = said["path"]
        worker.given.pop(path, None)
        worker.finished.pop(path, None)
        self.tally.note_file(path, *worker.lap())
        worker.look_for_strays(path, said["kept"], said["launchers"])
        worker.answer()

    def _look_after(self) -> None:
        self.tally.show([worker.test.partition("::")[0].rpartition("/")[2] for worker in self._workers if worker.test])
        for worker in self._workers:
            self._end_strays(worker)
            if self._bounds.clock() - worker.heard_at > self._bounds.silent_s:
                self.tally.fail(worker.test, f"nothing happened for {self._bounds.silent_s:g} s; its worker was ended")
                worker.end()

    def _end_strays(self, worker: WorkerProcess) -> None:
        for path, command in worker.end_strays(self._bounds.strays_s):
            self.tally.fail(path, f"a process was left behind, and has been ended: {command}")

    def _bury(self, worker: WorkerProcess) -> None:
        """A worker has ended; what it was handed and did not do is done by another."""
        is_early = bool(worker.given)
        if is_early:
            self.tally.fail(worker.test or f"worker {worker.number}", f"its worker ended:\n{tail(worker.log)}")
        for path, task in worker.given.items():
            done = tuple(worker.finished.get(path, ()))
            self._tasks.appendleft(replace(task, without=(*task.without, *done)))
        self._homes = {kin: number for kin, number in self._homes.items() if number != worker.number}
        worker.look_for_strays(worker.test.partition("::")[0])
        while worker.strays:
            self._end_strays(worker)
            time.sleep(TICK_S / 10)
        self._lose(worker)
        if is_early:
            self._add_worker()

    def _lose(self, worker: WorkerProcess) -> None:
        worker.end()
        self._selector.unregister(worker.reading)
        self._workers.remove(worker)
        self._cpu_s += worker.close()


def environment(scratch: Path) -> dict[str, str]:
    """What workers and their programs see: nothing of this user's, and compiled modules are kept."""
    dropped = ("XDG_", "TOOLCRIB_", "PYTHONDONTWRITEBYTECODE", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "TMPDIR": str(scratch), "TOOLCRIB_TEST_RUN": scratch.name}


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]
