"""Paths that want out: whatever is asked of whichever tool, nothing beside the workspace is read or written."""

import asyncio
import contextlib
import ctypes
import os
import socket
import threading

import pytest
from tests.workspace.conftest import CANARY, openers

from toolcrib.core.errors import ToolcribError
from toolcrib.workspace.files import FileTools
from toolcrib.workspace.root import WorkspaceRoot

TIMEOUT_S = 150


def build_traps(work, outside):
    """Links of every kind; some lead out, some stay inside."""
    (work / "file_link").symlink_to(outside / "secret.txt")
    (work / "dir_link").symlink_to(outside)
    (work / "relative_link").symlink_to("../outside/secret.txt")
    (work / "chain_1").symlink_to("chain_2")
    (work / "chain_2").symlink_to("dir_link/secret.txt")
    (work / "dangling").symlink_to(outside / "new.txt")
    (work / "dangling_inside").symlink_to("born.txt")
    (work / "round").symlink_to("round")
    (work / "self").symlink_to("/proc/self")
    (work / "inside_link").symlink_to("a.txt")
    (work / "to_src").symlink_to("src/../src")
    (outside.parent / "work-evil").mkdir()
    (outside.parent / "work-evil" / "secret.txt").write_text(f"{CANARY}\n")


HOSTILE = {
    "traversal": "../outside/secret.txt",
    "deep_traversal": "src/../../outside/secret.txt",
    "many_steps": "../" * 40 + "etc/passwd",
    "absolute": "/etc/passwd",
    "outside": "{outside}/secret.txt",
    "prefix": "{work}-evil/secret.txt",
    "prefix_and_up": "{work}/../work-evil/secret.txt",
    "proc_root": "/proc/self/root/etc/passwd",
    "proc_cwd": "/proc/self/cwd/../outside/secret.txt",
    "proc_link": "self/root{outside}/secret.txt",
    "proc_environ": "self/environ",
    "file_link": "file_link",
    "relative_link": "relative_link",
    "dir_link": "dir_link/secret.txt",
    "link_and_up": "dir_link/../outside/secret.txt",
    "chain": "chain_1",
    "dangling": "dangling",
    "round": "round",
    "zero_byte": "a.txt\0/../../outside/secret.txt",
    "huge": "a/" * 5000 + "secret.txt",
    "long_name": "b" * 3000,
    "file_as_directory": "a.txt/../../outside/secret.txt",
    "dots": ".../.../secret.txt",
    "url": "file://{outside}/secret.txt",
    "home": "~/secret.txt",
    "backslashes": "..\\outside\\secret.txt",
    "half_a_pair": "\udcff/../../outside/secret.txt",
}

USES = {
    "file_read": lambda ws, path: ws.files.read({"path": path}),
    "file_write": lambda ws, path: ws.files.write({"path": path, "content": "pwned"}),
    "file_edit": lambda ws, path: ws.files.edit({"path": path, "old_text": CANARY, "new_text": "pwned"}),
    "file_list": lambda ws, path: ws.lists.list_directory({"path": path, "depth": 5, "hidden": True}),
    "file_find": lambda ws, path: ws.lists.find({"pattern": "**", "path": path, "kind": "any"}),
}


class Workspace:
    def __init__(self, files, lists):
        self.files, self.lists = files, lists


