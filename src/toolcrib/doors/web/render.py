"""Pages: a template and its values become an answer; htmx gets a part of the page, everybody else the whole."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.access import may_approve, may_operate
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import HTML, Answer
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web import words
from toolcrib.doors.web.callers import CallerNames
from toolcrib.doors.web.notices import notice_of
from toolcrib.doors.web.static_files import StaticFiles, load_static_files
from toolcrib.stores.token_file import token_file
from toolcrib.stores.tokens import TokenBook
from toolcrib.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation."""

    name: str
    path: str
    icon: str
    key: str
    """``g`` and this letter jump there."""
    for_operators: bool = False


PLACES = (
    Place("Overview", "/", "gauge", "o"),
    Place("Servers", "/servers", "server", "s", for_operators=True),
    Place("Tools", "/tools", "tool", "t"),
    Place("Live calls", "/calls", "pulse", "l"),
    Place("Approvals", "/approvals", "inbox", "a"),
    Place("Audit", "/audit", "log", "u", for_operators=True),
    Place("Knowledge base", "/kb", "book", "k"),
    Place("Connect", "/connect", "plug", "c"),
    Place("Settings", "/settings", "cog", "e", for_operators=True),
)


@dataclass(frozen=True, slots=True)
class Me:
    """Whoever looks at the page, as templates see them."""

    name: str
    csrf: str
    is_operator: bool
    is_system: bool
    """Whether nothing is out of reach, programs on this machine included."""


def me_of(visit: Visit) -> Me:
    """Whoever visits."""
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

    from toolcrib.doors.web import charts
    from toolcrib.doors.web.compiled import CompiledTemplates
    from toolcrib.doors.web.icons import icon

    made = Environment(
        loader=PackageLoader("toolcrib.doors.web", "templates"),
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

    def __init__(self, premises: Premises) -> None:
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

    def render(self, visit: Visit, template: str, *, status: int = 200, **values: Any) -> Answer:
        """A page for somebody who is signed in; only its content when htmx asks for it."""
        layout = "layouts/fragment.html" if is_fragment(visit) else "layouts/base.html"
        return self._answer(status, template, layout=layout, **self._around(visit), **values)

    def render_bare(self, template: str, *, status: int = 200, **values: Any) -> Answer:
        """A page for anybody, without navigation."""
        return self._answer(status, template, layout="layouts/bare.html", **values)

    def _answer(self, status: int, template: str, **values: Any) -> Answer:
        text = self.environment.get_template(template).render(values)
        return Answer(status, text.encode("utf-8", "replace"), HTML)

    def _around(self, visit: Visit) -> dict[str, Any]:
        me, path = me_of(visit), visit.request.path.decode("latin-1")
        return {
            "me": me,
            "places": [place for place in PLACES if place.path in self.paths and self._is_for(place, me)],
            "here": path,
            "waiting": self.waiting(visit),
            "notice": notice_of(visit.query),
            "project": self.premises.project.directory.name or "/",
        }

    def _is_for(self, place: Place, me: Me) -> bool:
        return me.is_operator or not place.for_operators

    def waiting(self, visit: Visit) -> int:
        """How many questions wait that this visitor may answer."""
        return len(self.premises.crib.inbox.open_to(visit.caller)) if may_approve(visit.caller) else 0


def is_fragment(visit: Visit) -> bool:
    """Whether htmx asks for a part of a page; one that goes back in history wants the whole."""
    header = visit.request.header
    return header(b"hx-request") is not None and not (header(b"hx-history-restore-request") or header(b"hx-boosted"))
