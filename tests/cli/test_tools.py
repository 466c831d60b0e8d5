"""Finding and calling tools: ``ls``, ``show``, ``call``, ``why``."""

import base64
import json
import os
import pty
import signal
import subprocess

import pytest
from tests.cli.program import TINY
from tests.fleet.running import until


def test_ls_asks_servers_nobody_has_asked(tiny):
    """The first listing discovers, and remembers; the second one starts nothing."""
    names = [entry["name"] for entry in tiny.json("ls")]
    again = [entry["name"] for entry in tiny.json("ls")]

    own = [f"tiny__{tool}" for tool in ("echo", "fail", "hang", "paint", "picture")]
    assert names == again == ["result_read", *own]
    assert tiny.starts == 1


def test_ls_gives_the_definitions_in_a_providers_form(tiny):
    """For a request to it: nothing else is on stdout."""
    result = tiny.run("ls", "--format", "openai-responses", "--server", "tiny")
    [echo, *_] = json.loads(result.stdout)

    assert (echo["type"], echo["name"], echo["strict"]) == ("function", "tiny__echo", False)
    assert echo["parameters"]["required"] == ["text"]
    assert tiny.run("ls", "--format", "gemni").returncode == 2


def test_ls_names_the_tools_a_provider_would_refuse(tiny, tmp_path):
    """OpenAI takes 128 at once; the rest is said beside, not in, the definitions."""
    crowd = tmp_path / "crowd.py"
    crowd.write_text(TINY.read_text().replace('("fail", "hang", "paint", "picture")', '[f"t{n}" for n in range(130)]'))
    tiny.write(tiny.tiny().replace(str(TINY), str(crowd)))

    result = tiny.run("ls", "--format", "openai", "--server", "tiny")

    assert len(json.loads(result.stdout)) == 128
    assert "tiny__t99 is left out: openai takes at most 128 tools at once." in result.stderr


def test_find_shows_the_tool_for_a_purpose_as_a_line_to_call_it_from(tiny):
    """Servers nobody has asked are asked; the JSON has scores, and nothing that only happens to be there."""
    result = tiny.run("find", "give", "my", "arguments", "back")
    found = tiny.json("find", "give my arguments back", "--limit", "2")

    assert result.stdout.splitlines()[0] == ("tiny__echo(text: str, times?: int, extra?: {}) - Give the arguments back")
    assert [(entry["name"], 0.4 < entry["score"] <= 1) for entry in found] == [("tiny__echo", True)]


PROFILE = """
[profiles.small]
tools = ["tiny__echo", "tiny__fail"]

[profiles.small.change.tiny__echo]
name = "shout"
fixed = { times = 3 }
"""


def test_a_profile_is_listed_searched_called_and_explained(tiny):
    """By the names it shows, and with what it fills in."""
    tiny.write(tiny.tiny(), PROFILE)

    assert [entry["name"] for entry in tiny.json("ls", "--profile", "small")] == ["result_read", "shout", "tiny__fail"]
    assert tiny.json("find", "give back arguments", "--profile", "small")[0]["signature"].startswith("shout(text: str")
    assert json.loads(tiny.run("call", "shout", "text=hi", "--profile", "small").stdout) == {"text": "hi", "times": 3}
    assert tiny.run("call", "tiny__picture", "--profile", "small").returncode == 7
    assert tiny.json("why", "tiny__picture", "--profile", "small")["reasons"] == [
        "Profile 'small' leaves it out: no pattern of its tools fits."
    ]
    unknown = tiny.run("ls", "--profile", "smal")
    assert (unknown.returncode, "Did you mean 'small'" in unknown.stderr) == (1, True)


def test_find_says_when_nothing_fits(tiny):
    """With its own exit code, and nothing on stdout; a limit nobody can mean is refused."""
    result = tiny.run("find", "xyzzy")

    assert (result.returncode, result.stdout) == (7, "")
    assert "Nothing seems to do that" in result.stderr
    assert tiny.run("find", "x", "--limit", "0").returncode == 2


def test_ls_cached_starts_nothing(tiny):
    """``--cached`` only reads what is known."""
    result = tiny.run("ls", "--cached")

    assert (result.returncode, "tiny" in result.stdout, tiny.starts) == (0, False, 0)
    assert "toolcrib servers refresh tiny" in result.stderr


