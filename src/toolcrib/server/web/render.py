"""Pages: a template and its values become an answer; their routes, notices, and news for open pages."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from toolcrib.core.access import may_operate
from toolcrib.core.events import News
from toolcrib.core.offers import SecurityLevel
from toolcrib.schema.text import printable
from toolcrib.server.answers import HTML, HttpAnswer, see_other
from toolcrib.server.visit import STILL_HERE, PageRequest, ServedProject
from toolcrib.server.visit import stream_news as stream
from toolcrib.server.web import charts, words
from toolcrib.server.web.static_files import GUARDING, NO_STORE, load_static_files
from toolcrib.server.web.tool_result import TriedCalls
from toolcrib.server.web.tool_rows import tool_address
from toolcrib.server.web.words import CallerNames
from toolcrib.stores.access_tokens import TokenBook, token_file
from toolcrib.stores.paths import state_directory
from toolcrib.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment


SENTENCES = {
    "accepted": "{name} is accepted as it is now.",
    "added": "Server {name} was added.",
    "allowed": "Allowed. The call goes on.",
    "asked": "Server {name} was asked for its tools.",
    "changed": "Server {name} was changed.",
    "disabled": "Server {name} is switched off.",
    "disconnected": "Client {name} is disconnected.",
    "enabled": "Server {name} is switched on.",
    "ended": "The call of {name} was ended.",
    "forgotten": "Forgotten. The next call of {name} asks again.",
    "imported": "The servers you chose were taken over.",
    "left_out": "{name} left out.",
    "policies": "The policy of {name} is set.",
    "kb_added": "{name} is up to date.",
    "kb_imported": "The documents of {name} came in.",
    "kb_reindexed": "The index of {name} is built anew.",
    "kb_removed": "{name} was taken out. No file was touched.",
    "policy": "The policy of {name} is set.",
    "refused": "Refused. The caller was told.",
    "removed": "Server {name} was removed.",
    "restarted": "Server {name} was restarted.",
    "revoked": "The token {name} was revoked.",
    "saved": "Saved.",
    "values_off": "From the next start on, only names and kinds of arguments are kept.",
    "values_on": "From the next start on, arguments and results are kept.",
    "signed_out": "That browser is signed out.",
}
FAILED = {
    "values_overruled": "That is written down, but another file says otherwise, and the more careful one counts.",
    "policy_overruled": "The policy is written down, but another rule that fits {name} is more careful and counts.",
    "still_failing": "Server {name} could not be asked for its tools.",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence, and whether it is good news."""

    text: str
    is_good: bool = True


def notice_of(query: Mapping[str, str]) -> Notice | None:
    """The sentence that an address asks for, if it is one of ours."""
    key, name = query.get("done", ""), query.get("name", "")[:80]
    if sentence := SENTENCES.get(key):
        return Notice(sentence.format(name=name))
    if sentence := FAILED.get(key):
        return Notice(sentence.format(name=name), is_good=False)
    return None


def go_on(place: str, done: str, name: str = "") -> HttpAnswer:
    """Send a browser on after a form, with what to say there."""
    return see_other(f"{place}?{urlencode({'done': done} | ({'name': name} if name else {}))}")


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """One entry of the navigation."""

    name: str
    path: str
    icon: str
    key: str
    """``g`` and this letter jump there."""
    for_operators: bool = False
    short: str = ""
    """Its name in the bar at the bottom of a small screen; without one it is behind "More" there."""
    is_apart: bool = False
    """Whether a group begins with it."""


PLACES = (
    NavigationEntry("Overview", "/", "gauge", "o", short="Overview"),
    NavigationEntry("Approvals", "/approvals", "inbox", "a", short="Approvals"),
    NavigationEntry("Live calls", "/calls", "pulse", "l", short="Calls"),
    NavigationEntry("Tools", "/tools", "tool", "t", short="Tools", is_apart=True),
    NavigationEntry("Servers", "/servers", "server", "s", for_operators=True),
    NavigationEntry("Resources", "/resources", "file", "r"),
    NavigationEntry("Prompts", "/prompts", "quote", "p"),
    NavigationEntry("Knowledge base", "/kb", "book", "k"),
    NavigationEntry("Costs", "/costs", "coins", "m", for_operators=True, is_apart=True),
    NavigationEntry("Audit", "/audit", "log", "u", for_operators=True),
    NavigationEntry("Connect", "/connect", "plug", "c"),
    NavigationEntry("Settings", "/settings", "cog", "e", for_operators=True),
)


@dataclass(frozen=True, slots=True)
class Me:
    """Whoever looks at the page, as templates see them."""

    name: str
    csrf: str
    is_operator: bool
    is_system: bool
    """Whether nothing is out of reach, programs on this machine included."""


def me_of(visit: PageRequest) -> Me:
    """The signed-in user of this request."""
    caller = visit.caller
    return Me(
        name="you" if caller.kind == "local" else caller.id,
        csrf=visit.signed_in.csrf if visit.signed_in is not None else "",
        is_operator=visit.is_known and may_operate(caller, SecurityLevel.ADMIN),
        is_system=visit.is_known and may_operate(caller, SecurityLevel.SYSTEM),
    )


