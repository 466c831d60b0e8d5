"""What it costs to be signed in at a server: each call against one with a static header, calls while a token is renewed
beside the official SDK's provider; and with ``--endurance`` whether anybody is ever left without a token."""

import asyncio
import json
import secrets
import shutil
import tempfile
import time
from collections import Counter
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import environments
from bench.contenders import TOOLCRIB, Argv, Command, Place
from bench.figures import calls
from bench.figures.durability import Never, Subject
from bench.goals import SUBJECT, AtLeast, AtMost, Goal, Limit, Ratio, Results, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import all_up, started, tell, visit
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.signing_in import SERVER, SignInStage, sign_in_stage
from bench.wire.base import WireError

STATIC, SDK = "static header", "SDK's provider"
NOTHING_BEHIND = Shape(servers=0, tools=0)
CPU = Ratio("own CPU per call at 50 callers, signed in vs a static header", "cpu_us_50", [STATIC])
LATENCY = Ratio("latency at 1 caller, signed in vs a static header", "p50_us", [STATIC])
FOUR = Ratio("4 calls of 0.5 s at once vs the official SDK's provider", "four_s", [SDK])
COLUMNS = (*calls.COLUMNS, Column("4 calls of 0.5 s at once, s", "four_s"))
GOALS: list[Goal] = [
    AtMost(CPU, 1.05),
    AtMost(LATENCY, 1.05),
    Limit("4 calls of 0.5 s while their token is renewed", "four_s", 0.6, "s"),
    AtLeast(FOUR, 3),
]
NOTES = ["the token of toolcrib's four calls is renewed meanwhile, that of the SDK's is good for an hour"]


async def measure(options: Options) -> Report:
    if options.endurance is not None:
        return await _endure(options.endurance)
    rounds = options.rounds or (2 if options.quick else 7)
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        async with sign_in_stage(Path(place)) as stage:
            results = await _compare(stage, Path(place), rounds, 0.4 if options.quick else 1.5)
    return Report(f"calls to a server that people sign in at, {rounds} rounds", COLUMNS, results, GOALS, NOTES)


async def _compare(stage: SignInStage, place: Path, rounds: int, phase_s: float) -> Results:
    signed, beside = place / "signed", place / "beside"
    signed.mkdir()
    beside.mkdir()
    got = await stage.sign_in(signed)
    await stage.sign_in(beside)
    header = f'headers = {{ Authorization = "Bearer {got["token"]}" }}\n'
    contenders = [
        replace(TOOLCRIB, http=_command(stage.table(), signed), stdio=None),
        replace(TOOLCRIB, name=STATIC, http=_command(stage.table(header), signed), stdio=None),
    ]
    async with Scenario(NOTHING_BEHIND) as scenario:
        scenario.servers[SERVER] = {"url": stage.url}
        async with all_up(contenders, scenario, "http") as up:
            quotas = {running.name: quota for running in up if (quota := await calls.size_up(running, phase_s))}
            ready = [running for running in up if running.name in quotas]
            results = await visit(ready, rounds, lambda running: calls.one_round(running, quotas[running.name]))

    async def four_calls(subject: Subject) -> Round:
        if subject.name == SUBJECT:
            return {"four_s": (await stage.order("parallel", home=str(beside)))["s"]}
        return {"four_s": await _ask_sdk(stage.url, got["token"], got["client"])}

    four = await visit([Subject(SUBJECT), Subject(SDK)], rounds, four_calls)
    together = zip(results.get(SUBJECT, []), four[SUBJECT], strict=False)
    return {**results, SUBJECT: [{**one, **other} for one, other in together], SDK: four[SDK]}


def _command(tables: str, signed: Path) -> Command:
    """toolcrib in a home where somebody has signed in already; only who has no header of their own makes use of it."""

    def command(place: Place) -> Argv:
        shutil.copytree(signed, place.home, dirs_exist_ok=True)
        return _serve(place, tables)

    return command


def _serve(place: Place, tables: str, *more: str) -> Argv:
    config = place.home / "toolcrib.toml"
    config.write_text(tables)
    program = str(environments.toolcrib_program())
    return [program, "serve", "--config", str(config), "--host", "127.0.0.1", "--port", str(place.port), *more]


