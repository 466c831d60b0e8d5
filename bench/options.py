"""The command line of the benchmark. Standard library only: it is read before any environment exists."""

import argparse
from dataclasses import dataclass
from pathlib import Path

FIGURES = {
    "calls": "calls through the gateway: latency at 1 caller, calls/s and CPU per call at 50",
    "list": "a warm tools/list of 1,000 tools from 10 servers",
    "start": "process start to the first complete tools/list over stdio",
    "memory": "memory of the gateway with 1,000 tools",
    "resources": "a resource of 1 MB read through the gateway: latency, reads/s and CPU per read",
    "subscriptions": "memory of 1,000 subscriptions on ten servers",
    "fault": "ten servers, one of them dead or hanging",
    "front": "the HTTP server under 20,000 pipelined requests and 1,000 silent connections",
    "faults": "every store on a disk that fails, fills up, loses power or damages files, or over a line that is cut",
    "help": "`toolcrib --help` against `python -c pass`",
    "register": "registering one native tool",
    "durability": "kill -9 in the middle of writes: nothing acknowledged may be lost",
    "kbcrash": "kill -9 while documents are added: nothing acknowledged may be lost or not be found",
    "suites": "public JSON Schema and JSON parsing suites (--data), hostile schemas",
    "config": "a project of 50 servers and 2,000 tools looked at over REST, and every page",
    "kb": "how well passages are found (--data): words, vectors, both",
    "kbspeed": "filling and searching a knowledge base of 100,000 passages (--chunks), beside others",
    "pgkb": "filling and searching a knowledge base in PostgreSQL (--chunks), with one worker and with two",
    "toolsearch": "how well and how fast tools are found (--data), beside others",
    "tokens": "what tools cost a model's context (--data): all up front, or searched",
    "shared": "own CPU per call with limits in Redis and the audit log in PostgreSQL, against the embedded stack",
    "signin": "calls to a server that people sign in at; or whether anybody is left without a token (--endurance)",
    "copy": "`toolcrib db copy` of 100,000 audit entries and 10,000 documents, killed five times on the way",
    "kills": "50 callers while servers are killed (--minutes): no read may fail, no write be made twice",
    "isolation": "starting a program at each level of isolation",
    "attack": "some 28,000 attacks on a running toolcrib, all at once (--seed)",
    "mutants": "small faults put into the modules that decide (--count, --seed): how many do the tests notice?",
    "validation": "gaps of the event loop while costly values are checked",
    "interaction": "the official SDK's interaction tests (--data), directly and through toolcrib",
    "passthrough": "which features of the protocol pass, for every pair of eras, beside others (docs/passthrough.md)",
    "foreign": "real servers that no test uses, asked directly and through toolcrib (--only): field by field",
}


@dataclass(frozen=True)
class Options:
    figure: str
    rounds: int | None  # None: what the figure thinks right
    only: tuple[str, ...]
    json: Path | None
    quick: bool
    all_peers: bool
    front: str
    back: str
    data: Path | None
    chunks: int | None = None
    minutes: float | None = None
    count: int | None = None
    seed: int = 1
    endurance: float | None = None


def parse(argv: list[str]) -> Options:
    parser = _parser()
    found = parser.parse_args(argv)
    if found.figure == "suites" and found.data is None:
        parser.error("suites needs --data DIR, the folder with json-schema/ and json-parsing/")
    if found.figure == "interaction" and found.data is None:
        parser.error("interaction needs --data DIR, the folder with the tests of the official SDK")
    if found.figure in ("kb", "toolsearch", "tokens") and found.data is None:
        parser.error(f"{found.figure} needs --data DIR, a folder of evaluation sets")
    only = tuple(name for name in found.only.split(",") if name)
    return Options(
        figure=found.figure,
        rounds=found.rounds,
        only=only,
        json=found.json,
        quick=found.quick,
        all_peers=found.all_peers,
        front=found.front,
        back=found.back,
        data=found.data,
        chunks=found.chunks,
        minutes=found.minutes,
        count=found.count,
        seed=found.seed,
        endurance=found.endurance,
    )


def _parser() -> argparse.ArgumentParser:
    figures = "\n".join(f"  {name:11} {about}" for name, about in FIGURES.items())
    parser = argparse.ArgumentParser(
        prog="bench", epilog=f"figures:\n{figures}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", choices=FIGURES, metavar="FIGURE", help="what to measure, see below")
    parser.add_argument("--rounds", type=_at_least_one, help="visits to each contender; ratios are medians over rounds")
    parser.add_argument("--only", default="", metavar="A,B", help="only these contenders")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round, not only the medians")
    parser.add_argument("--quick", action="store_true", help="short and rough: 2 rounds, short phases")
    parser.add_argument("--all-peers", action="store_true", help="also the peers that take longer to install or run")
    parser.add_argument("--front", choices=("http", "stdio"), default="http", help="calls: how the gateway is reached")
    parser.add_argument("--back", choices=("stdio", "http"), default="stdio", help="calls: what stands behind it")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="suites, kb, toolsearch, tokens, interaction: the sets"
    )
    parser.add_argument("--chunks", type=_at_least_one, metavar="N", help="kbspeed, pgkb: passages, instead of 100,000")
    parser.add_argument("--minutes", type=float, metavar="N", help="kills: how long, instead of 10")
    parser.add_argument(
        "--endurance", type=float, nargs="?", const=600.0, metavar="S", help="signin: call for so long, or 10 minutes"
    )
    parser.add_argument("--count", type=_at_least_one, metavar="N", help="mutants: how many, instead of 300")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="attack, mutants: which sample, instead of 1")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} of them measure nothing; give 1 or more")
    return number