@cache
def templates() -> "Environment":
    """The templates, compiled once for all sites of this process; every value is escaped, nothing missing passed over.

    Only here is jinja2 loaded: who looks at no page does without it.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
    from jinja2.runtime import Context

    @pass_context
    def who(context: Context, caller: str) -> str:
        return context["pages"].callers.name_of(caller)  # type: ignore[no-any-return]

    @pass_context
    def at_home(context: Context, path: Path | str) -> str:
        return context["pages"].at_home(path)  # type: ignore[no-any-return]

    made = Environment(
        loader=PackageLoader("toolcrib.server.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {"icon": words.icon, "charts": charts, "static": load_static_files().url, "version": VERSION}
    made.filters |= {
        name: getattr(words, name) for name in ("ago", "count", "duration", "kind", "sentence", "short", "span", "when")
    }
    made.filters |= {"who": who, "at_home": at_home, "printable": printable, "tool_address": tool_address}
    return made


def compile_templates() -> None:
    """Compile every template."""
    for name in templates().list_templates():
        templates().get_template(name)


class Pages:
    """Makes answers of templates, for one site."""

    def __init__(self, served: ServedProject) -> None:
        self.served = served
        self.tried = TriedCalls()
        self.paths: frozenset[str] = frozenset()
        """What is there to go to."""

    @cached_property
    def tokens(self) -> TokenBook:
        """The tokens that were given to others."""
        given, env = self.served.tokens, self.served.project.around.env
        return given if given is not None else token_file(env, time.time)

    @cached_property
    def callers(self) -> CallerNames:
        """What callers are called."""
        return CallerNames(self.tokens, self.served.oauth.book if self.served.oauth is not None else None)

    def at_home(self, path: Path | str) -> str:
        """A path as a person writes it: their own directory is ``~``."""
        home = self.served.project.around.env.get("HOME", "")
        text = str(path)
        return f"~{text.removeprefix(home)}" if home and text.startswith(f"{home}/") else text

    @property
    def token_file(self) -> str:
        """Where the owner finds the token of the page."""
        return self.at_home(state_directory(self.served.project.around.env) / "token")

    def render(self, visit: PageRequest, template: str, *, status: int = 200, **values: Any) -> HttpAnswer:
        """A page for somebody who is signed in; only its content when htmx asks for it."""
        layout = "layouts/fragment.html" if is_fragment(visit) else "layouts/base.html"
        return self._answer(status, template, layout=layout, **self._around(visit), **values)

    def render_bare(self, template: str, *, status: int = 200, **values: Any) -> HttpAnswer:
        """A page for anybody, without navigation."""
        return self._answer(status, template, layout="layouts/bare.html", **values)

    def _answer(self, status: int, template: str, **values: Any) -> HttpAnswer:
        text = templates().get_template(template).render(values)
        return HttpAnswer(status, text.encode("utf-8", "replace"), HTML)

    def _around(self, visit: PageRequest) -> dict[str, Any]:
        me = me_of(visit)
        return {
            "pages": self,
            "me": me,
            "places": [place for place in PLACES if me.is_operator or not place.for_operators],
            "here": visit.request.path.decode("latin-1"),
            "waiting": visit.view.waiting(),
            "notice": notice_of(visit.query),
            "project": self.served.project.directory.name or "/",
        }


Respond = Callable[[Pages, PageRequest], Awaitable[HttpAnswer | None]]


class PageRoutes:
    """The routes of some pages; ``web/site`` lists them all."""

    def __init__(self) -> None:
        self.routes: list[tuple[str, str, Respond]] = []

    def get(self, path: str) -> Callable[[Respond], Respond]:
        """Have a function show the page of this path."""
        return self._adding("GET", path)

    def post(self, path: str) -> Callable[[Respond], Respond]:
        """Have a function take the form that is sent to this path."""
        return self._adding("POST", path)

    def _adding(self, method: str, path: str) -> Callable[[Respond], Respond]:
        def add(respond: Respond) -> Respond:
            self.routes.append((method, path, respond))
            return respond

        return add


def is_fragment(visit: PageRequest) -> bool:
    """Whether htmx asks for a part of a page; one that goes back in history wants the whole."""
    header = visit.request.header
    return header(b"hx-request") is not None and not (header(b"hx-history-restore-request") or header(b"hx-boosted"))


async def stream_news(
    visit: PageRequest,
    topics: frozenset[str],
    concerns: Callable[[News], bool],
    beat: Callable[[], object] = lambda: None,
) -> HttpAnswer | None:
    """Tell a page of news that concern its visitor until it is closed; ``beat`` is called now and then meanwhile."""

    def tell(news: News | None) -> bytes | None:
        if not _is_signed_in(visit):
            return None
        beat()
        return STILL_HERE if news is None else _event(news) if concerns(news) else b""

    hello = b"retry: 3000\n: toolcrib\n\n"
    return await stream(visit, topics, tell, headers=(NO_STORE, *GUARDING), hello=hello)


def _is_signed_in(visit: PageRequest) -> bool:
    sign_ins = visit.served.sign_ins
    return sign_ins.may_stay(visit.caller) if visit.signed_in is None else sign_ins.of(visit.request) is not None


def _event(news: News) -> bytes:
    told = {name: news.data[name] for name in ("id", "state", "outcome") if name in news.data}
    return b"event: news\ndata: %b\n\n" % msgspec.json.encode({"topic": news.topic, **told}, enc_hook=str)
