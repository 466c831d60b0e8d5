"""``toolcrib chat``: talk to a model that has all the tools."""

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any

import msgspec

from toolcrib.agents.loop import (
    Agent,
    AgentEvent,
    AgentSettings,
    Done,
    ModelSaid,
    Started,
    ToolFinished,
    UserSaid,
    turns_of,
)
from toolcrib.cli.asking import attach_terminal, read_line
from toolcrib.cli.console import Console
from toolcrib.cli.content import read_arguments
from toolcrib.cli.failures import FAILURE, OK, report
from toolcrib.cli.invoke import Options, arg, command, read_stdin
from toolcrib.cli.logs import one_shot_log
from toolcrib.cli.opening import load_here, opened
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import CALL_SLOW
from toolcrib.core.offers import OfferKind
from toolcrib.crib.crib import Crib
from toolcrib.crib.sources import open_model
from toolcrib.crib.window import with_resources
from toolcrib.schema.signature import signature
from toolcrib.schema.text import printable
from toolcrib.stores.paths import Environment, for_network

INTERRUPTED = 130
PROMPT = "› "
VALUE_SHOWN = 40
ARGUMENTS_SHOWN = 100
ENDED = {
    "turns": "It stopped at the limit of turns; ask it to go on.",
    "budget": "It stopped at its limit of tokens; ask it to go on.",
    "length": "The answer was cut off at the limit of tokens; ask it to go on.",
    "refusal": "The provider stopped this answer.",
}


class Talk:
    """One conversation; Ctrl-C ends an answer, and at the prompt the conversation."""

    def __init__(self, console: Console, agent: Agent, crib: Crib) -> None:
        self._console, self._agent, self._crib = console, agent, crib
        self._is_mid_line = False
        self._tools = 0

    async def converse(self) -> int:
        """Ask and answer until the person leaves."""
        while (line := await self._read()) is not None:
            question = line.strip()
            if question in ("/exit", "/quit"):
                break
            if question == "/clear":
                self._agent.turns.clear()
                self._console.say("The conversation begins anew.", "dim")
            elif question.split()[:1] == ["/prompt"]:
                await self._begin_with(_words(question)[1:])
            elif question.startswith("/"):
                self._console.say(
                    "/prompt lists prompts, /prompt NAME key=value begins with one, /clear begins anew, /exit leaves;"
                    " all else goes to the model.",
                    "dim",
                )
            elif question:
                await self.answer(question)
        return OK

    async def _begin_with(self, words: list[str]) -> None:
        """Have the model answer a prompt of a server; without a name, list them."""
        prompts = {prompt.name: prompt for prompt in await self._crib.offers(OfferKind.PROMPT)}
        if not words:
            for name, prompt in prompts.items():
                self._console.say(f"  {printable(signature(name, prompt.input_schema, prompt.description))}")
            if not prompts:
                self._console.say("No server offers prompts.", "dim")
            return
        try:
            known = prompts.get(words[0])
            arguments = read_arguments(words[1:], None, known.input_schema if known else {})
            turns = turns_of(await self._crib.get(words[0], arguments))
        except ToolcribError as error:
            report(error)
            return
        self._agent.turns.extend(turns[:-1])
        await self.answer(turns[-1])

    async def answer(self, question: UserSaid) -> int:
        """One answer; what goes wrong with it is told, and the conversation goes on."""
        self._tools = 0
        answering = asyncio.ensure_future(self._show(self._agent.run(question)))
        with _interrupts(answering.cancel):
            try:
                done = await answering
            except asyncio.CancelledError:
                self._break_line()
                self._console.say("Stopped.", "yellow")
                return INTERRUPTED
            except ToolcribError as error:
                self._break_line()
                return report(error)
            finally:
                self._console.end_status()
        self._sum_up(done)
        return OK if done is not None and done.reason == "end" else FAILURE

    async def _show(self, events: AsyncGenerator[AgentEvent, None]) -> Done | None:
        self._console.status("thinking …")
        async with aclosing(events):
            async for event in events:
                match event:
                    case ModelSaid(text):
                        self._say(text)
                    case Started(_, tool, arguments):
                        self._break_line()
                        self._console.status(f"{tool}({shown_arguments(arguments)})")
                    case ToolFinished():
                        self._finished(event)
                    case Done():
                        self._break_line()
                        return event
        return None

    def _say(self, text: str) -> None:
        self._console.end_status()
        self._console.out.write(printable(text) if self._console.out.isatty() else text)
        self._console.out.flush()
        self._is_mid_line = not text.endswith("\n")

    def _break_line(self) -> None:
        if self._is_mid_line:
            self._console.out.write("\n")
            self._console.out.flush()
            self._is_mid_line = False

    def _finished(self, event: ToolFinished) -> None:
        self._tools += 1
        took = f"{event.seconds:.2f} s" if event.seconds < 10 else f"{event.seconds:.0f} s"
        if event.answer.is_error:
            first = event.answer.text.strip().splitlines()[:1] or [""]
            self._console.say(f"  ✗ {event.tool}  {took}  {first[0][:ARGUMENTS_SHOWN]}", "red")
        else:
            self._console.say(f"  ✓ {event.tool}  {took}", "dim")
        self._console.status("thinking …")

    def _sum_up(self, done: Done | None) -> None:
        if done is None:
            return
        if done.reason in ENDED:
            self._console.say(ENDED[done.reason], "yellow")
        if self._console.is_live:
            tools = f"{self._tools} tool call{'' if self._tools == 1 else 's'}, " if self._tools else ""
            self._console.say(f"{tools}{done.usage.total:,} tokens", "dim")

    async def _read(self) -> str | None:
        """The next line; ``None`` at the end, or when Ctrl-C was pressed."""
        self._console.err.write(self._console.paint(f"\n{PROMPT}", "bold", "cyan", talk=True))
        self._console.err.flush()
        reading = asyncio.ensure_future(read_line(sys.stdin.fileno()))
        with _interrupts(reading.cancel), suppress(asyncio.CancelledError):
            return await reading or None
        self._console.say("")
        return None


