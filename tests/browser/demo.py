"""A toolcrib as one finds it after a busy morning: servers of every state, calls, a question, entries in the audit."""

import base64
import hashlib
import json
import re
import shlex
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from tests.browser.shop.faces import FACES, MORE, TURNED, TURNED_PROMPT
from tests.cli.program import Program, Serving
from tests.fleet.oauth import OAuthProvider, oauth_provider
from tests.fleet.running import until
from tests.server.web.site import Visitor, sign_in
from tests.server.web.workbench import Agent

SHOP = Path(__file__).parent / "shop"
BROKEN = (
    "import sys; sys.stderr.write('connecting to postgres at localhost:5432\\n"
    "FATAL: connection refused. Is the database running, and is DATABASE_URL right?\\n'); sys.exit(1)"
)
REST = """
[servers.docs]
url = "https://docs.example/mcp"
description = "The public documentation"
enabled = false

[serve]
oauth = "builtin"

[kb]
docs = false
embedder = "none"
add_from = ["documents"]

[calls]
timeout = 600

[security]
ask_timeout = 600

[security.policies]
github__merge_pull_request = "ask"
github__delete_branch = "deny"
"calendar__*" = "allow"
"""
CALLS = [
    ("github__search_issues", {"repo": "acme/shop", "query": "login"}),
    ("github__get_issue", {"repo": "acme/shop", "number": 412}),
    ("files__read_file", {"path": "docs/release.md"}),
    ("calendar__free_slots", {"person": "Kim"}),
    ("github__delete_branch", {"repo": "acme/shop", "branch": "release/2.4"}),
    ("github__get_issue", {"repo": "acme/shop", "number": "four"}),
    ("files__list_folder", {"path": "src"}),
    ("github__create_issue", {"repo": "acme/shop", "title": "Export drops the last row"}),
    ("github__search_issues", {"repo": "acme/shop", "query": "export", "state": "all"}),
]
QUESTION = ("github__merge_pull_request", {"repo": "acme/shop", "number": 415, "method": "squash"})


