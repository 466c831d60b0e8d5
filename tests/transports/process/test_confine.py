"""The sibling of the spawner: limits, directories, and what happens when something cannot be done."""

import os
import resource
from dataclasses import replace

import pytest
from tests.transports.processes import python

from toolcrib.core.errors import SourceUnavailable
from toolcrib.transports.process import confine
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import Confinement, ProcessSpec

LIMITED = Confinement(limits={resource.RLIMIT_NOFILE: 10**9, resource.RLIMIT_CORE: 0})


@pytest.fixture
async def spawner():
    spawner = Spawner()
    yield spawner
    await spawner.close()


def spec(confinement, script="pass"):
    return ProcessSpec(python(script), {"PATH": os.defpath}, None, 0.0, 0.0, confinement)


async def run(spawner, confinement, script="pass"):
    process = await spawner.start(spec(confinement, script))
    report = await process.exited
    await process.gone
    said = process.stdout.read(65536)
    process.close_pipes()
    return report.code, (said or b"").decode().strip()


async def test_a_limit_is_never_raised_above_what_is_allowed(spawner):
    """Asking for more is no error; it stays as it was."""
    script = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    code, said = await run(spawner, LIMITED, script)

    assert (code, said) == (0, f"{hard} {hard}")


async def test_plain_and_confined_servers_start_side_by_side(spawner):
    """From one spawner, in any order."""
    plain = await run(spawner, None, "print(1)")
    confined = await run(spawner, LIMITED, "print(2)")
    again = await run(spawner, None, "print(3)")

    assert [plain, confined, again] == [(0, "1"), (0, "2"), (0, "3")]


async def test_a_private_directory_that_exists_already_is_refused_and_left_alone(spawner, tmp_path):
    """It is somebody else's."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")

    with pytest.raises(SourceUnavailable, match="cannot make its private directory"):
        await spawner.start(spec(replace(LIMITED, private=str(tmp_path / "mine"))))

    assert (tmp_path / "mine" / "file").read_text() == "kept"


async def test_the_private_directory_is_gone_after_a_start_that_failed(spawner, tmp_path):
    """As after one that worked."""
    failing = replace(spec(replace(LIMITED, private=str(tmp_path / "p"))), argv=("/no/such/program",))

    with pytest.raises(SourceUnavailable, match="no such file"):
        await spawner.start(failing)
    await spawner.close()

    assert not (tmp_path / "p").exists()


async def test_bounds_that_the_system_does_not_take_keep_the_server_from_starting(spawner):
    """A filter that is no program: nothing runs without it."""
    with pytest.raises(SourceUnavailable, match="does not take the bounds") as caught:
        await spawner.start(spec(replace(LIMITED, filter=b"\0" * 8)))

    assert "doctor --isolation" in caught.value.hint


async def test_paths_with_odd_characters_arrive_as_they_are(spawner, tmp_path):
    """Newlines, equals signs, colons."""
    odd = tmp_path / "a=b:c\nd"

    code, _ = await run(spawner, replace(LIMITED, private=str(odd)), f"import os; os.stat({str(odd)!r})")

    assert code == 0


def test_a_tree_is_removed_without_following_links(tmp_path):
    """Whatever permissions its owner took away."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "link").symlink_to(tmp_path / "other")
    (tree / "deep").chmod(0)

    confine.remove_tree(os.fsencode(tree))

    assert not tree.exists()
    assert (tmp_path / "other" / "file").exists()
