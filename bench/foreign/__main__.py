"""``python -m bench.foreign [NAME...]``: asks all servers of the list, or those named; prints what was found."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.foreign.asking import Question, ask_all, ask_lists, questions
from bench.foreign.comparing import (
    SHOWN,
    Difference,
    Reason,
    compare,
    is_stable,
    namespaced,
    reasons,
    undone,
    unstable_places,
)
from bench.foreign.installing import ForeignServer, NotInstalledError, install, pinned
from bench.foreign.talking import SilentError, talking

AT_ONCE = 2
CONFIG = """
[catalog]
grace = 90

[servers.{name}]
command = {command}
args = {args}
cwd = {cwd}
discovery_timeout = 90
call_timeout = 30

[servers.{name}.env]
{env}
"""
Told = dict[str, Any]


class Visit:
    """One server, asked four times, each time in the same directory, emptied."""

    def __init__(self, server: ForeignServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.home, self.crib = folder / "home", folder / "toolcrib"
        self.asked: list[Question] = []

    def _fresh(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        (self.home / "note.txt").write_text("A note.\n")

    def _env(self) -> dict[str, str]:
        own = {key: value.format(home=self.home) for key, value in self.server.env.items()}
        return {"HOME": str(self.home), "LANG": "C.UTF-8", "DO_NOT_TRACK": "1", "NO_COLOR": "1", **own}

    def _argv(self) -> list[str]:
        return [part.replace("{home}", str(self.home)) for part in self.server.command()]

    async def directly(self) -> Told:
        """What the server answers to a client of its own."""
        self._fresh()
        async with talking(self._argv(), {"PATH": os.environ["PATH"], **self._env()}, self.home) as talk:
            told = await ask_lists(talk)
            self.asked = self.asked or questions(told, self.server)
            answers = await ask_all(talk, self.asked)
        self.asked = [question for question in self.asked if answers.get(question.label) is not None]
        return {**told, **{label: answer for label, answer in answers.items() if answer is not None}}

    async def through(self, *, is_stateless: bool) -> Told:
        """What it answers to a client of toolcrib, in the names that the server has for things.

        The second time toolcrib knows the server from before: it greets and lists without having asked it.
        """
        self._fresh()
        self.crib.mkdir(exist_ok=True)
        command, *args = self._argv()
        env = "\n".join(f"{key} = {json.dumps(value)}" for key, value in self._env().items())
        values = {"command": json.dumps(command), "args": json.dumps(args), "cwd": json.dumps(str(self.home))}
        config = self.crib / "toolcrib.toml"
        config.write_text(CONFIG.format(name=self.server.name, env=env, **values))
        argv = [sys.executable, "-m", "toolcrib", "stdio", "--alone", "--config", str(config)]
        around = {"PATH": os.environ["PATH"], "HOME": str(self.crib), "LANG": "C.UTF-8"}
        async with talking(argv, around, self.crib, is_stateless=is_stateless) as talk:
            told = await ask_lists(talk)
            answers = await ask_all(talk, [namespaced(question, self.server.name) for question in self.asked])
        return undone({**told, **answers}, self.server.name)


async def visit(server: ForeignServer, known: list[Reason]) -> dict[str, Any]:
    """Everything that came of one server."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-foreign-") as folder:
        asking = Visit(server, Path(folder))
        try:
            await asyncio.to_thread(install, server)
            direct = await asking.directly()
        except (NotInstalledError, SilentError, OSError) as error:
            return {"left_out": f"{error}"[:300]}
        ways = {
            "handshake": await _tried(asking, is_stateless=False),
            "stateless": await _tried(asking, is_stateless=True),
        }
        try:
            again = await asking.directly()
        except SilentError as error:
            return {"left_out": f"the second time: {error}"}
    unstable = unstable_places(compare(direct, again))
    found = [
        _told(way, difference, server.name, known)
        for way, told in ways.items()
        for difference in compare(direct, told)
        if is_stable(difference, unstable)
    ]
    kinds = ("tools", "resources", "resourceTemplates", "prompts")
    counts = {kind: len(direct.get(kind, {}).get("result", {}).get(kind, [])) for kind in kinds}
    return {**counts, "answers": len(asking.asked), "unstable": len(unstable), "differences": found}


async def _tried(asking: Visit, *, is_stateless: bool) -> Told:
    try:
        return await asking.through(is_stateless=is_stateless)
    except SilentError as error:
        return {"capabilities": str(error)}


def _told(way: str, difference: Difference, server: str, known: list[Reason]) -> dict[str, str]:
    reason = next((one.reason for one in known if one.explains(server, way, difference)), "")
    shown = {key: value[:SHOWN] for key, value in asdict(difference).items()}
    return {"way": way, **shown, "at": difference.at, "reason": reason}


async def main(names: list[str]) -> None:
    known = reasons()
    chosen = [server for server in pinned() if not names or server.name in names or server.package in names]
    turn = asyncio.Semaphore(AT_ONCE)

    async def take_turn(server: ForeignServer) -> tuple[str, dict[str, Any]]:
        async with turn:
            found = await visit(server, known)
        print(f"  {server.package}: {_line(found)}", file=sys.stderr, flush=True)
        return server.package, found

    results = dict(await asyncio.gather(*map(take_turn, chosen)))
    used = {one["reason"] for found in results.values() for one in found.get("differences", ())}
    for stale in [] if names else [one for one in known if one.reason not in used]:
        print(f"  nothing differs any more because {stale.reason}", file=sys.stderr, flush=True)
    print(json.dumps(results))


def _line(found: dict[str, Any]) -> str:
    if "left_out" in found:
        return f"left out: {found['left_out']}"
    unlisted = Counter(bool(one["reason"]) for one in found["differences"])
    return f"{found['answers']} answers, {unlisted[True]} differences with a reason, {unlisted[False]} without"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
