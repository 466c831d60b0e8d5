"""Calls as the page shows them: which ones, and a waterfall of where the time went."""

from dataclasses import asdict, dataclass

from markupsafe import Markup
from msgspec import structs

from toolcrib.calls.live import SUCCESS, CallEntry, LiveCall
from toolcrib.server.views.caller import CallerView
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.tool_rows import place_with

RUNNING = "running"
FAILED = "failed"
STEP_NAMES = {"approval": "Waited for a person", "queue": "Waited for a place", "tool": "The tool itself"}


def shown_call(view: CallerView, call: LiveCall) -> CallEntry:
    """A call as it can be seen; of one that runs, with how long it has taken so far."""
    return structs.replace(call.view(), duration_ms=view.seconds(call) * 1000)


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls are looked at."""

    tool: str = ""
    server: str = ""
    caller: str = ""
    outcome: str = ""
    """``running``, ``success``, ``failed``, or the code of an error."""

    @classmethod
    def of(cls, visit: PageRequest) -> "CallFilter":
        """From an address."""
        return cls(*map(visit.word, cls.__slots__))

    @property
    def address(self) -> str:
        """Where this is shown."""
        return place_with("/calls", {name: value for name, value in asdict(self).items() if value})

    def fits(self, call: LiveCall) -> bool:
        """Whether a call is looked at."""
        return (
            self.tool.casefold() in call.tool.casefold()
            and self.server in ("", call.server)
            and self.caller in ("", call.caller)
            and self._fits_outcome(call)
        )

    def _fits_outcome(self, call: LiveCall) -> bool:
        if self.outcome == RUNNING:
            return call.is_running
        if self.outcome == FAILED:
            return not call.is_running and call.outcome != SUCCESS
        return self.outcome in ("", call.outcome)


def waterfall(call: CallEntry) -> Markup:
    """Where the time went: one bar for each step, placed by when it began."""
    total_ms = call.duration_ms or 0.0
    steps = [(step.name, step.start_ms, total_ms if step.end_ms is None else step.end_ms) for step in call.steps]
    bars = [_bar(*step, max(total_ms, 0.001)) for step in (("all", 0.0, total_ms), *steps)]
    return Markup('<ol class="fall">{}</ol>').format(Markup("").join(bars))


def _bar(name: str, start_ms: float, end_ms: float, whole_ms: float) -> Markup:
    left = min(99.5, 100 * start_ms / whole_ms)
    width = max(0.5, min(100 - left, 100 * (end_ms - start_ms) / whole_ms))
    return Markup(
        '<li><span class="fall-name">{}</span><svg class="fall-track step-{}" role="img" aria-label="{}">'
        '<rect class="rail" width="100%" height="100%" rx="3"/>'
        '<rect class="fill" x="{:.2f}%" width="{:.2f}%" height="100%" rx="3"/></svg>'
        '<span class="fall-time">{}</span></li>'
    ).format(
        STEP_NAMES.get(name, "The whole call" if name == "all" else name),
        name if name in STEP_NAMES else "all",
        f"from {start_ms:.1f} to {end_ms:.1f} ms",
        left,
        width,
        _ms(end_ms - start_ms),
    )


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:,.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.2f} s"
