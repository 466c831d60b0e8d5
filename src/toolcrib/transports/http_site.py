"""What all connections of one server share: its routes, its rules, its clock, and each other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolcrib.transports.http_exchange import Exchange
from toolcrib.transports.http_guard import Guard
from toolcrib.transports.http_limits import HttpLimits
from toolcrib.transports.http_message import Request
from toolcrib.transports.http_places import Places

Handler = Callable[[Request, Exchange], None]


@dataclass(slots=True, eq=False)
class Site:
    """One server, as its connections see it."""

    routes: Mapping[bytes, Handler]
    fallback: Handler
    guard: Guard
    limits: HttpLimits
    places: Places
    now: float = 0.0
    stopping: bool = False
    when_empty: Callable[[], None] | None = None