async def _ask_sdk(url: str, token: str, client: str) -> float:
    python = environments.ready("sdk") / "bin" / "python"
    script = str(environments.HERE / "workers" / "sdk_signed_in.py")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(str(python), script, url, token, client, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    if process.returncode:
        raise RuntimeError(err.decode(errors="replace").strip().splitlines()[-1])
    seconds: float = json.loads(out)["s"]
    return seconds


# Endurance

REPLICAS, CALLERS = 3, 50
LIFE_S = 2
RESTARTS = 5
THINK_S = 0.05  # between two calls of one caller: what is measured is what fails, not how fast it goes
PATIENCE_S = 120.0
WORDS_SHOWN = 5
WITHOUT_TOKEN = ("AUTH_REQUIRED", "sign in", "the token", "HTTP 401")
ENDURED = (
    Column("calls", "calls"),
    Column("failed for lack of a token", "tokenless"),
    Column("failed otherwise", "failed"),
    Column("reuse detected", "reused"),
    Column("tokens renewed", "renewals"),
    Column("renewals refused", "unrefreshed"),
    Column("PostgreSQL restarted", "restarts"),
    Column("slowest call ms", "slowest_ms"),
)
NEVER: list[Goal] = [
    Never("runs in which a call failed for lack of a token", "tokenless"),
    Never("runs in which a refresh token was spent twice", "reused"),
]


@dataclass
class Endured:
    """What the callers saw."""

    calls: int = 0
    slowest_s: float = 0.0
    tokenless: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def note(self, words: str) -> None:
        kind = self.tokenless if any(mark in words for mark in WITHOUT_TOKEN) else self.failed
        kind[" ".join(words.split())[:200]] += 1


async def _endure(seconds: float) -> Report:
    endured, key = Endured(), secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        home = Path(place)
        async with sign_in_stage(home, is_shared=True, accessS=LIFE_S) as stage, AsyncExitStack() as up:
            await stage.sign_in(home, key)
            scenario = await up.enter_async_context(Scenario(NOTHING_BEHIND))
            scenario.servers[SERVER] = {"url": stage.url}
            replicas = [await up.enter_async_context(_replica(n, stage, key, scenario)) for n in range(REPLICAS)]
            before = await stage.order("seen")
            restarts = await _call_for(seconds, stage, replicas, endured)
            seen = await stage.order("seen")
    found: Round = {
        "calls": endured.calls,
        "tokenless": endured.tokenless.total(),
        "failed": endured.failed.total(),
        "reused": seen["reuse"],
        "renewals": seen["refreshes"] - before["refreshes"],
        "unrefreshed": seen["unrefreshed"],
        "restarts": restarts,
        "slowest_ms": endured.slowest_s * 1000,
    }
    words = (endured.tokenless + endured.failed).most_common(WORDS_SHOWN)
    title = f"{CALLERS} callers, {REPLICAS} replicas, tokens that live {LIFE_S} s, for {seconds:g} s"
    return Report(title, ENDURED, {SUBJECT: [found]}, NEVER, [f"  {count} x {text}" for text, count in words])


def _replica(number: int, stage: SignInStage, key: str, scenario: Scenario) -> AbstractAsyncContextManager[Running]:
    tables = stage.table(f'[servers.{SERVER}.tools.echo]\nlevel = "read_only"\n')
    sealed_by = ["env", f"TOOLCRIB_VAULT_KEY={key}"]

    def command(place: Place) -> Argv:
        return [*sealed_by, *_serve(place, tables, "--replica", f"r{number}")]

    contender = replace(TOOLCRIB, name=f"replica-{number}", http=command, stdio=None)
    return started(Running(contender, scenario, scenario.home(), "http"), 60)


async def _call_for(seconds: float, stage: SignInStage, replicas: list[Running], endured: Endured) -> int:
    ends_at = time.monotonic() + seconds
    restarting = asyncio.ensure_future(_restart_now_and_then(stage, seconds, ends_at))
    callers = (_call_again_and_again(replicas[n % REPLICAS], ends_at, n, endured) for n in range(CALLERS))
    await asyncio.gather(*callers)
    return await restarting


async def _restart_now_and_then(stage: SignInStage, seconds: float, ends_at: float) -> int:
    restarts = 0
    while time.monotonic() + (pause_s := seconds / (RESTARTS + 1)) < ends_at - 1:
        await asyncio.sleep(pause_s)
        took_s = (await stage.order("restart"))["s"]
        restarts += 1
        tell(f"  PostgreSQL was away for {took_s:.1f} s")
    return restarts


async def _call_again_and_again(replica: Running, ends_at: float, who: int, endured: Endured) -> None:
    tool, number = replica.contender.tool_name(SERVER), 0
    while time.monotonic() < ends_at:
        number, began = number + 1, time.monotonic()
        text = f"{who}.{number}"
        endured.calls += 1
        try:
            if await asyncio.wait_for(replica.reach.call(tool, text), PATIENCE_S) != text:
                endured.note("another answer")
        except TimeoutError:
            endured.note(f"no answer within {PATIENCE_S:g} s")
        except WireError as error:
            endured.note(str(error))
        endured.slowest_s = max(endured.slowest_s, time.monotonic() - began)
        await asyncio.sleep(THINK_S)