def _words(line: str) -> list[str]:
    """The words of a line; quotes keep those of one value together."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """The arguments in one short line."""
    shown = ", ".join(f"{name}={_value(value)}" for name, value in arguments.items())
    return shown if len(shown) <= ARGUMENTS_SHOWN else shown[: ARGUMENTS_SHOWN - 1] + "…"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_SHOWN else text[: VALUE_SHOWN - 1] + "…"


@contextmanager
def _interrupts(do: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C does this, here."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, do)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


SYSTEM = "You are a helpful assistant in a terminal. Be brief. Use the tools when they help."


@command(
    arg("words", nargs="*", default=[], metavar="WORD", help="a question to answer and be done"),
    arg("--model", metavar="PROVIDER:MODEL", help="anthropic, openai, openai-responses or ollama"),
    arg("--system", default=SYSTEM, metavar="TEXT", help="what the model is told beforehand"),
    arg("--tool", action="append", metavar="NAME", help="the only tools it may use [all]"),
    arg("--max-turns", type=int, default=20, metavar="COUNT", help="answers to one question [20]"),
    arg("--budget", type=int, metavar="TOKENS", help="tokens for one question [no limit]"),
    examples="""\
examples:
  toolcrib chat --model ollama:llama3.2
  toolcrib chat --model anthropic:claude-sonnet-4-5 What changed in this repository today?
  git diff | toolcrib chat Write a commit message for this.""",
)
async def run_chat(options: Options, console: Console) -> int:
    """Converse, or answer one question."""
    loaded = load_here(options)
    model = open_model(options.model, loaded.config.model, for_network(Environment(), loaded.config))
    question = _question(options)
    log = one_shot_log(options, console)
    log.untold |= {CALL_SLOW} if log.untold else set()  # every call is shown with its time
    settings = AgentSettings(
        system=options.system,
        max_turns=options.max_turns,
        max_tokens=loaded.config.model.max_tokens,
        budget=options.budget,
        tools=frozenset(options.tool) if options.tool else None,
    )
    async with opened(loaded, console, log, one_shot=False) as crib:
        attach_terminal(console, crib.desk.attach)
        toolbox = with_resources(crib)
        talk = Talk(console, Agent(toolbox, model, settings), crib)
        if question:
            return await talk.answer(question)
        tools = len(await toolbox.tools())
        console.say(f"{model.name} with {tools} tools. /prompt lists prompts, /exit or Ctrl-C leaves.", "dim")
        return await talk.converse()


def _question(options: Options) -> str:
    """The words of the command line, with what is piped in below them."""
    piped = "" if sys.stdin.isatty() else read_stdin().strip()
    return "\n\n".join(part for part in (" ".join(options.words), piped) if part)