def snapshot(place):
    """Everything below a directory, by name and content; links as what they say."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_symlink():
            found[str(path)] = ("link", os.readlink(path))
        elif path.is_file():
            found[str(path)] = ("file", path.read_bytes())
        else:
            found[str(path)] = ("other", b"")
    return found


@pytest.fixture
def trapped(work, outside, files, lists):
    build_traps(work, outside)
    return Workspace(files, lists)


async def outcome(use):
    """What a tool said, result or error."""
    async with asyncio.timeout(TIMEOUT_S):
        try:
            said = await use
        except ToolcribError as error:
            return str(error)
    return said if isinstance(said, str) else said.text


@pytest.mark.parametrize("tool", USES)
async def test_no_path_leads_out(tool, trapped, work, outside):
    before = snapshot(outside), snapshot(outside.parent / "work-evil")
    for path, written in HOSTILE.items():
        said = await outcome(USES[tool](trapped, written.format(outside=outside, work=work)))

        assert CANARY not in said, path
        assert "root:x:0" not in said, path
        assert (snapshot(outside), snapshot(outside.parent / "work-evil")) == before, path


@pytest.mark.parametrize("tool", ["file_read", "file_list", "file_find"])
async def test_who_wants_out_is_told_so(tool, trapped, work, outside):
    for path in ("traversal", "absolute", "prefix", "proc_root", "file_link", "dir_link", "chain"):
        said = await outcome(USES[tool](trapped, HOSTILE[path].format(outside=outside, work=work)))

        assert "leads out of the workspace" in said, path


async def test_links_that_stay_inside_are_followed(trapped, work):
    await trapped.files.edit({"path": "inside_link", "old_text": "alpha", "new_text": "gamma"})
    await trapped.files.write({"path": "dangling_inside", "content": "born"})

    assert (work / "a.txt").read_text() == "gamma\nbeta\n"
    assert (work / "inside_link").is_symlink()
    assert (work / "born.txt").read_text() == "born"
    assert "def main" in await trapped.files.read({"path": "to_src/b.py"})
    assert "alpha" not in await trapped.files.read({"path": f"{work}/a.txt"})


async def test_walks_do_not_follow_links(trapped, search):
    listed = await trapped.lists.list_directory({"depth": 10, "hidden": True})
    found = await trapped.lists.find({"pattern": "secret*", "kind": "any"})
    searched = await search.search({"pattern": "canary", "hidden": True, "ignored": True})

    assert "dir_link -> " in listed.text
    assert "secret.txt" not in found.text
    assert searched.structured["matches"] == []


async def test_a_search_stays_where_it_is(trapped, search):
    for path in (".", "src", "../outside", "file_link", "dir_link", "dir_link/deep"):
        said = await outcome(search.search({"pattern": "canary|x:0", "path": path, "hidden": True, "ignored": True}))

        assert CANARY not in said, path


SPECIAL = ["pipe", "socket", "zero", "null"]


@pytest.fixture
def special(work):
    os.mkfifo(work / "pipe")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(work / "socket"))
        (work / "zero").symlink_to("/dev/zero")
        with contextlib.suppress(PermissionError):
            os.mknod(work / "null", 0o666 | 0o020000, os.makedev(1, 3))
        yield work


@pytest.mark.parametrize("tool", ["file_read", "file_write", "file_edit"])
@pytest.mark.parametrize("name", SPECIAL)
async def test_what_is_no_ordinary_file_is_left_alone_and_not_waited_for(tool, name, special, files, lists):
    if name == "null" and not (special / name).exists():
        name = "pipe"  # only root makes devices
    said = await outcome(USES[tool](Workspace(files, lists), name))

    assert "no ordinary file" in said or "leads out" in said
    assert not (special / name).is_file()


async def test_a_search_passes_over_what_is_no_ordinary_file(special, search):
    found = await search.search({"pattern": "a", "hidden": True})

    assert {match["path"] for match in found.structured["matches"]} == {"a.txt", "src/b.py"}


OWN = ["toolcrib.toml", "toolcrib.lock", ".mcp.json", "ToolCrib.toml", "src/../toolcrib.toml", "nest/.cursor/mcp.json",
       "ToolingManifest.json", "deep/er/toolingmanifest.JSON", "nest/mcp.json", ".vscode/MCP.json",
       "x/.gemini/settings.json", ".codex/config.toml", "opencode.json", "named/list.json", "named/LIST.json",
       ".git/hooks/pre-commit", "src/.git/config", "git_link/hooks/x", "own_link"]  # fmt: skip


@pytest.mark.parametrize("opener", openers().values(), ids=openers().keys())
async def test_what_decides_which_programs_run_is_not_written(opener, work):
    """At any depth, in any spelling; a manifest that is called otherwise is known by its path."""
    files = FileTools(WorkspaceRoot(work, [work / "named" / "list.json"], opener))
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / "git_link").symlink_to(".git")
    (work / "own_link").symlink_to("toolcrib.toml")
    for path in OWN:
        said = await outcome(files.write({"path": path, "content": "[servers.x]\ncommand = 'sh'"}))

        assert "decides which programs are run" in said, path
        assert not [found for found in work.rglob("*") if found.is_file() and "servers.x" in found.read_text()], path


class Swapper:
    """Puts a directory and a link in each other's place, over and over, each time in one step."""

    def __init__(self, work, outside):
        self._spot, self._other = os.fsencode(work / "swap"), os.fsencode(work / "other")
        (work / "swap").mkdir()
        (work / "swap" / "secret.txt").write_text("harmless\n")
        (work / "other").symlink_to(outside)
        self._stop = threading.Event()
        self.swaps = 0
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        while not self._stop.is_set():
            assert exchange(-100, self._spot, -100, self._other, 2) == 0
            self.swaps += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


RACES = {
    "file_read": lambda ws: ws.files.read({"path": "swap/secret.txt"}),
    "file_write": lambda ws: ws.files.write({"path": "swap/secret.txt", "content": "harmless\n"}),
    "file_write_new": lambda ws: ws.files.write({"path": "swap/new/file.txt", "content": "harmless\n"}),
    "file_edit": lambda ws: ws.files.edit({"path": "swap/secret.txt", "old_text": "-", "new_text": "+", "all": True}),
    "file_list": lambda ws: ws.lists.list_directory({"path": "swap", "depth": 3}),
    "file_list_all": lambda ws: ws.lists.list_directory({"path": ".", "depth": 5}),
    "file_find": lambda ws: ws.lists.find({"pattern": "**/deep*", "kind": "any"}),
}


@pytest.mark.parametrize("tool", RACES)
async def test_swapping_a_directory_for_a_link_gains_nothing(tool, files, lists, work, outside):
    """Hundreds of calls among thousands of swaps: the path changes its meaning between any two steps."""
    before = snapshot(outside)
    with Swapper(work, outside) as swapper:
        said = [await outcome(RACES[tool](Workspace(files, lists))) for _ in range(150)]
        while swapper.swaps < 2000:
            said.append(await outcome(RACES[tool](Workspace(files, lists))))

    assert not [text for text in said if CANARY in text or "deep" in text]
    assert snapshot(outside) == before


async def test_a_search_among_swaps_shows_nothing_from_outside(search, work, outside):
    before = snapshot(outside)
    with Swapper(work, outside):
        said = [await outcome(search.search({"pattern": "canary|harmless"})) for _ in range(4)]

    assert not [text for text in said if CANARY in text]
    assert snapshot(outside) == before
