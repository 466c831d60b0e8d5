"""Attacks by whoever may talk MCP: messages that are none, arguments that hurt, paths and addresses that lead out."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from bench.attack.cases import Case, Finding, judge
from bench.attack.over_http import mutated
from bench.attack.target import CANARY, Target
from bench.attack.wire import MCP_HEADERS, Reply, ask, call_body, call_tool, exchange, request
from bench.workers.costly import CASES

METHODS = (
    "tools/call", "tools/list", "initialize", "ping", "server/discover", "resources/read", "prompts/get",
    "logging/setLevel", "completion/complete", "notifications/cancelled", "sampling/createMessage", "tasks/get",
    "rpc.discover", "", "toString",
)  # fmt: skip
VALUES: tuple[bytes, ...] = (
    b"null", b"0", b"-1", b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5000, b"1.0", b"true", b'""',
    b'"\\ud800"', b"[]", b"{}", b'{"a":1,"a":2}', b"[" * 2000 + b"]" * 2000, b'"' + b"x" * 100_000 + b'"',
    b'"\\u0000"', b'{"__proto__":{}}',
)  # fmt: skip


def broken_messages(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """JSON-RPC with every field replaced by every odd value, batches, and mutated bytes; sent with a good token."""
    token = target.tokens["reader"]
    fixed: list[bytes] = []
    for method in METHODS:
        for value in VALUES:
            name = json.dumps(method).encode()
            fixed.append(b'{"jsonrpc":"2.0","id":1,"method":%b,"params":%b}' % (name, value))
            fixed.append(b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":{}}' % (value, name))
            fixed.append(b'{"jsonrpc":%b,"id":1,"method":%b}' % (value, name))
            fixed.append(b'[{"jsonrpc":"2.0","id":1,"method":%b,"params":%b}]' % (name, value))
    for value in VALUES:
        fixed.append(b'{"jsonrpc":"2.0","id":1,"method":%b}' % value)
        fixed.append(value)
        fixed += [
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"%b":%b}}' % (place, value)
            for place in (b"name", b"arguments", b"_meta")
        ]
    proper = call_body("good_0__echo", {"text": "hi", "n": [1, 2.5, None]})
    while len(fixed) < count:
        fixed.append(mutated(proper, chosen))
    return (message(token, body) for body in fixed[:count])


def message(token: str, body: bytes) -> Case:
    """Any body gets an answer, and the connection its end."""

    async def case(target: Target) -> Finding:
        headers = {**MCP_HEADERS, "authorization": f"Bearer {token}"}
        reply = await exchange(target.port, request("POST", "/mcp", headers, body))
        return judge(target, reply) or ("" if reply.status else f"hang: closed without an answer: {body[:120]!r}")

    return case


def odd_arguments(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Arguments of every shape, to tools of every kind."""
    names = [
        "good_0__echo",
        "good_1__echo",
        "calculate",
        "file_read",
        "file_write",
        "file_edit",
        "file_find",
        "kb_answer",
    ]

    def value(depth: int = 0) -> Any:
        match chosen.randrange(9 if depth < 5 else 6):
            case 0:
                return chosen.choice([None, True, False])
            case 1:
                return chosen.choice([0, -1, 2**53, 2**64, 10**400, 1e308, -0.0, 1.5])
            case 2:
                return chosen.choice(["", "\x00", "\x1b[2J", "\u202e", "x" * 3000, "${ATTACK_ENV}", "{{7*7}}", "$(id)"])
            case 3 | 4 | 5:
                return chosen.choice(["text", "path", "9**9**9", "../../outside/canary", "a" * 50])
            case 6 | 7:
                return [value(depth + 1) for _ in range(chosen.randrange(5))]
            case _:
                return {
                    chosen.choice(["text", "path", "content", "expression", "x"]): value(depth + 1) for _ in range(3)
                }

    for _ in range(count):
        keys = ("text", "path", "content", "expression", "pattern", "query", "collection_ids", "limit")
        arguments = {chosen.choice(keys): value() for _ in range(chosen.randrange(4))}
        yield calling(target.tokens["owner"], chosen.choice(names), arguments)


def calling(token: str, name: str, arguments: Any, *, refused: bool = False) -> Case:
    """A call that may succeed or fail, but never leaks, crashes or hangs."""

    async def case(target: Target) -> Finding:
        return judge(target, await call_tool(target.port, token, name, arguments), refused=refused)

    return case


