"""Commands that fetch what they run: recognised, given their turn and their time, and mended."""

import asyncio
from pathlib import Path

import pytest

from toolcrib.sources.mcp.installing import (
    MANAGERS,
    Fetch,
    Install,
    InstallLimits,
    InstallQueue,
    fetch_of,
    find_damage,
    is_server_there,
    remove_entry,
)
from toolcrib.sources.mcp.link import ExitTrace
from toolcrib.transports.process.activity import TreeLook

ENV = {"HOME": "/home/ada"}
MISSING = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/_npx/y/index.js"


@pytest.mark.parametrize(
    ("command", "manager", "package"),
    [
        ("npx -y @scope/server-memory --flag x", "npm", "@scope/server-memory"),
        ("/usr/bin/npx --yes --package=@scope/two two-bin", "npm", "@scope/two"),
        ("npm exec -y -- server@1.2", "npm", "server@1.2"),
        ("pnpm dlx server", "pnpm", "server"),
        ("yarn dlx server", "yarn", "server"),
        ("bunx server", "bun", "server"),
        ("uvx --python 3.12 mcp-server-time --zone UTC", "uv", "mcp-server-time"),
        ("uvx --from mcp-server-git==1.0 git-server", "uv", "mcp-server-git==1.0"),
        ("uv tool run mcp-server-time", "uv", "mcp-server-time"),
        ("pipx run mcp-server-time", "pipx", "mcp-server-time"),
        ("docker run -i --rm -e KEY mcp/github", "docker", "mcp/github"),
        ("podman run -i mcp/github", "podman", "mcp/github"),
        ("go run example.org/server@latest", "go", "example.org/server@latest"),
        ("dnx Some.Server --yes", "dotnet", "Some.Server"),
        ("cmd /c npx -y server", "npm", "server"),
        ("env A=1 npx -y server", "npm", "server"),
    ],
)
def test_commands_that_fetch_are_recognised(command, manager, package):
    """With the package they fetch."""
    found = fetch_of(command.split(), ENV)

    assert found is not None
    assert (found.manager.name, found.package) == (manager, package)


def test_a_plain_script_of_a_shell_is_looked_into():
    """One that does anything else is not."""
    found = fetch_of(["sh", "-c", "exec npx -y server"], ENV)

    assert found is not None
    assert found.package == "server"
    assert fetch_of(["sh", "-c", "npx -y server | tee log"], ENV) is None


@pytest.mark.parametrize("command", ["", "python -m server", "node server.js", "docker exec x y", "uv run x", "npm"])
def test_other_commands_fetch_nothing(command):
    """They have no such phase."""
    assert fetch_of(command.split(), ENV) is None


def test_what_npm_keeps_is_found_where_npm_puts_it():
    """By the digest of the names, in the cache that is configured."""
    found = fetch_of(["npx", "-y", "@modelcontextprotocol/server-memory"], {"npm_config_cache": "/c"})

    assert found is not None
    assert found.entry == Path("/c/_npx/15b07286cbcc3329")


class Patience:
    """Notes when a limit is put off."""

    def __init__(self) -> None:
        self.is_held = False

    def hold(self) -> None:
        self.is_held = True

    def release(self) -> None:
        self.is_held = False


class StartingLink:
    """A link whose server has not spoken yet."""

    def __init__(self) -> None:
        self.trace = ExitTrace(pid=1)

    def remains(self) -> ExitTrace:
        return self.trace


class Bench:
    """An install whose process tree does what a test says."""

    def __init__(self, argv: str = "npx -y server", *, quiet_s: float = 300.0) -> None:
        fetch = fetch_of(argv.split(), {"HOME": "/nowhere"})
        assert fetch is not None
        self.looks: list[TreeLook | None] = []
        self.told: list[str] = []
        self.looked = asyncio.Event()
        self.patience, self.link = Patience(), StartingLink()
        self.queue = InstallQueue(limits=InstallLimits(0.0, quiet_s, self._look))
        self.install = Install(fetch, self.queue, self.patience, self.told.append)

    def _look(self, pid: int) -> TreeLook | None:
        self.looked.set()
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def watch(self) -> None:
        """Begin, and return once it was looked at."""
        await self.install.begin(is_cold=True)
        self.install.watch(self.link)  # type: ignore[arg-type]
        await self.looked.wait()

    async def until(self, is_held: bool) -> None:
        """Return once the limit is put off, or counts."""
        while self.patience.is_held is not is_held:
            await asyncio.sleep(0)


