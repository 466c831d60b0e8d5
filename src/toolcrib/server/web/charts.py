"""Charts as SVG, made here: they need no script, and take their colours from the style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 600.0, 140.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a bar chart."""

    label: str
    value: float
    shown: str
    href: str = ""
    tone: str = "accent"


def _figure(body: str, label: str, classes: str, box: str) -> Markup:
    return Markup(  # noqa: S704 - the numbers are ours, the label is escaped
        f'<svg class="{classes}" viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )


@dataclass(frozen=True, slots=True)
class ChartColumn:
    """One column of a chart over time."""

    label: str
    good: int
    bad: int = 0

    @property
    def words(self) -> str:
        """Its numbers, for whoever points at it or reads the table."""
        return f"{self.label}: {self.good + self.bad:,}{f', {self.bad:,} failed' if self.bad else ''}"


def columns(found: Sequence[ChartColumn], label: str) -> Markup:
    """Counts over time with an axis, what failed on top; values when pointed at, and all of them as a table."""
    top = nice_top(max((one.good + one.bad for one in found), default=0))
    slot = WIDTH / max(1, len(found))
    drawn = "".join(_column(place * slot, slot, one, top) for place, one in enumerate(found))
    figure = _figure(_lines() + drawn, label, "chart columns", f"0 0 {WIDTH:g} {HEIGHT:g}")
    scale = Markup("").join(Markup("<li>{}</li>").format(f"{value:,}") for value in (top, top // 2, 0))
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td class='number'>{:,}</td><td class='number'>{:,}</td></tr>").format(
            one.label, one.good + one.bad, one.bad
        )
        for one in found
        if one.good or one.bad
    )
    table = Markup(
        '<details class="numbers"><summary>As numbers</summary><table><thead><tr><th>When</th><th class="number">Calls'
        '</th><th class="number">Failed</th></tr></thead><tbody>{}</tbody></table></details>'
    ).format(rows)
    return Markup('<div class="plot"><ol class="scale" aria-hidden="true">{}</ol>{}</div>{}').format(
        scale, figure, table if rows else ""
    )


def nice_top(largest: int) -> int:
    """The end of an axis: the smallest round number that is not below the largest value, and can be halved."""
    power = 1
    while True:
        for step in (2, 4, 10):
            if step * power >= largest:
                return step * power
        power *= 10


def _lines() -> str:
    return "".join(f'<line class="grid-line" x1="0" x2="{WIDTH:g}" y1="{y:g}" y2="{y:g}"/>' for y in (0.5, HEIGHT / 2))


def _column(left: float, slot: float, one: ChartColumn, top: int) -> str:
    tall, short = HEIGHT * one.good / top, HEIGHT * one.bad / top
    at, width = left + slot * 0.14, slot * 0.72
    body = _rect("good", at, HEIGHT - tall, width, tall) if one.good else ""
    body += _rect("bad", at, HEIGHT - tall - short, width, short) if one.bad else ""
    whole = f'<rect class="hit" x="{left:.1f}" y="0" width="{slot:.1f}" height="{HEIGHT:g}"/>'
    return f"<g><title>{escape(one.words)}</title>{whole}{body}</g>"


def _rect(tone: str, left: float, top: float, width: float, height: float) -> str:
    return f'<rect class="{tone}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{max(height, 1.0):.1f}"/>'


def bars(rows: Sequence[Bar]) -> Markup:
    """Names with numbers, longest first as given; a list for a screen reader."""
    top = max((row.value for row in rows), default=0.0) or 1.0
    return Markup('<ol class="bars">{}</ol>').format(Markup("").join(_bar(row, top) for row in rows))


def _bar(row: Bar, top: float) -> Markup:
    name = Markup('<a href="{}">{}</a>').format(row.href, row.label) if row.href else escape(row.label)
    track = Markup(
        '<svg class="track tone-{}" aria-hidden="true"><rect class="rail" width="100%" height="100%" rx="3"/>'
        '<rect class="fill" width="{:.1f}%" height="100%" rx="3"/></svg>'
    ).format(row.tone, max(0.5, 100 * row.value / top) if row.value else 0)
    return Markup('<li><span class="bar-name">{}</span>{}<span class="bar-value">{}</span></li>').format(
        name, track, row.shown
    )