@dataclass
class Demo:
    """A served toolcrib with something to look at."""

    program: Program
    serving: Serving
    owner: Visitor
    tokens: dict[str, str] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.serving.port}"

    @property
    def page(self) -> str:
        """Where the owner finds the page."""
        return f"http://{self.owner.host}"

    def cookie(self) -> str:
        """What the owner's browser sends; whoever has it was asked just now who they are."""
        token = (self.program.home / "state" / "toolcrib" / "token").read_text().strip()
        assert self.owner.post("/confirm", token=token).status == 303
        return self.owner.cookie

    def link(self) -> str:
        """A link that signs the owner in, once."""
        return sign_in_link(self.program, self.url)

    def consent(self) -> str:
        """Where a client that nobody knows yet sends the owner."""
        back = "http://127.0.0.1:33418/callback"
        challenge = base64.urlsafe_b64encode(hashlib.sha256(b"v" * 43).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._register(back),
            "redirect_uri": back,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"/oauth/authorize?{urlencode(asked)}"

    def _register(self, back: str) -> str:
        body = json.dumps({"client_name": "Cursor", "redirect_uris": [back]}).encode()
        asked = urllib.request.Request(f"{self.url}/oauth/register", body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)["client_id"]

    def agent(self, who: str, tool: str, **arguments: object) -> Agent:
        self.agents.append(Agent(self.serving.port, self.tokens[who], tool, arguments).start())
        return self.agents[-1]

    def newest_call(self, outcome: str = "success") -> str:
        return found(self.owner, f"/calls?outcome={outcome}", r'id="call-([\w-]+)"')

    def newest_entry(self) -> str:
        return found(self.owner, "/audit", r'href="/audit/(\d+)"')


def found(visitor: Visitor, path: str, pattern: str) -> str:
    """The first piece of a page that fits; waits for it to appear."""

    def look() -> list[str]:
        return re.findall(pattern, visitor.get(path).text)

    until(lambda: bool(look()), deadline_s=150, what=f"{pattern} in {path}")
    return look()[0]


def sign_in_link(program: Program, url: str) -> str:
    printed = program.run("open", "--print", "--url", url)
    assert printed.returncode == 0, printed.stderr
    return re.search(r"http\S+", printed.stdout)[0]


def server_table(program: Program, name: str, about: str) -> str:
    face = program.home / "faces" / f"{name}.json"
    face.parent.mkdir(exist_ok=True)
    face.write_text(json.dumps(FACES[name]))
    if name in MORE:
        Path(f"{face}.more").write_text(json.dumps(MORE[name]))
    args = json.dumps([str(SHOP / "demo_server.py"), str(face)])
    return f'[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\ndescription = "{about}"'


def furnish(program: Program, provider: OAuthProvider) -> None:
    """Write the configuration, and let one server turn after its tools were accepted."""
    program.project.mkdir(parents=True)
    tables = [
        server_table(program, "github", "Issues, pull requests and workflows"),
        server_table(program, "files", "The files of this project"),
        server_table(program, "calendar", "Who has time, and when"),
        server_table(program, "weather", "Forecasts"),
        f"[servers.database]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-c', BROKEN])}\n"
        'description = "Orders and customers"\nenv = { DATABASE_URL = "postgres://shop:hunter2@localhost/shop" }',
        f'[servers.tracker]\nurl = "{provider.url}"\ndescription = "Bugs, and who works on them"',
    ]
    program.config.write_text("\n\n".join(["[connect]\nattempts = 1", *tables, REST]))
    program.run("servers", "refresh")
    shutil.copytree(SHOP / "documents", program.project / "documents")
    for name in ("handbook", "notes"):
        folder = str(program.project / "documents" / name)
        added = program.run("kb", "add", folder, "--collection", name)
        assert added.returncode == 0, added.stderr
    (program.home / "faces" / "weather.json").write_text(json.dumps([TURNED, *FACES["weather"][1:]]))
    (program.home / "faces" / "weather.json.more").write_text(json.dumps({"prompts": [TURNED_PROMPT]}))


def write_other_programs(home: Path) -> None:
    """What Cursor and Claude Desktop would have on this machine."""
    cursor = {"linear": {"url": "https://linear.example/mcp"}, "time": {"command": "uvx", "args": ["mcp-server-time"]}}
    desktop = {"notes": {"command": "npx", "args": ["-y", "notes-mcp", "--folder", "~/notes"]}}
    for path, servers in ((".cursor/mcp.json", cursor), (".config/Claude/claude_desktop_config.json", desktop)):
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"mcpServers": servers}))


def work(demo: Demo) -> None:
    """A morning's calls; one still runs and one waits for an answer at the end."""
    for name in ("github", "files", "calendar", "weather", "database", "tracker"):
        demo.owner.post(f"/servers/{name}/refresh")
    for turn, (tool, arguments) in enumerate(CALLS * 2):
        demo.agent("claude-code" if turn % 3 else "cursor", tool, **arguments).result()
    demo.owner.get("/approvals")
    demo.agent("cursor", "files__index_folder", path="src")
    demo.agent("claude-code", QUESTION[0], **QUESTION[1])
    found(demo.owner, "/approvals", r'action="/approvals/(\d+|[\w-]+)" class="actions answers"')
    found(demo.owner, "/calls?outcome=running&tool=index", r'id="call-')


def settle(demo: Demo) -> None:
    """End what still runs or waits, so that nobody who called is left without an answer."""
    demo.owner.get("/calls")
    for name in re.findall(r'action="/calls/([\w-]+)/cancel"', demo.owner.get("/calls?outcome=running").text):
        demo.owner.post(f"/calls/{name}/cancel")
    for agent in demo.agents:
        agent.result()


@contextmanager
def open_demo(home: Path) -> Iterator[Demo]:
    with oauth_provider() as provider:
        program = Program(home / "shop")
        program.home.mkdir()
        furnish(program, provider)
        write_other_programs(program.home)
        yield from serve_demo(program)


def serve_demo(program: Program) -> Iterator[Demo]:
    tokens = {
        name: program.json("tokens", "create", name, *shlex.split(how))["token"]
        for name, how in {
            "claude-code": "--level admin --agent",
            "cursor": "--level write --agent",
            "reader": "--level read_only --server github",
        }.items()
    }
    with program.serving("serve", "--edit-commands") as serving:
        demo = Demo(program, serving, sign_in(serving, program), tokens)
        work(demo)
        try:
            yield demo
        finally:
            settle(demo)
