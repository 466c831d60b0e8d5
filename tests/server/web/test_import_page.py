"""Importing on the page: what is shown is what is taken."""

import json
import re
import tomllib

from tests.server.web.site import opened

SECRET = "sk-hunter2hunter2hunter2"
FOREIGN = {
    "mcpServers": {
        "far": {"url": "https://example.com/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
        "near": {"command": "uvx", "args": ["<b>near</b>"]},
    }
}


def write_foreign(program, content: dict) -> None:
    path = program.home / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def fingerprints(page: str) -> dict[str, str]:
    return dict(re.findall(r'name="(take:\w+)" value="([\w-]+)"', page))


def servers(program) -> list[str]:
    return sorted(tomllib.loads(program.config.read_text()).get("servers", {}))


def test_nothing_found_says_what_to_do(tiny):
    """An empty page would be no help."""
    with opened(tiny) as visitor:
        assert "Nothing found" in visitor.get("/servers/import").text


def test_an_address_is_taken_over_a_command_needs_the_switch(tiny):
    """What may not be taken has no box, and a forged box is refused."""
    write_foreign(tiny, FOREIGN)
    with opened(tiny) as visitor:
        page = visitor.get("/servers/import").text
        boxes = fingerprints(page)
        forged = visitor.post("/servers/import", **boxes, **{"take:near": "new-x"})
        taken = visitor.post("/servers/import", **boxes)

    assert list(boxes) == ["take:far"]
    assert "Cursor" in page
    assert "&lt;b&gt;near&lt;/b&gt;" in page
    assert SECRET not in page
    assert forged.status == 422
    assert taken.place == "/servers?done=imported"
    assert servers(tiny) == ["far", "tiny"]


def test_with_the_switch_commands_are_taken_over_too(tiny):
    """The other program's file is left as it is."""
    write_foreign(tiny, FOREIGN)
    with opened(tiny, "--edit-commands") as visitor:
        boxes = fingerprints(visitor.get("/servers/import").text)
        visitor.post("/servers/import", **boxes)
        again = visitor.get("/servers/import").text

    assert servers(tiny) == ["far", "near", "tiny"]
    assert "already here" in again
    assert json.loads((tiny.home / ".cursor/mcp.json").read_text()) == FOREIGN


def test_what_changed_after_it_was_shown_is_not_taken(tiny):
    """Somebody else may have rewritten the file between the look and the press of the button."""
    write_foreign(tiny, FOREIGN)
    with opened(tiny, "--edit-commands") as visitor:
        boxes = fingerprints(visitor.get("/servers/import").text)
        write_foreign(
            tiny, {"mcpServers": {"near": {"command": "curl", "args": ["evil"]}, "far": FOREIGN["mcpServers"]["far"]}}
        )
        reply = visitor.post("/servers/import", **boxes)

    assert reply.status == 422
    assert "changed in these files meanwhile" in reply.text
    assert servers(tiny) == ["tiny"]


def test_choosing_nothing_is_said(tiny):
    """The page comes back."""
    write_foreign(tiny, FOREIGN)
    with opened(tiny) as visitor:
        assert "Choose at least one server." in visitor.post("/servers/import").text


def test_what_hides_in_a_foreign_server_is_made_visible(tiny):
    """A person decides by what stands here, so nothing may stand here in another order than it is written."""
    write_foreign(tiny, {"mcpServers": {"far": {"url": "https://example.com/mcp/\u202egro.live"}}})
    with opened(tiny) as visitor:
        page = visitor.get("/servers/import").text

    assert "\u202e" not in page
    assert "\\u{202e}gro.live" in page