def test_an_entry_of_ls_says_where_the_tool_comes_from(tiny):
    """Name, description, kind, policy, discovery status and time: what a program needs to show a catalogue."""
    tiny.write(tiny.tiny(more='[servers.tiny.tools.echo]\npolicy = "ask"'))

    entry = tiny.json("ls", "--server", "tiny")[0]

    asked, tokens = entry.pop("lastDiscovered"), entry.pop("tokens")
    assert asked.endswith("Z")
    assert tokens > 10
    assert entry == {
        "name": "tiny__echo",
        "description": "Give the arguments back.\nAs JSON.",
        "kind": "mcp",
        "server": "tiny",
        "originalName": "echo",
        "policy": "ask",
        "level": "read_only",
        "held": None,
        "discoveryStatus": "success",
    }


def test_ls_shows_the_rest_when_one_server_is_broken(tiny):
    """One bad server costs its own tools only, and is named on stderr."""
    tiny.write(tiny.tiny(), tiny.broken())

    result = tiny.run("ls")

    assert result.returncode == 0
    assert "tiny__echo" in result.stdout
    assert "'broken'" in result.stderr
    assert "no luck today" in result.stderr


def test_ls_of_a_broken_server_is_unreachable(toolcrib):
    """Asked for that server alone, there is nothing to show."""
    toolcrib.write(toolcrib.broken())

    assert toolcrib.run("ls", "--server", "broken").returncode == 4


def test_ls_of_an_unknown_server_suggests(tiny):
    """Exit code 7, and the nearest server."""
    result = tiny.run("ls", "--server", "tinny")

    assert (result.returncode, result.stdout) == (7, "")
    assert "Did you mean 'tiny'?" in result.stderr


def test_show_tells_what_a_tool_takes(tiny):
    """Parameters with type, need and default, and a call to copy."""
    shown = tiny.run("show", "tiny__echo").stdout

    rows = [line.split() for line in shown.splitlines()]
    assert ["text", "string", "required", "what", "to", "say"] in rows
    assert ["times", "integer", "default", "1"] in rows
    assert "toolcrib call tiny__echo 'text=…'" in shown


def test_show_json_is_the_definition_clients_get(tiny):
    """The MCP definition under its exposed name."""
    definition = tiny.json("show", "tiny__echo")

    assert definition["name"] == "tiny__echo"
    assert definition["inputSchema"]["required"] == ["text"]


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["text=5", "times=3"], {"text": "5", "times": 3}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=x", 'extra={"a": 1}'], {"text": "x", "extra": {"a": 1}}),
        (["text=@note.txt", "times:=2"], {"text": "from a file", "times": 2}),
        (["--input-json", '{"text": "all", "times": 1}', "times=9"], {"text": "all", "times": 9}),
        (["--input-json", "@all.json"], {"text": "filed"}),
    ],
)
def test_call_reads_arguments_as_the_schema_wants_them(tiny, words, arguments):
    """Text stays text where the tool wants text; everything else is JSON if it is JSON."""
    (tiny.project / "note.txt").write_text("from a file")
    (tiny.project / "all.json").write_text('{"text": "filed"}')

    result = tiny.run("call", "tiny__echo", *words)

    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == arguments


def test_call_reads_arguments_from_stdin(tiny):
    """``--input-json -`` takes the whole object from a pipe."""
    result = tiny.run("call", "tiny__echo", "--input-json", "-", stdin='{"text": "piped"}')

    assert json.loads(result.stdout)["text"] == "piped"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["tiny__fail"], 5, "it went wrong"),
        (["tiny__ehco", "text=x"], 7, "Did you mean 'tiny__echo'"),
        (["calculate"], 7, "No tool named 'calculate'"),
        (["tiny__echo"], 2, "text"),
        (["tiny__echo", "text"], 2, "key=value"),
        (["tiny__echo", "text:=oops"], 2, "not JSON"),
        (["tiny__echo", "text=@missing"], 1, "no file"),
        (["tiny__hang", "--timeout", "0.2"], 4, "0.2"),
        (["broken__any"], 4, "no luck today"),
    ],
)
def test_a_failed_call_says_why_and_how(tiny, words, code, complaint):
    """The exit code tells the kind, stderr the reason, stdout nothing."""
    tiny.write(tiny.tiny(), tiny.broken())

    result = tiny.run("call", *words)

    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert complaint in result.stderr


