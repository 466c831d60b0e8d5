"""Native tools out of modules."""

import asyncio
import sys

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.core.requests import Request
from toolcrib.sources.native.functions import import_tools
from toolcrib.sources.native.modules import NativeModules
from toolcrib.sources.native.source import NativeSource


def test_native_tools_are_found_by_their_path(tmp_path, monkeypatch):
    """All marked ones of a module, or one by its name."""
    (tmp_path / "crib_tools.py").write_text(
        "from toolcrib import tool\n@tool\ndef a(): pass\n@tool\ndef b(): pass\ndef c(): pass\nd = 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert [function.__name__ for function in import_tools("crib_tools")] == ["a", "b"]
    assert [function.__name__ for function in import_tools("crib_tools:c")] == ["c"]
    for path, words in (("crib_tools:d", "has no function 'd'"), ("no_such_module", "cannot import")):
        with pytest.raises(ConfigError, match=words):
            import_tools(path)


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A directory with a configuration, and modules of names that no other test has."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def written(path, *functions, before=""):
    """A module with these tools, each as its name and what it returns."""
    lines = [f"@tool\nasync def {name}() -> str:\n    'Say.'\n    return {answer}\n" for name, answer in functions]
    path.write_text(f"from toolcrib import tool\n{before}\n" + "".join(lines))


async def answers(source):
    names = [shown.name for shown in source.listing.tools]
    return {name: (await source.answer(Request(name, name, {}))).text for name in names}


async def test_a_changed_module_is_taken_in_while_calls_in_the_old_one_end_there(beside):
    """Even where the edit keeps the size and the second; what it imported from beside it follows, too."""
    (beside / "crib_words.py").write_text("WORD = 'old'\n")
    slow = "import asyncio, crib_words\nMAY_GO = asyncio.Event()"
    written(
        beside / "crib_live.py",
        ("say", "crib_words.WORD"),
        ("wait", "await MAY_GO.wait() and crib_words.WORD"),
        before=slow,
    )
    events = []
    modules = NativeModules(["crib_live"], beside, events.append)
    source = NativeSource(modules.load(), emit=events.append)
    modules.attach(source)
    old = sys.modules["crib_live"]
    under_way = asyncio.create_task(source.answer(Request("wait", "wait", {})))
    await asyncio.sleep(0)
    unchanged = modules.has_changed()

    (beside / "crib_words.py").write_text("WORD = 'new'\n")
    written(beside / "crib_live.py", ("say", "crib_words.WORD"), ("more", "'more'"), before=slow)
    noticed, taken = modules.has_changed(), await modules.follow()
    after = await answers(source)
    old.MAY_GO.set()

    assert (unchanged, noticed, taken, modules.has_changed()) == (False, True, True, False)
    assert after == {"say": "new", "more": "more"}
    assert (await under_way).text == "old"
    assert [(event.name, event.level) for event in events] == [("native.applied", "info")]


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("def broken(:\n", "cannot import 'crib_kept': SyntaxError"),
        ("raise SystemExit(3)\n", "cannot import 'crib_kept': SystemExit"),
        ("from toolcrib import tool\n@tool(timeout_s=-1)\ndef say(): pass\n", "timeout_s"),
    ],
)
async def test_an_edit_that_cannot_be_used_leaves_the_tools_as_they_are_and_is_told(beside, edit, told):
    written(beside / "crib_kept.py", ("say", "'old'"))
    events = []
    modules = NativeModules(["crib_kept"], beside, events.append)
    source = NativeSource(modules.load())
    modules.attach(source)
    (beside / "crib_kept.py").write_text(edit)

    assert not await modules.follow()
    assert not modules.has_changed()
    assert await answers(source) == {"say": "old"}
    (rejected,) = events
    assert (rejected.name, rejected.level, rejected.fields["kept"]) == ("native.rejected", "error", "the tools before")
    assert told in rejected.fields["error"]
    written(beside / "crib_kept.py", ("say", "'mended'"))
    assert (await modules.follow(), await answers(source)) == (True, {"say": "mended"})


async def test_another_list_brings_its_tools_and_takes_the_others_away(beside):
    """A tool of another version does not stand beside the one it comes instead of."""
    written(beside / "crib_first.py", ("say", "'first'"))
    (beside / "crib_second.py").write_text(
        "from toolcrib import tool\n@tool(version='0.9')\ndef say() -> str:\n    return 'second'\n"
    )
    modules = NativeModules(["crib_first"], beside)
    source = NativeSource(modules.load())
    modules.attach(source)

    assert await modules.follow(["crib_second"])
    assert await answers(source) == {"say": "second"}
    assert await modules.follow([])
    assert await answers(source) == {}
