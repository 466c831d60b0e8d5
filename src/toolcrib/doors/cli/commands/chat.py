"""``toolcrib chat``: talk to a model that has all the tools."""

import os
import sys

from toolcrib.agents.loop import Agent, AgentSettings
from toolcrib.config.thinking import ModelConfig
from toolcrib.core.events import CALL_SLOW
from toolcrib.doors.cli.asking import attach_terminal
from toolcrib.doors.cli.chatting import Talk
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.invoke import Options, Parser, add_common, read_stdin
from toolcrib.doors.cli.logs import one_shot_log
from toolcrib.doors.cli.opening import assemble_here, load_here
from toolcrib.doors.cli.running import run_once
from toolcrib.models.http_model import HttpModel
from toolcrib.thinking import model_settings

SYSTEM = "You are a helpful assistant in a terminal. Be brief. Use the tools when they help."
EXAMPLES = """\
examples:
  toolcrib chat --model ollama:llama3.2
  toolcrib chat --model anthropic:claude-sonnet-4-5 What changed in this repository today?
  git diff | toolcrib chat Write a commit message for this."""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", nargs="*", default=[], metavar="WORD", help="a question to answer and be done")
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="anthropic, openai, openai-responses or ollama")
    parser.add_argument("--system", default=SYSTEM, metavar="TEXT", help="what the model is told beforehand")
    parser.add_argument("--tool", action="append", metavar="NAME", help="the only tools it may use [all]")
    parser.add_argument("--max-turns", type=int, default=20, metavar="COUNT", help="answers to one question [20]")
    parser.add_argument("--budget", type=int, metavar="TOKENS", help="tokens for one question [no limit]")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Converse, or answer one question."""
    return run_once(_chat(options, console))


async def _chat(options: Options, console: Console) -> int:
    loaded = load_here(options)
    model = HttpModel(model_settings(options.model, loaded.config.model, os.environ))
    question = _question(options)
    log = one_shot_log(options, console)
    log.untold |= {CALL_SLOW} if log.untold else set()  # every call is shown with its time
    crib = await assemble_here(loaded, log)
    try:
        attach_terminal(console, crib.desk.attach)
        talk = Talk(console, Agent(crib, model, _settings(options, loaded.config.model)))
        if question:
            return await talk.answer(question)
        console.say(f"{model.name} with {len(await crib.tools())} tools. /exit or Ctrl-C leaves.", "dim")
        return await talk.converse()
    finally:
        console.end_status()
        await crib.close()


def _settings(options: Options, config: ModelConfig) -> AgentSettings:
    return AgentSettings(
        system=options.system,
        max_turns=options.max_turns,
        max_tokens=config.max_tokens,
        budget=options.budget,
        tools=frozenset(options.tool) if options.tool else None,
    )


def _question(options: Options) -> str:
    """The words of the command line, with what is piped in below them."""
    piped = "" if sys.stdin.isatty() else read_stdin().strip()
    return "\n\n".join(part for part in (" ".join(options.words), piped) if part)
