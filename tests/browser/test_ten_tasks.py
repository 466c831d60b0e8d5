"""The ten things people come to the page for, each done in a real browser, with scripts and without.

Call a tool · approve a call · find out why a server is broken · add a server · restrict a tool · see what tools cost
and leave some out · add documents · import servers · connect a client · sign in at a server.
"""

import json
import re
import shlex
import sys
import tomllib

import pytest
import pytest_asyncio
from playwright.async_api import expect
from tests.browser.chromium import Person, open_person
from tests.browser.demo import SHOP
from tests.server.web.workbench import Agent

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPTS = {"with scripts": True, "without scripts": False}
OTHER_PROGRAM = {"with scripts": "drawings", "without scripts": "invoices"}
"""A server that another program has, for each way."""
IDLE = {"with scripts": "calendar__book_meeting", "without scripts": "github__list_workflows"}
NEW = {"with scripts": "rooms", "without scripts": "desks"}


@pytest.fixture(params=SCRIPTS)
def way(request) -> str:
    return request.param


@pytest_asyncio.fixture(loop_scope="module")
async def owner(demo, chromium, way):
    """Somebody at the overview."""
    async with open_person(chromium, demo.page, java_script_enabled=SCRIPTS[way]) as person:
        await person.come_back(demo.cookie())
        await person.go("/")
        yield person
        assert person.troubles.told == []


async def press(person: Person, role: str, name: str) -> None:
    await person.page.get_by_role(role, name=name).first.click()


async def test_call_a_tool(owner: Person):
    """Found by what it is for, filled in, run; what comes back stands beside the form."""
    await press(owner, "link", "Tools")
    search = owner.page.locator("input[name=q]")
    await search.fill("one issue")
    await search.press("Enter")
    await owner.page.get_by_role("link", name="github__get_issue").click()
    await owner.page.get_by_label("repo").fill("acme/shop")
    await owner.page.get_by_label("number").fill("412")
    await press(owner, "button", "Run")

    await expect(owner.page.locator("#result")).to_contain_text("It worked")
    await expect(owner.page.locator(".mini li").first).to_contain_text("success")
    await owner.page.get_by_role("link", name="Again").first.click()
    await expect(owner.page.get_by_label("number")).to_have_value("412")


async def test_approve_a_call(demo, owner: Person, way):
    """The question is the first thing one sees; the agent gets its answer."""
    number = 500 + list(SCRIPTS).index(way)
    called = demo.agent("claude-code", "github__merge_pull_request", repo="acme/shop", number=number)
    question = owner.page.locator("article", has_text=f'"number": {number}')
    await owner.go("/approvals")
    await reload_until(owner, f'"number": {number}')
    await owner.go("/")
    await expect(owner.page.locator(".todo li").first).to_contain_text(
        "github__merge_pull_request waits for your answer"
    )
    await press(owner, "link", "Answer")
    await question.get_by_role("button", name="Allow once").click()

    await expect(question).to_have_count(0)
    assert called.result()["isError"] is False


async def reload_until(person: Person, words: str) -> None:
    """Where there are scripts the page follows by itself."""
    found = person.page.get_by_text(words)
    while not await found.count():
        link = person.page.get_by_role("link", name="Reload")
        if await link.is_visible():
            await link.click()
            await person.page.wait_for_load_state()
        else:
            await expect(found.first).to_be_visible()


async def test_find_out_why_a_server_is_broken(owner: Person):
    """From the overview: the cause in a line, what it wrote last, each attempt, and one button."""
    broken = owner.page.locator(".todo li", has_text="database is not available")
    await expect(broken).to_contain_text("Something it depends on refuses connections")
    await broken.get_by_role("link", name="See why").click()

    autopsy = owner.page.locator(".autopsy")
    await expect(autopsy).to_contain_text("Something it depends on refuses connections")
    await expect(autopsy).to_contain_text("FATAL: connection refused. Is the database running")
    await expect(autopsy).to_contain_text("Next: start what it connects to")
    await expect(owner.page.locator(".attempts li.bad").first).to_contain_text("UTC")
    await expect(owner.page.locator("main .button.primary")).to_have_text("Try again")


async def test_add_a_server(demo, owner: Person, way):
    """A program of this machine, with its tools a moment later."""
    face = demo.program.home / "faces" / "calendar.json"
    await press(owner, "link", "Add a server")
    await press(owner, "link", "A program here")
    await owner.page.get_by_label("Name", exact=True).first.fill(NEW[way])
    await owner.page.get_by_label("Command").fill(shlex.join([sys.executable, str(SHOP / "demo_server.py"), str(face)]))
    await press(owner, "button", "Add and test")

    await expect(owner.page.locator("h1 + .badge")).to_have_text("ready")
    await expect(owner.page.get_by_role("link", name="free_slots")).to_be_visible()


async def test_restrict_a_tool(demo, owner: Person, way):
    """Several at once from the list; what counts is what the file says."""
    policy = {"with scripts": "ask", "without scripts": "deny"}[way]
    await press(owner, "link", "Tools")
    await owner.page.get_by_label("Choose files__write_file").check()
    await owner.page.get_by_label("With the chosen").select_option(policy)
    await press(owner, "button", "Set policy")

    row = owner.page.locator("tr", has=owner.page.get_by_role("link", name="files__write_file"))
    await expect(row.locator("[data-label=Policy]")).to_have_text(policy)
    written = tomllib.loads(demo.program.config.read_text())["security"]["policies"]
    assert written["files__write_file"] == policy


