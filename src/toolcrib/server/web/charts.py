"""Charts as SVG, made here: they need no script, and take their colours from the style sheet."""

import math
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


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a donut."""

    label: str
    value: float
    tone: str


def _figure(body: str, label: str, classes: str, box: str) -> Markup:
    return Markup(  # noqa: S704 - the numbers are ours, the label is escaped
        f'<svg class="{classes}" viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f"{body}</svg>"
    )


def columns(good: Sequence[float], bad: Sequence[float], label: str) -> Markup:
    """Counts over time: what went well below, what failed on top of it."""
    top = max((a + b for a, b in zip(good, bad, strict=True)), default=0.0) or 1.0
    slot = WIDTH / max(1, len(good))
    parts = []
    for place, (fine, failed) in enumerate(zip(good, bad, strict=True)):
        tall, short = HEIGHT * fine / top, HEIGHT * failed / top
        left, width = place * slot + slot * 0.14, slot * 0.72
        if fine:
            parts.append(_rect("good", left, HEIGHT - tall, width, tall))
        if failed:
            parts.append(_rect("bad", left, HEIGHT - tall - short, width, short))
    return _figure("".join(parts), label, "chart columns", f"0 0 {WIDTH:g} {HEIGHT:g}")


def _rect(tone: str, left: float, top: float, width: float, height: float) -> str:
    return f'<rect class="{tone}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{max(height, 1.0):.1f}"/>'


def histogram(counts: Sequence[int], labels: Sequence[str], label: str) -> Markup:
    """How often something took how long; each column says its class when pointed at."""
    top, slot = max(counts, default=0) or 1, WIDTH / max(1, len(counts))
    parts = [
        f"<g><title>{escape(name)}: {number}</title>"
        + _rect("good", place * slot + slot * 0.1, HEIGHT - HEIGHT * number / top, slot * 0.8, HEIGHT * number / top)
        + "</g>"
        for place, (number, name) in enumerate(zip(counts, labels, strict=True))
    ]
    return _figure("".join(parts), label, "chart columns", f"0 0 {WIDTH:g} {HEIGHT:g}")


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


def donut(slices: Sequence[Slice], middle: str, label: str) -> Markup:
    """Parts of a whole as a ring, with the number that matters in it."""
    whole, radius = sum(part.value for part in slices) or 1.0, 42.0
    round_, turn, rings = 2 * math.pi * radius, 0.0, []
    for part in slices:
        length = round_ * part.value / whole
        rings.append(
            f'<circle class="ring tone-{part.tone}" cx="50" cy="50" r="{radius:g}" '
            f'stroke-dasharray="{length:.2f} {round_ - length:.2f}" stroke-dashoffset="{-turn:.2f}"/>'
        )
        turn += length
    return Markup(  # noqa: S704 - the numbers are ours, the texts are escaped
        f'<svg class="chart donut" viewBox="0 0 100 100" role="img" aria-label="{escape(label)}">'
        f'<circle class="ring rail" cx="50" cy="50" r="{radius:g}"/>'
        f'<g transform="rotate(-90 50 50)">{"".join(rings)}</g>'
        f'<text x="50" y="50" dy=".35em" text-anchor="middle">{escape(middle)}</text></svg>'
    )