def test_a_failed_call_as_json_is_still_a_result(tiny):
    """``--json`` prints the whole result, also when the tool failed."""
    result = tiny.run("call", "tiny__fail", "--json")

    shown = json.loads(result.stdout)
    assert result.returncode == 5
    assert (shown["success"], shown["error"]["code"]) == (False, "TOOL_EXECUTION_FAILED")


def test_a_picture_is_named_not_printed(tiny):
    """A terminal is no place for a PNG; its kind and size are."""
    assert tiny.run("call", "tiny__picture").stdout == "[image/png 12 kB, use --json or --save DIR]\n"


def test_a_picture_can_be_saved(tiny):
    """``--save DIR`` writes it to a file and prints the file's name."""
    result = tiny.run("call", "tiny__picture", "--save", "pictures")

    assert result.stdout == "pictures/tiny__picture-1.png\n"
    assert (tiny.project / "pictures" / "tiny__picture-1.png").read_bytes() == b"x" * 12_000
    assert base64.b64decode(tiny.json("call", "tiny__picture")["content"][0]["data"]) == b"x" * 12_000


def test_a_tool_cannot_play_with_the_terminal(tiny):
    """Control characters of an answer reach a pipe as they are, and a terminal never."""
    piped = tiny.run("call", "tiny__paint").stdout
    terminal, side = pty.openpty()
    process = tiny.start("call", "tiny__paint", stdout=side, stderr=subprocess.PIPE)
    os.close(side)
    process.wait(150)

    shown = os.read(terminal, 65_536)
    assert "\x1b]0;owned" in piped
    assert b"red words" in shown
    assert not {b"\x1b", b"\x9b", "\x9b".encode(), b"\x07"} & {
        shown[i : i + n] for i in range(len(shown)) for n in (1, 2)
    }


def test_an_interrupted_call_leaves_with_130(tiny):
    """Ctrl-C ends the call, quietly and at once."""
    process = tiny.start("call", "tiny__hang", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: tiny.has_noted("called hang"), deadline_s=150, what="the call")

    process.send_signal(signal.SIGINT)

    assert (process.communicate(timeout=150), process.returncode) == ((b"", b""), 130)


def test_why_knows_the_story_of_each_name(tiny):
    """Here, missing, hidden, disabled, not asked yet: each has its word, and nothing is started."""
    tiny.write(
        tiny.tiny(more="[servers.tiny.tools.fail]\nenabled = false"),
        tiny.tiny("resting", "enabled = false"),
        tiny.tiny("unasked"),
    )
    tiny.run("servers", "refresh", "tiny")
    names = ("tiny__echo", "tiny__fail", "tiny__ecko", "resting__echo", "unasked__echo")

    stories = {name: json.loads(tiny.run("why", name, "--json").stdout)["verdict"] for name in names}

    assert list(stories.values()) == ["available", "hidden", "missing", "disabled", "not discovered"]
    assert tiny.starts == 1


def test_why_of_a_missing_tool_is_not_found(tiny):
    """The answer is on stdout; the exit code is for scripts."""
    result = tiny.run("why", "nobody__nothing")

    assert result.returncode == 7
    assert "No server named 'nobody'" in result.stdout


SEEKER = """
from toolcrib import Deprecation, tool
@tool(version="2.1.0", category="search", capabilities=["net"], timeout_s=7.5, examples=[{"word": "ant"}],
      deprecated=Deprecation("it is slow.", "look_up"))
def seek(word: str) -> str:
    "Seek a word."
    return word
"""


def test_show_tells_all_that_a_native_definition_says(toolcrib):
    """Its module stands beside toolcrib.toml."""
    (toolcrib.project / "seeker.py").write_text(SEEKER)
    toolcrib.config.write_text("native = ['seeker']\n")

    shown = toolcrib.run("show", "seek").stdout

    for line in ("leaves   deprecated: it is slow. Use look_up instead.", "version  2.1.0", "for      search",
                 "needs    net", "timeout  7.5 s", 'such as  {"arguments":{"word":"ant"}}'):  # fmt: skip
        assert line in shown
