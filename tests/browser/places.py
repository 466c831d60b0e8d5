"""Every page there is, by its route, with the addresses at which it is looked at."""

from dataclasses import dataclass

from tests.browser.demo import Demo, found


@dataclass(frozen=True)
class Look:
    """One address of a page, and what must be there to work with, with or without JavaScript."""

    name: str
    path: str
    action: str = ""
    """The main action, as a selector; reached with the Tab key."""


def looks(demo: Demo) -> dict[str, list[Look]]:
    """The pages of the demonstration, by route."""
    call, running, entry = demo.newest_call(), demo.newest_call("running"), demo.newest_entry()
    return {
        "/signin": [Look("signin", "/signin", "button:text-is('Sign in')")],
        "/": [Look("overview", "/", "main a:has-text('Add a server')")],
        "/servers": [Look("servers", "/servers", "main a:has-text('Add a server')")],
        "/servers/{name}": [
            Look("server", "/servers/github", "button:has-text('Test')"),
            Look("server-broken", "/servers/database", "button:has-text('Try again')"),
            Look("server-sign-in", "/servers/tracker", "main a:has-text('Sign in')"),
        ],
        "/servers/add": [
            Look("server-add", "/servers/add", "button:has-text('Add and test')"),
            Look("server-add-command", "/servers/add?kind=command", "button:has-text('Add and test')"),
        ],
        "/servers/{name}/edit": [Look("server-edit", "/servers/database/edit", "button:has-text('Save and test')")],
        "/servers/{name}/remove": [Look("server-remove", "/servers/github/remove", "button:has-text('Remove it')")],
        "/servers/import": [Look("import", "/servers/import", "button:has-text('Take over what is chosen')")],
        "/costs": [Look("costs", "/costs", "button:has-text('Leave out what is chosen')")],
        "/connect": [
            Look("connect", "/connect", "main a:has-text('Cursor')"),
            Look("connect-vscode", "/connect?client=vscode&token=yes", "main a:has-text('Cursor')"),
        ],
        "/oauth/start/{name}": [Look("sign-in-at", "/oauth/start/tracker", "main button:has-text('Sign in')")],
        "/oauth/callback": [
            Look("sign-in-failed", "/oauth/callback?code=1&state=unknown", "main a:has-text('Servers')")
        ],
        "/oauth/authorize": [Look("consent", demo.consent(), "button:has-text('Let it in')")],
        "/settings": [Look("settings", "/settings", "main a:has-text('Tokens')")],
        "/settings/policies": [Look("policies", "/settings/policies", "main form button[type=submit]")],
        "/settings/about": [Look("about", "/settings/about", "main a:has-text('Tokens')")],
        "/settings/tokens": [Look("tokens", "/settings/tokens", "button:has-text('Create')")],
        "/settings/clients": [Look("clients", "/settings/clients", "main a:has-text('Tokens')")],
        "/settings/sessions": [Look("sessions", "/settings/sessions", "button:has-text('Sign out everywhere')")],
        "/confirm": [Look("confirm", "/confirm?next=/settings/tokens", "button:has-text('Go on')")],
        "/tools": [
            Look("tools", "/tools", "input[name=q]"),
            Look("tools-nothing", "/tools?q=zzz", "a:has-text('Show all tools')"),
        ],
        "/tools/{name}": [
            Look("tool", "/tools/github__search_issues", "button:has-text('Run')"),
            Look("tool-held", "/tools/weather__forecast", "button:has-text('Accept it as it is now')"),
            Look("tool-json", "/tools/github__create_issue?as=json", "button:has-text('Run')"),
            Look("tool-nested", "/tools/calendar__book_meeting", "button:has-text('Add one')"),
            Look("tool-schema", "/tools/github__search_issues?as=schema", "main a:text-is('Form')"),
        ],
        "/resources": [
            Look("resources", "/resources", "input[name=q]"),
            Look("resources-nothing", "/resources?q=zzz", "a:has-text('Show all resources')"),
        ],
        "/resources/{name}": [
            Look("resource", "/resources/files__docs%3A%2F%2Frelease.md", "button:has-text('Read')"),
            Look("template", "/resources/files__docs%3A%2F%2Fdecisions%2F%7Byear%7D%2F%7Btopic%7D", "input[name=uri]"),
        ],
        "/prompts": [Look("prompts", "/prompts", "input[name=q]")],
        "/prompts/{name}": [
            Look("prompt", "/prompts/github__review", "button:has-text('Get')"),
            Look("prompt-held", "/prompts/weather__trip", "button:has-text('Accept it as it is now')"),
        ],
        "/calls": [Look("calls", "/calls", "button:has-text('End')")],
        "/calls/{id}": [
            Look("call", f"/calls/{call}", "main a:has-text('The tool')"),
            Look("call-running", f"/calls/{running}", "button:has-text('End this call')"),
        ],
        "/approvals": [Look("approvals", "/approvals", "button:has-text('Allow once')")],
        "/audit": [Look("audit", "/audit", "button:has-text('Verify')")],
        "/audit/{seq}": [Look("audit-entry", f"/audit/{entry}", "main summary")],
        "/kb": [
            Look("kb", "/kb", "main form button"),
            Look("kb-search", "/kb?q=refund+days&mode=search", "main form button"),
            Look("kb-answer", "/kb?q=How+long+may+goods+be+returned%3F&mode=ask", "main form button"),
        ],
        "/kb/remove": [Look("kb-remove", "/kb/remove?collection=handbook", "main form button")],
        "/kb/collection": [Look("kb-collection", "/kb/collection?id=handbook", "main a:has-text('Returning goods')")],
        "/kb/document": [Look("kb-document", document(demo), "main a")],
        "/{path...}": [Look("not-found", "/nowhere", "main a")],
    }


def document(demo: Demo) -> str:
    return found(demo.owner, "/kb?q=refund&mode=search", r'href="(/kb/document[^"]+)"').replace("&amp;", "&")


NO_PAGES = {
    "/static/{version}/{path...}": "files",
    "/oauth/authorize": "only with what a client asks for: test_consent.py",
    "/invite": "only with an invitation: test_consent.py",
    "/favicon.ico": "a picture",
    "/.well-known/toolcrib-client.json": "for authorization servers",
    "/palette.json": "for the palette",
    "/calls/stream": "news",
    "/approvals/stream": "news",
    "/audit/export": "a download",
    "/kb/export": "a download",
    "/tools/{name}/try": "leads back to the tool",
    "/tools/{name}/running": "a part of its page",
    "/resources/{name}/read": "leads back to the resource",
    "/prompts/{name}/get": "leads back to the prompt",
}