async def test_see_what_tools_cost_and_leave_some_out(owner: Person, way):
    """What nobody uses is named; left out it is offered to nobody, and can be taken back."""
    tool = IDLE[way]
    await press(owner, "link", "See what could be left out")
    await owner.page.get_by_label(tool).check()
    await press(owner, "button", "Leave out what is chosen")
    await expect(owner.page.get_by_text("1 tool left out.")).to_be_visible()
    await expect(owner.page.get_by_label(tool)).to_have_count(0)

    await owner.go(f"/tools/{tool}")
    await owner.page.locator(".policy-form select").select_option("allow")
    await press(owner, "button", "Set")
    await expect(owner.page.get_by_role("heading", name="Arguments")).to_be_visible()


async def test_add_documents(owner: Person, way):
    """Uploaded, found by their words, shown as they were meant, and taken out again."""
    stem = f"parking-{way.split()[0]}"
    await press(owner, "link", "Knowledge base")
    page = b"# Parking\n\nVisitors park in the *blue* zone behind the bakery.\n"
    await owner.page.get_by_label("Files", exact=True).set_input_files(
        {"name": f"{stem}.md", "mimeType": "text/markdown", "buffer": page}
    )
    await owner.page.locator("form[action='/kb/upload'] input[name=collection]").fill(stem)
    await press(owner, "button", "Upload")
    await owner.page.get_by_role("searchbox").fill("bakery")
    await owner.page.get_by_label("Collection", exact=True).first.select_option(stem)
    await owner.page.get_by_role("button", name="Search", exact=True).click()
    await owner.page.get_by_role("link", name="Parking", exact=True).click()
    await expect(owner.page.locator(".rendered em")).to_have_text("blue")

    await owner.page.get_by_role("link", name=stem).click()
    await press(owner, "button", "Reindex")
    await expect(owner.page.get_by_text(f"The index of {stem} is built anew.")).to_be_visible()
    await owner.go(f"/kb/collection?id={stem}")
    await owner.page.locator(".head").get_by_role("link", name="Remove").click()
    await press(owner, "button", "Remove it")
    await expect(owner.page.get_by_text(f"{stem} was taken out")).to_be_visible()


async def test_import_servers_of_other_programs(demo, owner: Person, way):
    """What is chosen is written, what is not stays out, and the next look knows."""
    name, cursor = OTHER_PROGRAM[way], demo.program.home / ".cursor" / "mcp.json"
    known = json.loads(cursor.read_text())
    known["mcpServers"][name] = {"url": f"https://{name}.example/mcp"}
    cursor.write_text(json.dumps(known))
    await press(owner, "link", "Servers")
    await press(owner, "link", "Import")
    for other in ("linear", "notes", "time"):
        await owner.page.get_by_label(other).uncheck()
    await press(owner, "button", "Take over what is chosen")
    await expect(owner.page.locator(".toast")).to_be_visible()
    await owner.go("/servers/import")

    await expect(owner.page.locator(".candidates li", has_text=name)).to_contain_text("already here")
    servers = tomllib.loads(demo.program.config.read_text())["servers"]
    assert servers[name]["url"] == f"https://{name}.example/mcp"
    assert "linear" not in servers


async def test_connect_a_client(demo, owner: Person):
    """What is to be pasted into the client's file is what that file holds, and leads to the tools."""
    await press(owner, "link", "Connect")
    await owner.page.get_by_role("link", name="Cursor").click()
    await expect(owner.page.get_by_text("Put this into ~/.cursor/mcp.json")).to_be_visible()

    told = json.loads(await owner.page.locator("#snippet").inner_text())["mcpServers"]["toolcrib"]
    assert told["url"] == f"{demo.url}/mcp"
    assert "TOOLCRIB_TOKEN" in told["headers"]["Authorization"]
    called = Agent(demo.serving.port, demo.tokens["cursor"], "calendar__free_slots", {"person": "Kim"}).start()
    assert called.result()["isError"] is False


async def test_sign_in_at_a_server(demo, owner: Person):
    """From what the overview asks for, over the server's own pages, and back to its tools."""
    demo.program.run("logout", "tracker")
    demo.owner.post("/servers/tracker/refresh")
    await owner.go("/")
    await owner.page.locator(".todo li", has_text="tracker wants you to sign in").get_by_role("link").click()
    await owner.page.locator("main").get_by_role("link", name="Sign in", exact=True).click()
    ours = list(owner.troubles.told)
    await press(owner, "button", "Sign in")
    await owner.page.locator("input[name=login]").fill("ada")
    await owner.page.locator("input[name=password]").fill("x")
    await press(owner, "button", "Sign-in")
    await press(owner, "button", "Continue")
    await expect(owner.page.get_by_role("heading", name="You are signed in at tracker")).to_be_visible()
    owner.troubles.told[:] = ours  # what the pages of others ask for is theirs
    await press(owner, "link", "Look at tracker")

    await expect(owner.page.locator("h1 + .badge")).to_have_text("ready")
    await expect(owner.page.get_by_role("link", name="whoami")).to_be_visible()


def test_there_are_ten():
    """Each is named at the top of this file, and is a test."""
    found = [name for name in globals() if name.startswith("test_") and name != "test_there_are_ten"]
    named = re.split(r" · ", " ".join(__doc__.partition("\n\n")[2].split()).rstrip("."))

    assert len(found) == len(named) == 10