def look(*commands: str, work: int = 0, tasks: tuple[str, ...] = ()) -> TreeLook:
    """A tree of these commands."""
    return TreeLook(frozenset({(1, str(work).encode(), b"")}), ("npm exec server", *commands), frozenset(tasks))


async def test_the_limit_does_not_count_while_it_fetches_and_counts_once_the_server_runs():
    """npm says which of its processes is the server."""
    bench = Bench()
    bench.looks = [look(work=n) for n in range(5)] + [look("sh -c server", tasks=("npx",))]
    await bench.watch()
    await bench.until(True)
    await bench.until(False)

    assert bench.told[-2:] == ["npx fetches server", ""]
    await bench.install.close()


async def test_scripts_of_packages_are_part_of_the_install():
    """They run below npm, too, and from the same directory."""
    npm = next(manager for manager in MANAGERS if manager.words == ("npx",))

    assert not is_server_there(npm, look("node /h/.npm/_npx/x/node_modules/esbuild/install.js", tasks=("postinstall",)))
    assert is_server_there(npm, look("sh -c server", tasks=("npx",)))


async def test_a_word_of_the_server_ends_the_install():
    """Whatever the processes look like."""
    bench = Bench()
    bench.looks = [look()]
    await bench.watch()
    await bench.until(True)
    bench.link.trace = ExitTrace(pid=1, heard_at=5.0)
    await bench.until(False)
    await bench.install.close()


async def test_when_nothing_moves_any_more_the_limit_counts_again():
    """A ceiling for what hangs; as long as anything moves there is none."""
    bench = Bench(quiet_s=0.0)
    bench.looks = [look()]
    await bench.install.begin(is_cold=True)
    bench.install.watch(bench.link)  # type: ignore[arg-type]
    await bench.until(False)

    assert bench.told[-1] == ""
    await bench.install.close()


async def test_docker_installs_only_when_it_says_so():
    """An image that is there is run at once."""
    bench = Bench("docker run -i mcp/time")
    bench.looks = [look()]
    await bench.watch()
    assert not bench.patience.is_held
    bench.link.trace = ExitTrace(pid=1, stderr=["Unable to find image 'mcp/time:latest' locally"])
    await bench.until(True)
    await bench.install.close()


async def test_cold_installs_of_one_manager_come_one_after_the_other():
    """Whoever waits says for whom; another manager does not wait."""
    queue, told = InstallQueue(), []
    first, second, other = (fetch_of(words.split(), ENV) for words in ("npx a", "npx b", "uvx c"))
    assert isinstance(first, Fetch)
    assert isinstance(second, Fetch)
    assert isinstance(other, Fetch)
    let_go = await queue.take(first, told.append)
    waiting = asyncio.ensure_future(queue.take(second, told.append))
    (await queue.take(other, told.append))()
    await asyncio.sleep(0)

    assert (waiting.done(), told) == (False, ["waits: npx fetches a first"])
    let_go()
    (await waiting)()


async def test_toolcribs_of_one_user_wait_for_each_other(tmp_path):
    """By a file in the user's own directory."""
    mine, told = InstallQueue(tmp_path / "locks", InstallLimits(0.0)), []
    others = InstallQueue(tmp_path / "locks", InstallLimits(0.0))
    fetch = fetch_of(["npx", "a"], ENV)
    assert fetch is not None
    let_go = await others.take(fetch, told.append)
    waiting = asyncio.ensure_future(mine.take(fetch, told.append))
    while not told:
        await asyncio.sleep(0)

    assert (waiting.done(), told[0]) == (False, "waits: another toolcrib uses npm first")
    let_go()
    (await waiting)()


def damaged(tmp_path: Path) -> Fetch:
    """A command whose entry in npm's cache is there."""
    fetch = fetch_of(["npx", "-y", "server"], {"npm_config_cache": str(tmp_path)})
    assert fetch is not None
    assert fetch.entry is not None
    (fetch.entry / "node_modules").mkdir(parents=True)
    return fetch


@pytest.mark.parametrize(
    "words", [MISSING, "npm error ENOTEMPTY: directory not empty", "sh: 1: server: not found", "Cannot find module 'x'"]
)
def test_a_damaged_entry_is_known_by_the_last_words(tmp_path, words):
    """And it is the one of this very command."""
    fetch = damaged(tmp_path)

    found = find_damage(fetch, ["npm warn", words])

    assert found is not None
    assert found.parts == (fetch.entry,)
    assert find_damage(fetch, ["ValueError: no key"]) is None