def beyond_grants(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Limited tokens reach for whatever is not theirs: other servers, other levels, names spelt otherwise."""
    mine = {"reader": "good_0__", "writer": "good_1__", "agent": "good_2__"}
    names = [
        "good_0__echo", "good_1__echo", "good_2__echo", "leaky__tell", "leaky__fail", "file_write", "file_read", "bash",
        "url_fetch", "delegate", "kb_answer", "evil_proper__echo", "tools_call", "native__file_write", "result_read",
    ]  # fmt: skip
    twists = (
        "{}",
        " {}",
        "{} ",
        "{}\x00",
        "{}\n",
        "../{}",
        "GOOD_0__{}",
        "good_0__../{}",
        "{}%00",
        "good_0__{}",
        "{}#",
    )
    for _ in range(count):
        who = chosen.choice(list(mine))
        name = chosen.choice(twists).format(chosen.choice(names))
        if not name.startswith(mine[who]):
            yield not_granted(who, name)
        else:
            yield calling(target.tokens[who], name, {"text": "hi"})


def not_granted(who: str, name: str) -> Case:
    """The call is refused in words that tell nothing of other servers."""

    async def case(target: Target) -> Finding:
        reply = await call_tool(target.port, target.tokens[who], name, {"text": "hi", "path": "notes.txt"})
        said = reply.body.replace(name.encode(), b"")
        if b"leaky" in said or b"evil_" in said:
            return f"leak: the name of another server in {said[:200]!r}"
        return judge(target, reply, refused=True)

    return case


OUTSIDE = (
    "../outside/canary", "link/canary", "/etc/passwd", "sub/../../outside/canary", "./../outside/canary",
    "link/../link/canary", "..\\outside\\canary", "%2e%2e/outside/canary", "..%2foutside%2fcanary",
    "~/outside/canary", "$HOME/outside/canary", "file:///etc/passwd", "/proc/self/environ",
    "/proc/self/root/etc/passwd", "/dev/fd/0", "..%c0%afoutside/canary", "sub/../../toolcrib.toml",
    "../toolcrib.toml", "../.local/state/toolcrib/tokens.json", "....//outside/canary",
    "notes.txt/../../outside/canary", "\u2025/outside/canary", "．．/outside/canary", "../outside/canary\x00.txt",
    " ../outside/canary",
)  # fmt: skip
OWN_FILES = (
    "toolcrib.toml",
    ".mcp.json",
    "ToolingManifest.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    "toolcrib.lock",
)
FILE_TOOLS: dict[str, dict[str, Any]] = {
    "file_read": {},
    "file_list": {},
    "file_write": {"content": "changed by an attack"},
    "file_edit": {"old_text": "canary", "new_text": "changed by an attack"},
    "file_find": {"pattern": "**/*"},
    "ripgrep_search": {"pattern": "canary|root:"},
}


def paths_that_lead_out(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Every file tool with every path out of the workspace, spelt in many ways; and toolcrib's own files in it."""
    twists = ("{}", "./{}", "sub/../{}", "{}/", "{}/.", "/{}", "link/../{}", "sub//{}", "{}\n")
    wanted = [(tool, twist.format(path)) for tool in FILE_TOOLS for path in (*OUTSIDE, *OWN_FILES) for twist in twists]
    chosen.shuffle(wanted)
    for number in range(count):
        tool, path = wanted[number % len(wanted)]
        yield path_out(target.tokens["owner"], tool, path)


def path_out(token: str, tool: str, path: str) -> Case:
    """Nothing of what lies outside comes back, and nothing there changes."""

    async def case(target: Target) -> Finding:
        reply = await call_tool(target.port, token, tool, {"path": path, **FILE_TOOLS[tool]})
        return judge(target, reply) or _untouched(target) or _no_passwd(reply)

    return case


def _untouched(target: Target) -> Finding:
    if (target.home / "outside" / "canary").read_text() != CANARY:
        return "passed: a file outside the workspace was changed"
    planted = [name for name in OWN_FILES if (target.home / "ws" / name).exists()]
    return f"passed: {planted[0]} was written in the workspace" if planted else ""


def _no_passwd(reply: Reply) -> Finding:
    return f"leak: {reply.body[:120]!r}" if b"root:x:0:0" in reply.raw else ""


ADDRESSES = (
    "127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]", "127.1", "0177.0.0.1", "0x7f.1", "2130706433",
    "[::ffff:127.0.0.1]", "localhost.", "LOCALHOST", "①②⑦.⓪.⓪.①", "0", "user@127.0.0.1",
)  # fmt: skip


def addresses_within(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """``url_fetch`` of this very toolcrib, by every name this machine has."""
    schemes = ("http", "https", "HTTP", "file", "ftp", "gopher", "dict", "data", "jar:http")
    for number in range(count):
        host, scheme = ADDRESSES[number % len(ADDRESSES)], chosen.choice(schemes)
        path = chosen.choice(["/api/v1/tools", "/", "/health", "/etc/passwd"])
        url = f"{scheme}://{host}:{target.port}{path}"
        yield calling(target.tokens["owner"], "url_fetch", {"url": url}, refused=True)


def evil_servers(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Tools of servers that misbehave, each in its own way."""
    for number in range(count):
        name = target.evil[number % len(target.evil)]
        yield calling(target.tokens["owner"], f"{name}__echo", {"text": chosen.choice("abc")})


def evil_libraries(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Resources and prompts of servers that misbehave, and what they have not: other servers', files, odd spellings."""
    for number in range(count):
        name = target.evil[number % len(target.evil)]
        asked = chosen.choice(LIBRARY)
        yield asking(target.tokens["owner"], *asked(name))
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        yield asking(target.tokens["owner"], method, {}, "")


def _reading(path: str) -> "Callable[[str], tuple[str, dict[str, Any], str]]":
    def ask_of(server: str) -> tuple[str, dict[str, Any], str]:
        uri = f"memo://{server}/{path}"
        return "resources/read", {"uri": uri}, uri

    return ask_of


LIBRARY = (
    _reading("page"),
    _reading("pages/7"),
    _reading("nothing"),
    _reading("../good_0/page"),
    _reading("%2e%2e/good_0/page"),
    _reading("x" * 5000),
    _reading("a/" * 1500),
    _reading("\u202e\x1b[31m"),
    lambda server: ("resources/read", {"uri": f"file://{server}//etc/passwd"}, f"file://{server}//etc/passwd"),
    lambda server: ("prompts/get", {"name": f"{server}__greet", "arguments": {"who": "you"}}, f"{server}__greet"),
    lambda server: (
        "prompts/get",
        {"name": f"{server}__greet", "arguments": {"who": "w" * 10_000_000}},
        f"{server}__greet",
    ),
    lambda server: (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": f"{server}__greet"}, "argument": {"name": "who", "value": ""}},
        "",
    ),
)


def asking(token: str, method: str, params: dict[str, Any], name: str) -> Case:
    """A request that may succeed or fail, but never leaks, crashes or hangs."""

    async def case(target: Target) -> Finding:
        reply = await ask(target.port, token, method, params, name)
        return judge(target, reply)

    return case


def costly_checks(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """Schemas and values that are costly together, as arguments and as results."""
    wanted = [(name, way) for name in CASES for way in ("in", "out")]
    chosen.shuffle(wanted)
    for number in range(count):
        name, way = wanted[number % len(wanted)]
        arguments = {"value": CASES[name].value()} if way == "in" else {}
        yield calling(target.tokens["owner"], f"costly__{name}_{way}", arguments)


def leaky_words(target: Target, chosen: random.Random, count: int) -> Iterator[Case]:
    """A server that says its secrets in every answer; what toolcrib makes of them, at every door."""
    routes = (
        "tools",
        "servers",
        "servers/leaky",
        "audit",
        "calls",
        "tools/leaky__tell",
        "events?limit=1",
        "health",
        "metrics",
    )
    pages = (
        "/",
        "/servers",
        "/servers/leaky",
        "/tools",
        "/tools/leaky__tell",
        "/audit",
        "/calls",
        "/settings",
        "/approvals",
    )
    for number in range(count):
        if number % 3 == 0:
            # After it died again and again it is left alone for seconds, which the next call waits for.
            tool = chosen.choices(("tell", "fail", "refuse", "die"), (5, 5, 5, 1))[0]
            yield calling(target.tokens["owner"], f"leaky__{tool}", {"a": "x"})
        elif number % 3 == 1:
            path = "/api/v1/" + routes[number // 3 % len(routes)] if number % 2 else pages[number // 3 % len(pages)]
            yield looking(target.tokens["owner"], path)
        else:
            yield message(target.tokens["owner"], b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}')


def looking(token: str, path: str) -> Case:
    """Whoever looks after toolcrib sees no secret either."""

    async def case(target: Target) -> Finding:
        if path.startswith("/api/v1/events"):
            return ""
        return judge(target, await exchange(target.port, request("GET", path, {"authorization": f"Bearer {token}"})))

    return case
