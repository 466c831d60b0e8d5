"""Pages: a template and its values become an answer; notices, decisions for the audit log, news for open pages."""

import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from toolcrib.core.access import may_approve, may_operate
from toolcrib.core.audit import AuditEntry
from toolcrib.core.events import News
from toolcrib.core.tool import SecurityLevel
from toolcrib.server.answers import HTML, HttpAnswer, HttpProblem, see_other, with_pauses
from toolcrib.server.visit import PageRequest, ServedProject
from toolcrib.server.web import words
from toolcrib.server.web.static_files import GUARDING, NO_STORE, StaticFiles, load_static_files
from toolcrib.server.web.words import CallerNames
from toolcrib.stores.access_tokens import TokenBook, token_file
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
    "enabled": "Server {name} is switched on.",
    "ended": "The call of {name} was ended.",
    "forgotten": "Forgotten. The next call of {name} asks again.",
    "imported": "The servers you chose were taken over.",
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
    "signed_out": "That browser is signed out.",
}
FAILED = {
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


PLACES = (
    NavigationEntry("Overview", "/", "gauge", "o"),
    NavigationEntry("Servers", "/servers", "server", "s", for_operators=True),
    NavigationEntry("Tools", "/tools", "tool", "t"),
    NavigationEntry("Live calls", "/calls", "pulse", "l"),
    NavigationEntry("Approvals", "/approvals", "inbox", "a"),
    NavigationEntry("Audit", "/audit", "log", "u", for_operators=True),
    NavigationEntry("Knowledge base", "/kb", "book", "k"),
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


def make_environment(
    *, static: Callable[[str], str], who: Callable[[str], str], at_home: Callable[[Path | str], str]
) -> "Environment":
    """Jinja, with every value escaped and nothing missing passed over."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from toolcrib.server.web import charts
    from toolcrib.server.web.compiled import CompiledTemplates
    from toolcrib.server.web.words import icon

    made = Environment(
        loader=PackageLoader("toolcrib.server.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=CompiledTemplates(),
    )
    made.globals |= {"icon": icon, "charts": charts, "static": static, "version": VERSION}
    made.filters |= {
        name: getattr(words, name) for name in ("ago", "at", "clock", "count", "duration", "kind", "short", "span")
    }
    made.filters |= {"who": who, "at_home": at_home}
    return made


def compile_templates(environment: "Environment") -> None:
    """Compile every template; the code is kept for all sites of this process."""
    for name in environment.list_templates():
        environment.get_template(name)


class Pages:
    """Makes answers of templates; compiled ones are kept."""

    def __init__(self, premises: ServedProject) -> None:
        self.premises = premises
        self.paths: frozenset[str] = frozenset()
        """What is there to go to; the navigation shows nothing else."""

    @cached_property
    def static(self) -> StaticFiles:
        """The files beside the pages."""
        return load_static_files()

    @cached_property
    def tokens(self) -> TokenBook:
        """The tokens that were given to others."""
        given, env = self.premises.tokens, self.premises.project.around.env
        return given if given is not None else token_file(env, time.time)

    @cached_property
    def callers(self) -> CallerNames:
        """What callers are called."""
        return CallerNames(self.tokens)

    def at_home(self, path: Path | str) -> str:
        """A path as a person writes it: their own directory is ``~``."""
        home = self.premises.project.around.env.get("HOME", "")
        text = str(path)
        return f"~{text.removeprefix(home)}" if home and text.startswith(f"{home}/") else text

    @cached_property
    def environment(self) -> "Environment":
        """Where the templates of this site are."""
        return make_environment(static=self.static.url, who=self.callers.name_of, at_home=self.at_home)

    def render(self, visit: PageRequest, template: str, *, status: int = 200, **values: Any) -> HttpAnswer:
        """A page for somebody who is signed in; only its content when htmx asks for it."""
        layout = "layouts/fragment.html" if is_fragment(visit) else "layouts/base.html"
        return self._answer(status, template, layout=layout, **self._around(visit), **values)

    def render_bare(self, template: str, *, status: int = 200, **values: Any) -> HttpAnswer:
        """A page for anybody, without navigation."""
        return self._answer(status, template, layout="layouts/bare.html", **values)

    def _answer(self, status: int, template: str, **values: Any) -> HttpAnswer:
        text = self.environment.get_template(template).render(values)
        return HttpAnswer(status, text.encode("utf-8", "replace"), HTML)

    def _around(self, visit: PageRequest) -> dict[str, Any]:
        me, path = me_of(visit), visit.request.path.decode("latin-1")
        return {
            "me": me,
            "places": [place for place in PLACES if place.path in self.paths and self._is_for(place, me)],
            "here": path,
            "waiting": self.waiting(visit),
            "notice": notice_of(visit.query),
            "project": self.premises.project.directory.name or "/",
        }

    def _is_for(self, place: NavigationEntry, me: Me) -> bool:
        return me.is_operator or not place.for_operators

    def waiting(self, visit: PageRequest) -> int:
        """How many questions wait that this visitor may answer."""
        return len(self.premises.crib.inbox.open_to(visit.caller)) if may_approve(visit.caller) else 0


def is_fragment(visit: PageRequest) -> bool:
    """Whether htmx asks for a part of a page; one that goes back in history wants the whole."""
    header = visit.request.header
    return header(b"hx-request") is not None and not (header(b"hx-history-restore-request") or header(b"hx-boosted"))


async def write_down(pages: Pages, visit: PageRequest, entry: AuditEntry) -> None:
    """Write down what this visitor decides, before it is done: what cannot be recorded does not happen."""
    entry = msgspec.structs.replace(entry, caller=visit.caller.id, caller_kind=visit.caller.kind)
    await pages.premises.crib.audit.commit(entry)


async def note_server(pages: Pages, visit: PageRequest, decision: str, name: str) -> None:
    """Write down who changed which server."""
    await write_down(pages, visit, AuditEntry("server", server=name, decision=decision))


EVENT_STREAM = b"text/event-stream"
PAUSE_S = 15.0
"""After so long without news a line is sent all the same, and it is looked whether the visitor is still signed in."""

Concerns = Callable[[News], bool]


async def stream_news(
    pages: Pages,
    visit: PageRequest,
    topics: frozenset[str],
    concerns: Concerns,
    beat: Callable[[], object] = lambda: None,
) -> HttpAnswer | None:
    """Tell a page of news that concern its visitor until it is closed; ``beat`` is called now and then meanwhile."""
    bulletin = pages.premises.bulletin
    if bulletin is None:
        raise HttpProblem(503, "TOOL_UNAVAILABLE", "No news are gathered here.")
    headers = (NO_STORE, (b"x-accel-buffering", b"no"), *GUARDING)
    if visit.request.method == b"HEAD":
        return HttpAnswer(200, b"", EVENT_STREAM, headers)
    exchange = visit.exchange
    exchange.start_stream(200, EVENT_STREAM, headers)
    exchange.write(b"retry: 3000\n: toolcrib\n\n")
    try:
        async with aclosing(with_pauses(bulletin.read(topics), PAUSE_S)) as told:
            async for news in told:
                if not _is_signed_in(pages, visit):
                    return None
                beat()
                if news is None or not concerns(news):
                    exchange.write(b": still here\n\n" if news is None else b"")
                else:
                    exchange.write(_event(news))
                await exchange.drain()
    finally:
        if exchange.streaming:
            exchange.end()
    return None


def _is_signed_in(pages: Pages, visit: PageRequest) -> bool:
    sign_ins = pages.premises.sign_ins
    return sign_ins.may_stay(visit.caller) if visit.signed_in is None else sign_ins.of(visit.request) is not None


def _event(news: News) -> bytes:
    told = {name: news.data[name] for name in ("id", "state", "outcome") if name in news.data}
    return b"event: news\ndata: %b\n\n" % msgspec.json.encode({"topic": news.topic, **told}, enc_hook=str)
