"""``toolcrib chat`` in a real terminal, with a model that says what it is told to."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.library import library_script
from tests.doubles.llm import LlmDouble, Step
from tests.fleet import launcher
from tests.fleet.running import until

TOOLCRIB = Path(sys.executable).with_name("toolcrib")
NATIVE = '''
import asyncio
from toolcrib import tool

@tool(security_level="read_only")
async def look(at: str) -> str:
    """Look at something."""
    return f"{at} is blue"

@tool(security_level="write")
async def paint(colour: str) -> str:
    """Paint the house."""
    return f"painted {colour}"

@tool(security_level="read_only")
async def hang() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""
'''
CONFIG = 'native = ["painting"]\n\n[kb]\nenabled = false\n\n[security.policies]\npaint = "ask"\n'


class Terminal:
    """A terminal of its own, by tmux: keys go in, the screen comes out."""

    def __init__(self, folder: Path, command: list[str], env: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        setting = [f"{key}={shlex.quote(value)}" for key, value in env.items()]
        line = " ".join(["env", *setting, *map(shlex.quote, command)])
        size = ("-x", "100", "-y", "40", "-c", str(folder))
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", f"trap : INT; {line}; echo left with $?; cat"
        )

    def _tmux(self, *words: str) -> str:
        env = {**os.environ, "LC_ALL": "C.UTF-8"}
        command = ["tmux", "-u", "-S", self._socket, *words]
        done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def awaits(self, *texts: str) -> str:
        until(lambda: all(text in self.screen() for text in texts), deadline_s=150, what=f"{texts} on the screen")
        return self.screen()

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def start(tmp_path):
    (tmp_path / "painting.py").write_text(NATIVE)
    (tmp_path / "toolcrib.toml").write_text(CONFIG)
    made = []

    def begin(llm, *words, provider="anthropic"):
        env = {
            "HOME": str(tmp_path),
            "TERM": "screen-256color",
            "PYTHONPATH": str(tmp_path),
            "ANTHROPIC_API_KEY": "sk-secret",
            "ANTHROPIC_BASE_URL": llm.url,
            "OPENAI_API_KEY": "sk-secret",
            "OPENAI_BASE_URL": llm.url,
        }
        terminal = Terminal(tmp_path, [str(TOOLCRIB), "chat", "--model", f"{provider}:small", *words], env)
        made.append(terminal)
        return terminal

    yield begin
    for terminal in made:
        terminal.close()


def test_a_conversation_shows_words_tools_and_questions_where_they_happen(start):
    steps = (
        Step("I look.", (("look", {"at": "the sky"}), ("look", {"colour": "x"}))),
        Step("The sky is blue."),
        Step("", (("paint", {"colour": "red"}),)),
        Step("Your house is red now."),
    )
    with LlmDouble(*steps) as llm:
        terminal = start(llm)
        terminal.awaits("anthropic:small with 4 tools")
        terminal.type("What colour is the sky?", "Enter")
        screen = terminal.awaits("The sky is blue.", "2 tool calls, 36 tokens")
        assert screen.index("I look.") < screen.index("✓ look") < screen.index("The sky is blue.")
        assert "✗ look" in screen

        terminal.type("Paint my house red", "Enter")
        asked = terminal.awaits("[n]o?")
        assert "wants to call paint (write)" in asked
        assert "colour: red" in asked
        terminal.type("o", "Enter")
        terminal.awaits("✓ paint", "Your house is red now.")

        terminal.type("/exit", "Enter")
        terminal.awaits("left with 0")
    assert [turn["role"] for turn in llm.asked[-1]["messages"]] == ["user", "assistant"] * 3 + ["user"]


def test_a_prompt_of_a_server_begins_a_conversation(start, tmp_path):
    """``/prompt`` lists them; with a name, its messages go to the model, which may read resources by two tools."""
    script, diary = library_script(tmp_path), tmp_path / "diary"
    server = f'[servers.lib]\ncommand = "{sys.executable}"\nargs = ["{script}", "{diary}"]\n'
    (tmp_path / "toolcrib.toml").write_text(f"{CONFIG}\n{server}")
    steps = (Step("", (("resource_read", {"uri": "memo://lib/about"}),)), Step("Hello, Ann Lee."))
    with LlmDouble(*steps) as llm:
        terminal = start(llm)
        terminal.awaits("anthropic:small with")
        terminal.type("/prompt", "Enter")
        terminal.awaits("lib__greet(who: str, how?: str) - Greets")
        terminal.type("/prompt lib__greet", "Enter")
        terminal.awaits("missing required field 'who'")
        terminal.type("/prompt lib__greet who='Ann Lee'", "Enter")
        terminal.awaits("✓ resource_read", "Hello, Ann Lee.")
    assert llm.asked[0]["messages"][0]["content"] == [{"type": "text", "text": "Say hello to Ann Lee."}]
    assert "library" in str(llm.asked[1]["messages"][-1])


def test_ctrl_c_ends_an_answer_and_then_the_conversation(start):
    with LlmDouble(Step("One moment.", (("hang", {}),)), Step("Here again.")) as llm:
        terminal = start(llm, provider="openai")
        terminal.awaits("with 4 tools")
        terminal.type("Wait for ever", "Enter")
        terminal.awaits("hang(")
        terminal.type("C-c")
        terminal.awaits("Stopped.")
        terminal.type("Still there?", "Enter")
        terminal.awaits("Here again.")
        terminal.type("C-c")
        terminal.awaits("left with 0")


def test_what_a_model_writes_cannot_take_over_the_terminal(start):
    with LlmDouble(Step("\x1b]0;owned\x07\x1b[2Jstill here \x1b[31mred")) as llm:
        terminal = start(llm)
        terminal.awaits("with 4 tools")
        terminal.type("Hi", "Enter")
        screen = terminal.awaits("still here")

    assert "with 4 tools" in screen


def run(llm_url, folder, *words, given=""):
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": llm_url}
    return launcher.run([*launcher.TOOLCRIB, "chat", *words], stdin=given, timeout_s=150, cwd=folder, env=env)


def test_one_question_is_answered_on_stdout_and_what_is_piped_in_goes_with_it(tmp_path):
    with LlmDouble(Step("", (("clock_now", {}),)), Step("Late.")) as llm:
        done = run(llm.url, tmp_path, "--model", "openai:small", "What time?", given="It is dark.\n")

    assert (done.stdout, done.returncode) == ("Late.\n", 0)
    assert "✓ clock_now" in done.stderr
    assert llm.asked[0]["messages"][-1]["content"] == "What time?\n\nIt is dark."


def test_a_model_that_refuses_is_told_without_the_key(tmp_path):
    with LlmDouble(Step(status=401, body={"error": {"message": "bad key sk-secret"}})) as llm:
        done = run(llm.url, tmp_path, "--model", "openai:small", "Hi")

    assert done.returncode != 0
    assert "HTTP 401: bad key …" in done.stderr
    assert "sk-secret" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("Hi",), "There is no model to talk to."),
        (("--model", "gpt", "Hi"), "names no model"),
        (("--model", "antropic:x", "Hi"), "Did you mean 'anthropic'?"),
        (("--model", "anthropic:x", "Hi"), "Set ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_that_cannot_be_used_says_what_to_do(words, told, tmp_path):
    done = run("", tmp_path, *words)

    assert told in done.stderr
    assert done.returncode == 1


def test_the_configured_model_is_used(tmp_path):
    with LlmDouble(Step("Configured.")) as llm:
        (tmp_path / "toolcrib.toml").write_text(
            f'[model]\nprovider = "ollama"\nmodel = "tiny"\nurl = "{llm.url}"\nmax_tokens = 77\n'
        )
        done = run("", tmp_path, "Hi")

    assert done.stdout == "Configured.\n"
    assert (llm.asked[0]["model"], llm.asked[0]["options"]["num_predict"]) == ("tiny", 77)