def test_nothing_but_the_entry_of_the_command_is_removed(tmp_path):
    """Whatever a server says of other directories."""
    fetch = damaged(tmp_path)
    neighbour = tmp_path / "_npx" / "0123456789abcdef"
    neighbour.mkdir()
    found = find_damage(fetch, [f"Cannot find module '{neighbour}/x.js'"])
    assert found is not None
    remove_entry(*found.parts)

    assert [path.name for path in (tmp_path / "_npx").iterdir()] == [neighbour.name]


def test_a_link_in_the_place_of_an_entry_is_left_alone(tmp_path):
    """It leads to what is not ours."""
    fetch = damaged(tmp_path)
    assert fetch.entry is not None
    remove_entry(fetch.entry)
    (tmp_path / "precious").mkdir()
    fetch.entry.symlink_to(tmp_path / "precious")

    assert find_damage(fetch, [MISSING]) is None


def uv_cache(place: Path) -> tuple[Path, Path]:
    """What uv keeps of a command: the environment it made, with a second package in it; and of another command."""
    made, other = (place / "archive-v0" / name for name in ("made", "other"))
    for environment, packages in ((made, ("our_server", "lib_two")), (other, ("other_server",))):
        for package in packages:
            info = environment / "lib/python3.11/site-packages" / f"{package}-1.0.dist-info"
            info.mkdir(parents=True)
            (info / "RECORD").write_text(f"{package}/__init__.py,,\n")
            (place / "wheels-v7/index/0" / package.replace("_", "-")).mkdir(parents=True)
        (environment / "pyvenv.cfg").touch()
        (environment / "bin").mkdir()
        link = place / "environments-v2" / "0" / environment.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(environment)
    (other / "bin" / "other-server").touch()
    (made / "bin" / "our-server").touch()
    return made, other


@pytest.mark.parametrize(
    ("words", "brought_by"),
    [
        ("File '{made}/lib/x.py'\nModuleNotFoundError: No module named 'lib_two.part'", {"our-server", "lib-two"}),
        ("File '{made}/lib/python3.11/site-packages/lib_two/a.py'\nSyntaxError: ?", {"our-server", "lib-two"}),
        ("File '{made}/bin/our-server'\nModuleNotFoundError: No module named 'our_server'", {"our-server"}),
        ("error: Failed to spawn: `our-server`", {"our-server"}),
    ],
)
def test_a_damaged_environment_of_uv_goes_with_the_package_that_is_broken(tmp_path, words, brought_by):
    made, _ = uv_cache(tmp_path)
    if "spawn" in words:
        (made / "bin" / "our-server").unlink()
    fetch = fetch_of(["uvx", "Our.Server==1.0"] if "spawn" not in words else ["uvx", "our-server"], uv_env(tmp_path))
    found = find_damage(fetch, words.format(made=made).splitlines())

    assert found is not None
    assert found.parts[0] == made
    assert {part.name for part in found.parts[1:]} == brought_by


def uv_env(place: Path) -> dict[str, str]:
    return {"UV_CACHE_DIR": str(place)}


@pytest.mark.parametrize(
    "words",
    [
        "ModuleNotFoundError: No module named 'our_server'",
        "File '{other}/x.py'\nValueError: no key",
        "File '/home/ada/archive-v0/x/a.py'\nModuleNotFoundError: No module named 'x'",
    ],
)
def test_what_does_not_speak_of_an_environment_of_uv_damages_none(tmp_path, words):
    _, other = uv_cache(tmp_path)
    fetch = fetch_of(["uvx", "our-server"], uv_env(tmp_path))

    assert find_damage(fetch, words.format(other=other).splitlines()) is None


def test_an_environment_that_leads_out_of_the_cache_is_left_alone(tmp_path):
    made, _ = uv_cache(tmp_path / "cache")
    precious = made.rename(tmp_path / "made")
    made.symlink_to(precious)
    words = [f"File '{precious}/x.py'", "ModuleNotFoundError: No module named 'lib_two'"]

    assert find_damage(fetch_of(["uvx", "our-server"], uv_env(tmp_path / "cache")), words) is None


def test_uv_keeps_what_it_fetched_where_it_is_told_to():
    places = [
        fetch_of(words.split(), env).cache
        for words, env in (
            ("uvx --cache-dir /a x", {"UV_CACHE_DIR": "/b"}),
            ("uv tool run x", {"UV_CACHE_DIR": "/b", "HOME": "/h"}),
            ("uvx x", {"XDG_CACHE_HOME": "/c", "HOME": "/h"}),
            ("uvx x", {"HOME": "/h"}),
        )
    ]

    assert places == [Path("/a"), Path("/b"), Path("/c/uv"), Path("/h/.cache/uv")]
